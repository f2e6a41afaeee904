"""Gradient descent fitted to a learner: every number of steps, each at its best step size.

Few large steps and many small ones do nearly the same, and which numbers of steps are worth trying
cannot be told from their neighbours: so all are tried. In the eigenvectors of X'X, k steps multiply
the moment X'y by (1 - (1 - rate s)^k) / s, which costs no iteration; only the best is then run.

Shapes: P prompts, n points, r = min(n, d), k outputs.
"""

import math
from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import NamedTuple

import torch
from torch import Tensor

from innerloop.analysis.candidates import DESCENT, FEW, Candidate, Parameter
from innerloop.analysis.distances import Fitted, Question, run_candidate
from innerloop.analysis.refine import closest_value
from innerloop.learners import GradientDescent, Newton

MOST_STEPS = 1000
"""The most steps that are tried."""
REACH = 4.0
"""How far the total size may move from one number of steps to the next."""


class _Best(NamedTuple):
    """How far the predictions after a number of steps are, at their best size."""

    distance: float
    steps: int
    size: float


@dataclass(frozen=True, slots=True, eq=False)
class Descents:
    """Gradient descents that differ in steps and size alone, beside a learner's answers."""

    question: Question
    values: Tensor
    """(P, n, r): eigenvalues s of X'X of each prefix."""
    parts: Tensor
    """(P, n, r, k): x along an eigenvector times X'y along it."""
    rates: Tensor
    """(P, n, 1): what the gradient is multiplied by at size 1."""

    @classmethod
    def of(cls, question: Question, descent: GradientDescent) -> "Descents":
        """The spectra by Newton's method before its first step, which decomposes X'X as well."""
        prompt, state = question.prompt, Newton(steps=0).init(question.prompt)
        along = state.basis @ prompt.xs.double()[..., None]  # (P, n, r, 1)
        rates = descent.init(prompt).rates[..., None]  # (P, n, 1)
        return cls(question, state.gram, along * state.moment, rates)

    def predictions(self, steps: int, size: float = 1.0) -> Tensor:
        """Predictions (P, n, k) after so many steps of a size."""
        rates = size * self.rates  # (P, n, 1)
        moved = rates * self.values  # (P, n, r)
        # (1 - (1 - z)^k) / z, by its series where z is tiny
        kept = 1 - (1 - moved) ** steps  # (P, n, r)
        tiny = moved.abs() < 1e-8  # (P, n, r)
        factor = torch.where(tiny, float(steps), kept / moved.masked_fill(tiny, 1.0))  # (P, n, r)
        return ((factor * rates)[..., None] * self.parts).sum(dim=2)

    def at_best_size(self, steps: int, size: float, reach: float) -> _Best:
        """The best size around one, up to `reach` times smaller or larger."""
        best, distance = closest_value(
            lambda one: self.predictions(steps, one), self.question, size, reach, digits=1e-9
        )
        return _Best(distance, steps, best)


def fit_descent(question: Question) -> Fitted:
    """The best of gradient descent on the sum of squares, on their mean, and at 1/L."""
    few = question.first(FEW)
    at_largest = GradientDescent(steps=0)
    fits = [(_fit_steps(Descents.of(question, at_largest)), at_largest)]
    for descent in (GradientDescent(0, 1.0), GradientDescent(0, 1.0, average=True)):
        whole = Descents.of(question, descent)
        # Few prompts find the right numbers of steps; all of them, which it is.
        for _, steps, size in _fit_sizes(Descents.of(few, descent)):
            fits.append((whole.at_best_size(steps, size, 1.1), descent))
    (_, steps, size), descent = min(fits, key=lambda fit: fit[0].distance)
    own = None if descent is at_largest else size
    candidate = Candidate(
        family=DESCENT, learner=replace(descent, steps=steps, step_size=own),
        parameters=() if own is None else (Parameter("step_size", own),),
        note="step size 1/L" if own is None else "average" if descent.average else "",
        capped=steps == MOST_STEPS,  # else the search ended by itself
    )  # fmt: skip
    return run_candidate(candidate, steps, question)


def _numbers() -> list[int]:
    """All numbers of steps up to 64, and ever fewer beyond."""
    numbers = list(range(1, 65))
    while numbers[-1] < MOST_STEPS:
        numbers.append(min(MOST_STEPS, math.ceil(numbers[-1] * 1.05)))
    return numbers


def _beside(steps: int) -> range:
    """The numbers around one that were left out."""
    reach = max(1, round(0.06 * steps))
    return range(max(1, steps - reach), min(MOST_STEPS, steps + reach) + 1)


def _fit_sizes(descents: Descents) -> list[_Best]:
    """The best size for every number of steps; the best three numbers of steps."""
    tried: dict[int, _Best] = {}
    curvature = (descents.rates * descents.values)[:, -1].amax(dim=1).median()  # ()
    total, reach = 1 / float(curvature.clamp(min=1e-12)), 1e3
    for steps in _numbers():
        tried[steps] = descents.at_best_size(steps, total / steps, reach)
        # The total size changes little from one number of steps to the next.
        total, reach = tried[steps].size * steps, REACH
    best = min(tried.values())
    for steps in _beside(best.steps):
        tried[steps] = descents.at_best_size(steps, best.size * best.steps / steps, REACH)
    return sorted(tried.values())[:3]


def _fit_steps(descents: Descents) -> _Best:
    """The best number of steps at size 1."""

    def tried(numbers: Iterable[int]) -> list[_Best]:
        answers = ((steps, descents.predictions(steps)) for steps in numbers)  # (P, n, k) each
        distances = descents.question.distances
        return [_Best(float(distances(each).mean()), steps, 1.0) for steps, each in answers]

    best = min(tried(_numbers()))
    return min(best, *tried(_beside(best.steps)))
