"""The Bayes check: which ridge penalty a learner agrees with best, beside that of least risk.

Akyurek et al. (2022, section 4.3 and figure 2): with weights from N(0, tau^2 I) and noise of
variance sigma^2 on the outputs, the predictor of least expected error is ridge regression with the
penalty sigma^2 / tau^2.

Shapes: P prompts, n points, k outputs, L penalties.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import pandas as pd
import torch
from torch import Tensor

from innerloop.analysis.bootstrap import bootstrap, resample
from innerloop.analysis.error import seeded
from innerloop.analysis.similarity import predict_in_parts, prediction_differences
from innerloop.core.errors import ConfigurationError, PromptError
from innerloop.core.learner import Learner
from innerloop.core.prompt import Prompt
from innerloop.learners.ridge import Ridge

PENALTIES = (0.0, *(2.0**exponent for exponent in range(-10, 8)))
"""The default grid: none, and powers of two from 0.001 to 128."""


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class BayesCheck:
    """How far a learner is from ridge regression at each penalty, and where it is nearest."""

    table: pd.DataFrame
    """One row a penalty: penalty, mean (the SPD), median, low, high (the interval of the mean)."""
    best: float
    """The penalty of the smallest SPD."""
    low: float
    high: float
    """The bootstrap interval of the best penalty: two numbers of the grid."""
    expected: float
    """The penalty of least risk, noise^2 / prior_variance."""
    within_one_point: bool
    """Whether the expected penalty is no further from the best than its neighbours on the grid."""
    support: float
    """The share of the bootstrap's draws of which that is true."""

    def __str__(self) -> str:
        verdict = "within" if self.within_one_point else "not within"
        return (
            f"nearest to ridge at a penalty of {self.best:.4g} (from {self.low:.4g} to "
            f"{self.high:.4g}), {verdict} one grid point of {self.expected:.4g}, the penalty of "
            f"least risk ({self.support:.0%} of the draws)"
        )


def bayes_check(
    learner: Learner[Any],
    prompt: Prompt,
    *,
    noise: float,
    prior_variance: float = 1.0,
    penalties: Sequence[float] = PENALTIES,
    steps: int | None = None,
    confidence: float = 0.9,
    draws: int = 1000,
    seed: int = 0,
) -> BayesCheck:
    """SPD of a learner against ridge regression over a grid of penalties.

    `noise` is the standard deviation of the noise on the outputs and `prior_variance` the variance
    of each weight, as the task that drew the prompts has them. The grid is sorted, and has to reach
    around the expected penalty: an answer at its edge would say nothing.
    """
    grid = sorted({float(penalty) for penalty in penalties})
    expected = _expected(noise, prior_variance, grid)
    values, counted = _differences(learner, prompt, grid, steps)  # (P, L), (P, 1)
    if not bool(counted.any()):
        raise PromptError("the prompt scores no position: there is nothing to compare.")
    found = bootstrap(
        values,
        counted=counted.expand_as(values),
        confidence=confidence,
        draws=draws,
        generator=seeded(seed),
    )
    kept = values[counted[:, 0]]  # (P', L)
    if not bool(torch.isfinite(kept).all()):
        raise PromptError(
            f"{learner.name} predicts numbers that are not finite: no penalty is nearest to them."
        )
    near = torch.tensor([_near(expected, grid, index) for index in range(len(grid))])  # (L,)
    best = int(kept.mean(dim=0).argmin())
    drawn = _best_of_draws(kept, draws, seed)  # (draws,)
    tail = (1 - confidence) / 2
    ends = drawn.double().quantile(torch.tensor([tail, 1 - tail], dtype=torch.float64))  # (2,)
    return BayesCheck(
        table=pd.DataFrame(
            {
                "penalty": grid,
                "mean": found.mean,
                "median": found.median,
                "low": found.low,
                "high": found.high,
            }
        ),
        best=grid[best],
        low=grid[int(ends[0].floor())],
        high=grid[int(ends[1].ceil())],
        expected=expected,
        within_one_point=bool(near[best]),
        support=float(near[drawn].double().mean()),
    )


def _expected(noise: float, prior_variance: float, grid: Sequence[float]) -> float:
    """The penalty of least risk, which the grid must reach around."""
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
    return expected


def _near(expected: float, grid: Sequence[float], index: int) -> bool:
    """Whether the expected penalty lies between the neighbours of a point of the grid."""
    low, high = grid[max(0, index - 1)], grid[min(len(grid) - 1, index + 1)]
    return low <= expected <= high


def _differences(
    learner: Learner[Any], prompt: Prompt, grid: Sequence[float], steps: int | None
) -> tuple[Tensor, Tensor]:
    """Each prompt's mean squared difference from ridge (P, L), and which prompts count (P, 1)."""
    answers = predict_in_parts(learner, prompt, steps=steps)  # (P, n[, q], k)
    counted = torch.ones_like(prompt.ys[..., 0], dtype=torch.bool)  # (P, n)
    if prompt.scored is not None:
        counted = prompt.scored
    number = counted.sum(dim=1)  # (P,)
    columns: list[Tensor] = []
    # One penalty at a time: a factorisation a penalty costs less than the eigenvectors of every
    # prefix, which would serve all of them at once.
    for penalty in grid:
        other = predict_in_parts(Ridge(penalty), prompt)  # (P, n[, q], k)
        squares = prediction_differences(answers, other)  # (P, n)
        columns.append(squares.masked_fill(~counted, 0.0).sum(dim=1) / number.clamp(min=1))
    return torch.stack(columns, dim=1).cpu(), (number > 0)[:, None].cpu()


def _best_of_draws(values: Tensor, draws: int, seed: int) -> Tensor:
    """The column of the smallest mean of values (P, L), of each set of prompts drawn: (draws,)."""
    return (resample(len(values), draws, seeded(seed)) @ values).argmin(dim=1)
