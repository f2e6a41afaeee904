"""Measured numbers with their intervals, over prompts and over seeds."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from scipy import stats
from torch import Tensor

from innerloop.analysis.bootstrap import HUGE, resample, unbounded

CONFIDENCE = 0.9
"""Of every interval, as in the papers."""


@dataclass(frozen=True, slots=True)
class Quantity:
    """What was measured of the models of one seed, with its interval over prompts."""

    value: float
    low: float
    high: float


UNKNOWN = Quantity(math.nan, math.nan, math.nan)
"""What could not be measured at this scale: nothing is concluded from it."""


def exact(value: float) -> Quantity:
    """A number that no chance enters."""
    return Quantity(value, value, value)


def from_draws(value: float, draws: Tensor) -> Quantity:
    """A number with the interval of its bootstrap draws (D,)."""
    tail = (1 - CONFIDENCE) / 2
    # Never between two draws: what lies between a number and infinity is not a number.
    low = np.quantile(draws.double().numpy(), tail, method="lower")
    high = np.quantile(draws.double().numpy(), 1 - tail, method="higher")
    return Quantity(value, float(low), float(high))


def estimate(
    statistic: Callable[[Tensor], Tensor], values: Tensor, *, draws: int, generator: torch.Generator
) -> Quantity:
    """Any function of means over prompts, with its interval.

    `values` (P, m) holds m numbers a prompt; `statistic` takes their means (.., m) to the quantity
    (..). Prompts are resampled as a whole, so that what is compared is compared on the same ones.
    """
    # Infinite errors of a model that falls apart would make NaN of draws that leave them out.
    values = torch.nan_to_num(values.double(), nan=HUGE, posinf=HUGE).clamp(max=HUGE)  # (P, m)
    times = resample(len(values), draws, generator) / len(values)  # (D, P)
    found = statistic(unbounded(values.mean(dim=0)))  # ()
    return from_draws(float(found), statistic(unbounded(times @ values)))


def ratio(first: Tensor, second: Tensor, *, draws: int, generator: torch.Generator) -> Quantity:
    """The mean of the first (P,) over the mean of the second (P,), on the same prompts."""
    both = torch.stack([first.double(), second.double()], dim=1)  # (P, 2)
    return estimate(
        lambda means: means[..., 0] / means[..., 1], both, draws=draws, generator=generator
    )


def ratio_of_medians(
    first: Tensor, second: Tensor, *, draws: int, generator: torch.Generator
) -> Quantity:
    """The median of the first (P,) over that of the second (P,), on the same prompts."""
    chosen = torch.randint(len(first), (draws, len(first)), generator=generator)  # (D, P)
    found = first[chosen].median(dim=1).values / second[chosen].median(dim=1).values  # (D,)
    return from_draws(float(first.median() / second.median()), found)


def mean(values: Tensor, *, draws: int, generator: torch.Generator) -> Quantity:
    """The mean of values (P,)."""
    return estimate(lambda means: means[..., 0], values[:, None], draws=draws, generator=generator)


def over_prompts(
    measured: Sequence[Quantity], *, ratio: bool = False
) -> tuple[float, float, float]:
    """Mean and interval of what several seeds came to, each on prompts of its own.

    The models stay what they are and prompts are drawn anew: the intervals of independent numbers
    add up as squares, and the one of their mean is narrower by the root of their number.
    """
    if len(measured) == 1:  # also where it is infinite
        return measured[0].value, measured[0].low, measured[0].high
    there, back = _scale(ratio)
    values = np.array([there(quantity.value) for quantity in measured])
    if not np.isfinite(values).all():
        lows, highs = ([getattr(each, end) for each in measured] for end in ("low", "high"))
        same = _the_same(values, measured[0].value)
        # An interval around infinity is wherever the intervals of the seeds reach.
        return (same, same, same) if math.isnan(same) else (same, min(lows), max(highs))
    with np.errstate(invalid="ignore"):  # ends may be infinite
        below = values - np.array([there(quantity.low) for quantity in measured])
        above = np.array([there(quantity.high) for quantity in measured]) - values
        middle = float(values.mean())
        low = middle - float(np.sqrt((below**2).sum())) / len(values)
        high = middle + float(np.sqrt((above**2).sum())) / len(values)
    return back(middle), back(low), back(high)


def over_seeds(values: Sequence[float], *, ratio: bool = False) -> tuple[float, float, float]:
    """Mean of two seeds or more, with Student's interval for runs that were not made."""
    there, back = _scale(ratio)
    found = np.array([there(value) for value in values])
    if not np.isfinite(found).all():
        same = _the_same(found, values[0])
        return same, same, same
    middle = float(found.mean())
    error = float(found.std(ddof=1)) / math.sqrt(len(found))
    half = float(stats.t.ppf((1 + CONFIDENCE) / 2, len(found) - 1)) * error
    return back(middle), back(middle - half), back(middle + half)


def _the_same(found: np.ndarray, value: float) -> float:
    """Where numbers are infinite: all alike is a finding, some of them is not a number."""
    return value if bool((found == found[0]).all()) else math.nan


def _scale(ratio: bool) -> tuple[Callable[[float], float], Callable[[float], float]]:
    """Where numbers are averaged: as they are, or as logarithms."""
    if not ratio:
        return float, float
    return _logarithm, lambda value: math.inf if value >= 700 else math.exp(value)


def _logarithm(value: float) -> float:
    if math.isnan(value):
        return math.nan
    return math.log(value) if value > 0 else -math.inf
