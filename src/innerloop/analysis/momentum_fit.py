"""Gradient descent with momentum fitted to a learner: steps, step size and momentum together.

In the eigenvectors of X'X an iterate is the moment X'y times a factor f for each eigenvalue s, and
one step is f <- f + rate (1 - s f) + momentum (f - f before): no weights are needed to run it, and
one run tells how far every number of steps is.

Shapes: P prompts, n points, r = min(n, d), k outputs.
"""

from collections.abc import Iterator, Sequence
from itertools import product
from typing import NamedTuple

import torch
from torch import Tensor

from innerloop.analysis.candidates import FEW, MOMENTUM, Candidate, Parameter
from innerloop.analysis.descent_fit import Descents
from innerloop.analysis.distances import Fitted, Question, run_candidate
from innerloop.analysis.refine import FINE, ROUGH, closest_values
from innerloop.learners import GradientDescent, MomentumDescent

MOST_STEPS = 50
"""The most steps that are tried: with momentum, more have mostly converged."""
SIZES = tuple(2.0**power for power in range(-7, 2))
"""Step sizes in units of 1/L of the whole prompt."""
MOMENTA = (0.3, 0.5, 0.7, 0.8, 0.9, 0.95)
ENDS = (0.02, 0.99)
"""The ends of the search for the momentum: below, it is gradient descent."""
STARTS = 16
"""Numbers of steps for which step size and momentum are refined: a grid alone mixes them up."""


class _Member(NamedTuple):
    """Gradient descent with momentum, and how far it is."""

    distance: float
    steps: int
    size: float
    momentum: float


def fit_momentum(question: Question, *, worth: float) -> Fitted:
    """The closest of gradient descent with momentum on the sum of squares, and on their mean.

    Points of the grid that are farther off than `worth` are not refined: no answer comes of them.
    """
    few, fits = question.first(FEW), list[Fitted]()
    rough: list[tuple[_Member, bool]] = []
    for average in (False, True):
        descent = GradientDescent(0, 1.0, average)
        on_few = Descents.of(few, descent)
        starts = _grid(on_few)
        rough.append((starts[0], average))
        close = [start for start in starts if start.distance <= worth]
        if close:
            refined = (_refined(start, on_few, average, ROUGH) for start in close)
            near = min(refined, key=lambda one: one.mean)
            size, momentum = (one.value for one in near.candidate.parameters)
            start = _Member(near.mean, near.step, size, momentum)
            fits.append(_refined(start, Descents.of(question, descent), average, FINE))
    if not fits:
        start, average = min(rough)
        return run_candidate(_candidate(start.steps, _parameters(start), average), start.steps,
                             question)  # fmt: skip
    best = min(fits, key=lambda one: one.mean)
    return run_candidate(best.candidate, best.step, question)


def _factors(descents: Descents, size: float, momentum: float, steps: int) -> Iterator[Tensor]:
    """The factors f (P, n, r) after each of so many steps; each is overwritten two steps later."""
    rates = size * descents.rates  # (P, n, 1)
    kept = 1 + momentum - rates * descents.values  # (P, n, r)
    before, factor = torch.zeros_like(kept), torch.zeros_like(kept)  # (P, n, r) each
    for _ in range(steps):
        before.mul_(-momentum).add_(rates).addcmul_(kept, factor)
        before, factor = factor, before
        yield factor


def _predictions(descents: Descents, factor: Tensor) -> Tensor:
    """Predictions (P, n, k) of the iterates with these factors."""
    return (factor[..., None] * descents.parts).sum(dim=2)


def _grid(descents: Descents) -> list[_Member]:
    """The best point of the grid for each of the best few numbers of steps."""
    curvature = (descents.rates * descents.values)[:, -1].amax(dim=1).median()  # ()
    unit = 1 / float(curvature.clamp(min=1e-12))
    best: dict[int, _Member] = {}
    for scale, momentum in product(SIZES, MOMENTA):
        factors = _factors(descents, scale * unit, momentum, MOST_STEPS)
        for steps, factor in enumerate(factors, start=1):
            answers = _predictions(descents, factor)  # (P, n, k)
            distance = float(descents.question.distances(answers).mean())
            member = _Member(distance, steps, scale * unit, momentum)
            best[steps] = min(best.get(steps, member), member)
    return sorted(best.values())[:STARTS]


def _refined(start: _Member, descents: Descents, average: bool, digits: float) -> Fitted:
    """The same number of steps at the step size and the momentum that come closest."""
    parameters = _parameters(start)

    def run(values: Sequence[float]) -> Fitted:
        size, momentum = values
        *_, factor = _factors(descents, size, momentum, start.steps)  # (P, n, r)
        answers = _predictions(descents, factor)  # (P, n, k)
        candidate = _candidate(start.steps, tuple(map(Parameter.at, parameters, values)), average)
        return Fitted(candidate, start.steps, descents.question.distances(answers), answers)

    return closest_values(run, parameters, digits=digits)


def _parameters(member: _Member) -> tuple[Parameter, Parameter]:
    return (
        Parameter("step_size", member.size),
        Parameter("momentum", member.momentum, *ENDS, share=True),
    )


def _candidate(steps: int, parameters: Sequence[Parameter], average: bool) -> Candidate:
    size, momentum = (one.value for one in parameters)
    return Candidate(
        family=MOMENTUM, learner=MomentumDescent(steps, size, momentum, average),
        parameters=tuple(parameters), note="average" if average else "",
        capped=steps == MOST_STEPS,
    )  # fmt: skip
