"""Means over prompts with bootstrap intervals."""

from dataclasses import dataclass

import torch
from torch import Tensor

HUGE = 1e150
"""Stands for infinity inside the bootstrap, where 0 * inf would make NaN of a whole column."""


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class Interval:
    """Statistics of each column over the prompts, all of shape (m,)."""

    mean: Tensor
    median: Tensor
    low: Tensor
    high: Tensor


def bootstrap(
    values: Tensor,
    *,
    counted: Tensor | None = None,
    confidence: float = 0.9,
    draws: int = 1000,
    generator: torch.Generator,
) -> Interval:
    """Mean and median over prompts of values (P, m), with a percentile interval of the mean.

    `counted` (P, m) says which entries count; a column that counts none is NaN. Prompts are
    resampled as a whole. Values that are not finite make the mean infinite, not NaN.
    """
    mask = torch.ones_like(values, dtype=torch.bool) if counted is None else counted  # (P, m)
    filled = torch.nan_to_num(values.double(), nan=HUGE, posinf=HUGE).clamp(max=HUGE)  # (P, m)
    filled = torch.where(mask, filled, 0.0)  # (P, m)
    number = mask.double()  # (P, m)
    times = resample(len(values), draws, generator).to(filled)  # (draws, P)
    means = unbounded((times @ filled) / (times @ number))  # (draws, m)
    tail = (1 - confidence) / 2
    return Interval(
        mean=unbounded(filled.sum(0) / number.sum(0)),
        median=unbounded(torch.where(mask, filled, torch.nan).nanmedian(dim=0).values),
        low=means.nanquantile(tail, dim=0, interpolation="lower"),
        high=means.nanquantile(1 - tail, dim=0, interpolation="higher"),
    )


def resample(prompts: int, draws: int, generator: torch.Generator) -> Tensor:
    """How often each prompt occurs in each draw: (draws, P)."""
    drawn = torch.randint(prompts, (draws, prompts), generator=generator)  # (draws, P)
    times = torch.zeros(draws, prompts, dtype=torch.float64)  # (draws, P)
    return times.scatter_add_(1, drawn, torch.ones_like(times))


def unbounded(means: Tensor) -> Tensor:
    """Give back the infinities."""
    return torch.where(means > HUGE / 1e10, torch.inf, means)
