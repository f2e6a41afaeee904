"""The Bayes check: which ridge penalty a learner agrees with best, beside that of least risk.

Akyurek et al. (2022, section 4.3 and figure 2): with weights from N(0, tau^2 I) and noise of
variance sigma^2 on the outputs, the predictor of least expected error is ridge regression with the
penalty sigma^2 / tau^2.

Shapes: P prompts, n points, k outputs, L penalties.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import torch
from torch import Tensor

from innerloop.analysis.intervals import CONFIDENCE, DRAWS, Averages, Estimate, estimate, seeded
from innerloop.analysis.measured import Measured
from innerloop.analysis.similarity import (
    counted_positions,
    predict_in_parts,
    prediction_differences,
)
from innerloop.core.arguments import expect_number
from innerloop.core.errors import ConfigurationError, PromptError
from innerloop.core.expects import expect_learner, expect_prompt
from innerloop.core.learner import Learner
from innerloop.core.prompt import Prompt
from innerloop.learners.ridge import Ridge

PENALTIES = (0.0, *(2.0**exponent for exponent in range(-10, 8)))
"""The default grid: none, and powers of two from 0.001 to 128."""


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class BayesCheck:
    """How far a learner is from ridge regression at each penalty, and where it is nearest."""

    distances: Measured
    """The SPD by penalty, averaged over what counts of each prompt."""
    best: Estimate
    """The penalty of the smallest SPD; all its numbers are of the grid."""
    expected: float
    """The penalty of least risk, noise^2 / prior_variance."""
    within_one_point: bool
    """Whether the expected penalty is no further from the best than its neighbours on the grid."""
    support: float
    """The share of the bootstrap's draws of which that is true."""

    def __str__(self) -> str:
        verdict = "within" if self.within_one_point else "not within"
        return (
            f"nearest to ridge at a penalty of {self.best.value:.4g} (from {self.best.low:.4g} to "
            f"{self.best.high:.4g}), {verdict} one grid point of {self.expected:.4g}, the penalty "
            f"of least risk ({self.support:.0%} of the draws)"
        )


def bayes_check(
    learner: Learner[Any],
    prompt: Prompt,
    *,
    noise: float,
    prior_variance: float = 1.0,
    penalties: Sequence[float] = PENALTIES,
    steps: int | None = None,
    confidence: float = CONFIDENCE,
    draws: int = DRAWS,
    seed: int = 0,
) -> BayesCheck:
    """SPD of a learner against ridge regression over a grid of penalties, and the nearest of them.

    `noise` is the standard deviation of the noise on the outputs and `prior_variance` the variance
    of each weight, as the task that drew the prompts has them. The grid is sorted, and has to reach
    around the expected penalty: an answer at its edge would say nothing.
    """
    expect_learner(learner)
    expect_prompt(prompt)
    for name, number in (("noise", noise), ("prior_variance", prior_variance)):
        expect_number(name, number)
    grid = sorted({float(penalty) for penalty in penalties})
    if len(grid) < 2 or not 0 <= grid[0] <= grid[-1] < float("inf"):
        raise ConfigurationError(
            f"the penalties are {grid}, expected at least two finite numbers of 0 or more."
        )
    if not 0 <= noise < float("inf") or not 0 < prior_variance < float("inf"):
        raise ConfigurationError(
            f"noise is {noise} and prior_variance {prior_variance}, expected a deviation of 0 or "
            "more and a variance above 0."
        )
    expected = noise**2 / prior_variance
    if not grid[0] <= expected <= grid[-1]:
        raise ConfigurationError(
            f"the penalties go from {grid[0]:g} to {grid[-1]:g}, and that of least risk is "
            f"{expected:g}: give a grid that reaches around it."
        )
    measures = {"SPD": ridge_distances(learner, prompt, grid, steps=steps)}
    generator = partial(seeded, seed)
    best = estimate(
        lambda m: nearest(m["SPD"], grid), [measures], confidence=confidence, draws=draws,
        generator=generator,
    )  # fmt: skip
    neighbours = zip([grid[0], *grid], grid, [*grid[1:], grid[-1]], strict=False)
    near = [penalty for low, penalty, high in neighbours if low <= expected <= high]
    drawn = nearest(Averages(measures, draws=draws, generator=generator)["SPD"], grid)  # (D,)
    return BayesCheck(
        distances=measures["SPD"], best=best, expected=expected,
        within_one_point=best.value in near,
        support=float(torch.isin(drawn, drawn.new_tensor(near)).double().mean()),
    )  # fmt: skip


def nearest(distances: Tensor, penalties: Sequence[float]) -> Tensor:
    """The penalty (..) of the smallest of distances (.., L)."""
    return torch.tensor(penalties, dtype=torch.float64)[distances.argmin(dim=-1)]


def ridge_distances(
    learner: Learner[Any], prompt: Prompt, penalties: Sequence[float], *, steps: int | None = None
) -> Measured:
    """The SPD of a learner from ridge regression by penalty, averaged over each prompt."""
    answers = predict_in_parts(learner, prompt, steps=steps)  # (P, n[, q], k)
    counted = counted_positions(prompt)  # (P, n)
    if not bool(counted.any()):
        raise PromptError("the prompt scores no position: there is nothing to compare.")
    distances: dict[float, Measured] = {}
    # One penalty at a time: predictions of all of them at once would not fit into memory.
    for penalty in penalties:
        other = predict_in_parts(Ridge(penalty), prompt)  # (P, n[, q], k)
        squares = prediction_differences(answers, other)  # (P, n)
        distances[penalty] = Measured(values=squares, axes=("examples",), counted=counted)
    means = {penalty: each.mean("examples") for penalty, each in distances.items()}
    measured = replace(Measured.stack("penalty", means), label=learner.name, scale="log")
    if not bool(torch.isfinite(measured.values[measured.mask]).all()):
        raise PromptError(
            f"{learner.name} predicts numbers that are not finite: no penalty is nearest to them."
        )
    return measured
