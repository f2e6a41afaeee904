"""Gradient descent fitted to a learner: every number of steps, each at its best step size.

Few large steps and many small ones do nearly the same, and which numbers of steps are worth trying
cannot be told from their neighbours: so all are tried. In the eigenvectors of X'X, k steps multiply
the moment X'y by (1 - (1 - rate s)^k) / s, which costs no iteration; only the best is then run.

Shapes: P prompts, n points, r = min(n, d), k outputs.
"""

import math
from dataclasses import dataclass
from typing import Any

import torch
from scipy.optimize import minimize_scalar
from torch import Tensor

from innerloop.analysis.candidates import DESCENT, Candidate
from innerloop.analysis.distances import FEW, Fitted, Question, run_candidate
from innerloop.core.prompt import Prompt
from innerloop.learners import GradientDescent, Newton

MOST_STEPS = 1000
"""The most steps that are tried."""
REACH = 4.0
"""How far the total size may move from one number of steps to the next."""


@dataclass(frozen=True, slots=True, eq=False)
class Spectrum:
    """The parts of a least squares prediction along the eigenvectors of X'X."""

    values: Tensor
    """(P, n, r): eigenvalues s of each prefix."""
    parts: Tensor
    """(P, n, r, k): x along an eigenvector times X'y along it."""
    counts: Tensor
    """(n,): examples of each prefix."""

    @classmethod
    def of(cls, prompt: Prompt) -> "Spectrum":
        """By Newton's method before its first step, which decomposes X'X as well."""
        state = Newton(steps=0).init(prompt)
        along = state.basis @ prompt.xs.double()[..., None]  # (P, n, r, 1)
        counts = torch.arange(prompt.points, dtype=torch.float64, device=prompt.xs.device)  # (n,)
        return cls(state.gram, along * state.moment, counts.clamp(min=1))

    def descend(self, kind: str, size: float, steps: int) -> Tensor:
        """Predictions (P, n, k) after so many steps of a size."""
        rates = torch.full_like(self.values, size)  # (P, n, r)
        if kind == "average":
            rates = rates / self.counts[:, None]
        elif kind == "1/L":
            largest = self.values.amax(dim=2, keepdim=True)  # (P, n, 1)
            rates = rates / largest.masked_fill(largest == 0, torch.inf)
        moved = rates * self.values  # (P, n, r)
        # (1 - (1 - z)^k) / z, by its series where z is tiny
        kept = 1 - (1 - moved) ** steps  # (P, n, r)
        tiny = moved.abs() < 1e-8  # (P, n, r)
        factor = torch.where(tiny, float(steps), kept / moved.masked_fill(tiny, 1.0))  # (P, n, r)
        return ((factor * rates)[..., None] * self.parts).sum(dim=2)


@dataclass(frozen=True, slots=True)
class _Best:
    """A number of steps with its best size, and how far that is."""

    kind: str
    steps: int
    size: float
    distance: float


def fit_descent(question: Question) -> Fitted:
    """The best of gradient descent on the sum of squares, on their mean, and at 1/L."""
    few = question.first(FEW)
    spectrum, whole = Spectrum.of(few.prompt), Spectrum.of(question.prompt)
    largest = float(spectrum.values[:, -1].amax(dim=1).median().clamp(min=1e-12))
    scales = {"": 1 / largest, "average": few.prompt.points / largest}
    fits = [_fit_at_largest(question, whole)]
    for kind, scale in scales.items():
        best = _fit(few, spectrum, kind, scale)
        # Few prompts find the right numbers of steps; all of them, which it is.
        fits += [_best_size(question, whole, kind, one.steps, one.size, 1.1) for one in best]
    return _run(min(fits, key=lambda one: one.distance), question)


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


def _fit(few: Question, spectrum: Spectrum, kind: str, scale: float) -> list[_Best]:
    """The best size for every number of steps; the best three numbers of steps."""
    tried: dict[int, _Best] = {}
    total, reach = scale, 1e3
    for steps in _numbers():
        tried[steps] = _best_size(few, spectrum, kind, steps, total / steps, reach)
        # The total size changes little from one number of steps to the next.
        total, reach = tried[steps].size * steps, REACH
    best = min(tried.values(), key=lambda one: one.distance)
    for steps in _beside(best.steps):
        size = best.size * best.steps / steps
        tried[steps] = _best_size(few, spectrum, kind, steps, size, REACH)
    return sorted(tried.values(), key=lambda one: one.distance)[:3]


def _best_size(
    question: Question, spectrum: Spectrum, kind: str, steps: int, size: float, reach: float
) -> _Best:
    """The best size around one, up to `reach` times smaller or larger."""

    def distance(log_size: float) -> float:
        answers = spectrum.descend(kind, math.exp(log_size), steps)  # (P, n, k)
        return math.log(max(float(question.distances(answers).mean()), 1e-300))

    middle, width = math.log(size), math.log(reach)
    result: Any = minimize_scalar(
        distance,
        bounds=(middle - width, middle + width),
        method="bounded",
        options={"xatol": 1e-9, "maxiter": 60},
    )
    return _Best(kind, steps, math.exp(float(result.x)), math.exp(float(result.fun)))


def _fit_at_largest(question: Question, spectrum: Spectrum) -> _Best:
    """The best number of steps at 1/L of each prefix."""
    tried: dict[int, float] = {}
    for numbers in (_numbers, lambda: _beside(min(tried, key=lambda number: tried[number]))):
        for steps in numbers():
            answers = spectrum.descend("1/L", 1.0, steps)  # (P, n, k)
            tried[steps] = float(question.distances(answers).mean())
    best = min(tried, key=lambda number: tried[number])
    return _Best("1/L", best, 1.0, tried[best])


def _run(best: _Best, question: Question) -> Fitted:
    """The learner itself, once."""
    if best.kind == "1/L":
        learner = GradientDescent(steps=best.steps)
        candidate = Candidate(family=DESCENT, learner=learner, note="step size 1/L")
        return run_candidate(candidate, best.steps, question)
    candidate = Candidate(
        family=DESCENT,
        learner=GradientDescent(
            steps=best.steps, step_size=best.size, average=best.kind == "average"
        ),
        parameter="step_size",
        value=best.size,
        note=best.kind,
    )
    return run_candidate(candidate, best.steps, question)
