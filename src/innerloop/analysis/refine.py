"""Parameters of a candidate moved between the points of their grid, to where it comes closest.

Shapes: P prompts, n points, k outputs.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import torch
from scipy.optimize import minimize, minimize_scalar
from torch import Tensor

from innerloop.analysis.candidates import FEW, Candidate, Parameter
from innerloop.analysis.distances import Fitted, Question, run_candidate

ROUGH, FINE = 1e-3, 1e-10
"""To which part of itself a parameter is found: while steps are compared, and in the end."""
SIMPLEX = {ROUGH: 80, FINE: 40}
"""How often several parameters are moved: on a few prompts, and then on all of them."""


def refine(fitted: Fitted, question: Question) -> Fitted:
    """Move continuous parameters between their neighbours on the grid, and the steps with them.

    Few steps of one size and more of a smaller one do nearly the same, so that the grid's best may
    have another number of steps than the truth: as long as one step more or less is better with a
    parameter of its own, go there.
    """
    candidate = fitted.candidate
    if candidate.make is None or not candidate.parameters:
        return fitted
    if len(candidate.parameters) > 1:
        return _refine_together(fitted, question)
    best = fitted
    if candidate.learner.steps:
        few = question.first(FEW)
        near = _climb(run_candidate(candidate, fitted.step, few), few)
        # From a few prompts the count may be off by one.
        tried = [
            at_best_value(near, step, question, digits=ROUGH)
            for step in range(max(1, near.step - 1), near.step + 2)
            if step <= candidate.learner.steps
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


def at_best_value(fitted: Fitted, step: int, question: Question, *, digits: float) -> Fitted:
    """The candidate after so many steps, at the value of its parameter that comes closest."""
    (parameter,) = fitted.candidate.parameters

    def at(value: float) -> Fitted:
        return run_candidate(with_values(fitted.candidate, [value]), step, question)

    value, _ = closest_value(
        lambda value: at(value).predictions, question, parameter.value, parameter.spacing,
        digits=digits, ends=(parameter.lowest, parameter.highest),
    )  # fmt: skip
    return at(value)


def with_values(candidate: Candidate, values: Sequence[float]) -> Candidate:
    """The candidate at other values of its parameters."""
    assert candidate.make is not None
    moved = tuple(map(Parameter.at, candidate.parameters, values))
    return replace(candidate, parameters=moved, learner=candidate.make(*values))


@torch.no_grad()
def closest_value(
    answers: Callable[[float], Tensor],
    question: Question,
    middle: float,
    reach: float,
    *,
    digits: float,
    ends: tuple[float, float] = (0.0, math.inf),
) -> tuple[float, float]:
    """The value whose answers (P, n, k) come closest, with their mean distance.

    It lies up to `reach` times below or above the middle, between the ends, and is exact to a part
    of so many digits; within that of an end, it is the end.
    """

    def distance(log_value: float) -> float:
        return _log_mean(question.distances(answers(math.exp(log_value))))

    low, high = max(middle / reach, ends[0]), min(middle * reach, ends[1])
    result: Any = minimize_scalar(
        distance, bounds=(math.log(low), math.log(high)), method="bounded",
        options={"xatol": digits, "maxiter": 60},
    )  # fmt: skip
    # A bounded search never tries the bounds themselves.
    tried = [(math.exp(float(result.x)), float(result.fun))]
    tried += [(end, distance(math.log(end))) for end in ends if end in (low, high)]
    value, least = min(tried, key=lambda one: one[1])
    return value, math.exp(least)


def _refine_together(fitted: Fitted, question: Question) -> Fitted:
    """Several parameters at once, by Nelder and Mead: on a few prompts, then on all from there."""
    best = fitted
    for asked, digits in ((question.first(FEW), ROUGH), (question, FINE)):
        best = closest_values(
            lambda values, asked=asked: run_candidate(
                with_values(fitted.candidate, values), fitted.step, asked
            ),
            best.candidate.parameters, digits=digits,
        )  # fmt: skip
    return min([fitted, best], key=lambda one: one.mean)


@torch.no_grad()
def closest_values(
    run: Callable[[Sequence[float]], Fitted], start: Sequence[Parameter], *, digits: float
) -> Fitted:
    """The member at the values that come closest, searched from those of some parameters on."""

    def value(parameter: Parameter, place: float) -> float:
        free = 1 / (1 + math.exp(-place)) if parameter.share else math.exp(min(place, 700.0))
        return min(max(free, parameter.lowest), parameter.highest)

    def at(places: Any) -> Fitted:
        return run([value(one, float(place)) for one, place in zip(start, places, strict=True)])

    first = np.array([_place(one) for one in start])  # (m,)
    steps = np.array([math.log(one.spacing) for one in start]) / (2 if digits == ROUGH else 20)
    result: Any = minimize(
        lambda places: _log_mean(at(places).distances), first, method="Nelder-Mead",
        options={
            "initial_simplex": np.vstack([first, first + np.diag(steps)]),
            "xatol": digits, "fatol": digits, "maxfev": SIMPLEX[digits],
        },
    )  # fmt: skip
    return at(result.x)


def _place(parameter: Parameter) -> float:
    """Where a parameter stands on the line that is searched: its logarithm, or that of its odds."""
    value = parameter.value
    return math.log(value / (1 - value)) if parameter.share else math.log(value)


def _log_mean(distances: Tensor) -> float:
    """The logarithm of the mean over prompts: a minimum is as sharp at 1e-20 as at 1."""
    return math.log(max(float(distances.mean()), 1e-300))
