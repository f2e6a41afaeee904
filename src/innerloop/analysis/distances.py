"""How far known algorithms are from a learner, prompt by prompt, with their parameters refined.

Distances are squared prediction differences, averaged over the positions that count and divided by
the task's scale: SPD as the papers print it, one number per prompt.

Shapes: P prompts, n points, k outputs, A steps of the learner, K + 1 steps of a candidate.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch
from scipy.optimize import minimize_scalar
from torch import Tensor

from innerloop.analysis.candidates import Candidate
from innerloop.analysis.intervals import HUGE
from innerloop.core.errors import InnerloopError
from innerloop.core.iterate import predict, trajectory
from innerloop.core.prompt import Prompt

FEW = 32
"""Prompts that decide in which direction to look for the number of steps."""
ROUGH, FINE = 1e-3, 1e-10
"""To which part of itself a parameter is found: while steps are compared, and in the end."""


@dataclass(frozen=True, slots=True, eq=False)
class Question:
    """What a learner answers, and which answers count."""

    prompt: Prompt
    answers: Tensor
    """(P, n, k) float64: after the learner's last step."""
    weight: Tensor
    """(P, n): what a position's squared difference counts."""

    def distances(self, predictions: Tensor) -> Tensor:
        """Of predictions (.., P, n, k) from the answers: (.., P)."""
        squares = (finite(predictions.double()) - self.answers).square().mean(dim=-1)  # (.., P, n)
        return (squares * self.weight).sum(dim=-1)

    def first(self, prompts: int) -> "Question":
        """The question on the first so many prompts."""
        some = slice(0, prompts)
        return Question(self.prompt.select(some), self.answers[some], self.weight[some])

    @property
    def size(self) -> Tensor:
        """The distance of the answers from zero: (P,)."""
        return self.distances(torch.zeros_like(self.answers))


@dataclass(frozen=True, slots=True, eq=False)
class Fitted:
    """The member of a family that comes closest: a candidate after some of its steps."""

    candidate: Candidate
    step: int
    distances: Tensor
    """(P,)."""
    predictions: Tensor
    """(P, n, k) float64."""

    @property
    def mean(self) -> float:
        """Over prompts."""
        return float(self.distances.mean())

    def parameters(self) -> dict[str, float | str]:
        """What tells it from others of its family."""
        candidate = self.candidate
        parameters: dict[str, float | str] = {}
        if candidate.parameter is not None and candidate.value is not None:
            parameters[candidate.parameter] = candidate.value
        if candidate.learner.steps:
            parameters["steps"] = self.step
        return parameters | ({"note": candidate.note} if candidate.note else {})

    def describe(self) -> str:
        """The family with its parameters, for a table."""
        settings = [
            f"{name}={value:.4g}" if isinstance(value, float) else f"{name}={value}"
            for name, value in self.parameters().items()
            if name != "note"
        ]
        note = f" ({self.candidate.note})" if self.candidate.note else ""
        return f"{self.candidate.family.name}({', '.join(settings)}){note}"


@torch.no_grad()
def closest_of_family(candidates: Sequence[Candidate], question: Question) -> Fitted | None:
    """The member and the step that come closest; None where the task is for no member."""
    fits: list[Fitted] = []
    for candidate in candidates:
        try:
            answers = trajectory(candidate.learner, question.prompt).predictions.double()
        except InnerloopError:
            continue
        # (K + 1, P, n, k): before the first step and after each
        distances = torch.stack([question.distances(each) for each in answers])  # (K + 1, P)
        step = int(distances.mean(dim=1).argmin())
        fits.append(Fitted(candidate, step, distances[step], answers[step]))
    return min(fits, key=lambda fit: fit.mean, default=None)


def refine(fitted: Fitted, question: Question) -> Fitted:
    """Move a continuous parameter between its neighbours on the grid, and the steps with it.

    Few steps of one size and more of a smaller one do nearly the same, so that the grid's best may
    have another number of steps than the truth: as long as one step more or less is better with a
    parameter of its own, go there.
    """
    if fitted.candidate.make is None or fitted.candidate.value is None:
        return fitted
    best = fitted
    if fitted.candidate.learner.steps:
        few = question.first(FEW)
        near = _climb(run_candidate(fitted.candidate, fitted.step, few), few)
        # From a few prompts the count may be off by one.
        tried = [
            at_best_value(near, step, question, digits=ROUGH)
            for step in range(max(1, near.step - 1), near.step + 2)
            if step <= fitted.candidate.learner.steps
        ]
        best = min([fitted, *tried], key=lambda one: one.mean)
    refined = at_best_value(best, best.step, question, digits=FINE)
    return min([best, refined], key=lambda one: one.mean)


def _climb(fitted: Fitted, question: Question) -> Fitted:
    """Go to more or fewer steps as long as that is better, each at its best value.

    In long strides first: many small steps are like many other numbers of them.
    """
    best = at_best_value(fitted, fitted.step, question, digits=ROUGH)
    for stride in (9, 3, 1):
        for direction in (-stride, stride):
            while 0 < best.step + direction <= fitted.candidate.learner.steps:
                other = at_best_value(best, best.step + direction, question, digits=ROUGH)
                if other.mean >= best.mean:
                    break
                best = other
    return best


@torch.no_grad()
def run_candidate(candidate: Candidate, step: int, question: Question) -> Fitted:
    """A candidate after so many steps."""
    answers = predict(candidate.learner, question.prompt, steps=step).double()  # (P, n, k)
    return Fitted(candidate, step, question.distances(answers), answers)


def at_best_value(fitted: Fitted, step: int, question: Question, *, digits: float) -> Fitted:
    """The candidate after so many steps, at the value of its parameter that comes closest."""
    candidate = fitted.candidate
    make, value = candidate.make, candidate.value
    assert make is not None
    assert value is not None

    def at(value: float) -> Fitted:
        return run_candidate(replace(candidate, value=value, learner=make(value)), step, question)

    return at(
        closest_value(
            lambda value: at(value).predictions, question, value, candidate.spacing, digits=digits
        )[0]
    )


@torch.no_grad()
def closest_value(
    answers: Callable[[float], Tensor],
    question: Question,
    middle: float,
    reach: float,
    *,
    digits: float,
) -> tuple[float, float]:
    """The value whose answers (P, n, k) come closest, with their mean distance.

    It lies up to `reach` times below or above the middle, and is exact to a part of so many digits.
    """

    def distance(log_value: float) -> float:
        mean = float(question.distances(answers(math.exp(log_value))).mean())
        return math.log(max(mean, 1e-300))

    centre, width = math.log(middle), math.log(reach)
    result: Any = minimize_scalar(
        distance, bounds=(centre - width, centre + width), method="bounded",
        options={"xatol": digits, "maxiter": 60},
    )  # fmt: skip
    return math.exp(float(result.x)), math.exp(float(result.fun))


def finite(values: Tensor) -> Tensor:
    """Values with what is not finite, as an iteration that diverges predicts, sent to HUGE."""
    return torch.nan_to_num(values, nan=HUGE, posinf=HUGE, neginf=-HUGE).clamp(-HUGE, HUGE)
