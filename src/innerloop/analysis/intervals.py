"""Intervals: prompts are resampled within a seed, and Student's t is taken across seeds.

A percentile bootstrap of three seeds covers 62% where it says 90%, so seeds are never resampled.

Shapes: P prompts, D draws of the bootstrap, S seeds; ".." are the axes of what is averaged.
"""

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

import numpy as np
import torch
from scipy import stats
from torch import Tensor

from innerloop.core.arguments import expect_seed
from innerloop.core.errors import ConfigurationError, unknown

if TYPE_CHECKING:
    from innerloop.analysis.measured import Measured

CONFIDENCE = 0.9
"""Of every interval, as in the papers."""
DRAWS = 1000
"""Draws of the bootstrap, as in the papers."""
HUGE = 1e150
"""Stands for infinity inside the bootstrap, where 0 * inf would make NaN of a whole column."""

Average = Literal["mean", "median"]


@dataclass(frozen=True, slots=True, eq=False)
class Interval:
    """Numbers with the ends of their intervals, (..) each."""

    value: Tensor
    low: Tensor
    high: Tensor


def seeded(seed: int) -> torch.Generator:
    """A generator on the CPU with a seed that torch can take."""
    expect_seed(seed)
    return torch.Generator().manual_seed(seed)


def resample(prompts: int, draws: int, generator: torch.Generator) -> Tensor:
    """The prompts that each draw of the bootstrap takes: (D, P) int64."""
    return torch.randint(prompts, (draws, prompts), generator=generator)


def average(
    values: Tensor,
    *,
    counted: Tensor | None = None,
    kind: Average = "mean",
    drawn: Tensor | None = None,
) -> Tensor:
    """The mean or median over prompts of values (P, ..): (..), or (D, ..) over prompts drawn.

    `counted` (P, ..) says which entries count; a place where none does is NaN. Values that are not
    finite make a mean infinite, not NaN.
    """
    flat = values.double().reshape(len(values), -1)  # (P, m)
    flat = torch.nan_to_num(flat, nan=HUGE, posinf=HUGE).clamp(max=HUGE)  # (P, m)
    mask = None if counted is None else counted.reshape(len(values), -1)  # (P, m)
    averaged = (_medians if kind == "median" else _means)(flat, mask, drawn)  # ([D,] m)
    averaged = torch.where(averaged > HUGE / 1e10, torch.inf, averaged)  # ([D,] m)
    return averaged.unflatten(-1, values.shape[1:]) if values.ndim > 1 else averaged[..., 0]


def _means(flat: Tensor, mask: Tensor | None, drawn: Tensor | None) -> Tensor:
    """Means over prompts of values (P, m) where they count: ([D,] m)."""
    if mask is None:
        return flat.mean(dim=0) if drawn is None else occurrences(drawn) / len(flat) @ flat
    filled, number = torch.where(mask, flat, 0.0), mask.double()  # (P, m) each
    if drawn is None:
        return filled.sum(dim=0) / number.sum(dim=0)
    times = occurrences(drawn)  # (D, P)
    return (times @ filled) / (times @ number)


def occurrences(drawn: Tensor) -> Tensor:
    """How often each prompt occurs in each draw (D, P): (D, P) float64."""
    times = torch.zeros(drawn.shape, dtype=torch.float64)  # (D, P)
    return times.scatter_add_(1, drawn, torch.ones_like(times))


def _medians(flat: Tensor, mask: Tensor | None, drawn: Tensor | None) -> Tensor:
    """Medians over prompts of values (P, m) where they count: ([D,] m)."""
    if mask is not None:
        flat = torch.where(mask, flat, torch.nan)  # (P, m)
    if drawn is None:
        return flat.nanmedian(dim=0).values
    # One place at a time: all of them at once, D times, would not fit into memory.
    columns = [column[drawn].nanmedian(dim=1).values for column in flat.unbind(dim=1)]  # (D,) each
    return torch.stack(columns, dim=1)


class Averages(Mapping[str, Tensor]):
    """Averages over prompts of several measures by name, (.., *axes) each: what statistics take.

    Without `drawn` they are those of all prompts, and ".." is empty. With a number of draws there
    is one average for each draw of the bootstrap. Measures of equally many prompts are resampled
    together, so that what is compared is compared on the same prompts.
    """

    def __init__(
        self,
        measures: "Mapping[str, Measured]",
        *,
        draws: int | None = None,
        generator: Callable[[], torch.Generator] | None = None,
    ) -> None:
        """`generator` makes the generator of the draws, the same one whenever it is called."""
        self._measures, self._draws, self._generator = measures, draws, generator
        self._known: dict[str, Tensor] = {}
        self._drawn: dict[int, Tensor] = {}

    def __getitem__(self, name: str) -> Tensor:
        """The averages of one measure, ([D,] *axes)."""
        if name not in self._known:
            one, drawn = self._measures[name], None
            if self._draws is not None:
                if one.prompts not in self._drawn:
                    generator = seeded(0) if self._generator is None else self._generator()
                    self._drawn[one.prompts] = resample(one.prompts, self._draws, generator)
                drawn = self._drawn[one.prompts]  # (D, P)
            self._known[name] = average(
                one.values, counted=one.counted, kind=one.average, drawn=drawn
            )
        return self._known[name]

    def several(self, beginning: str) -> Tensor:
        """The averages of all measures whose names begin so, along a new last axis: (.., m)."""
        names = [name for name in self._measures if name.startswith(beginning)]
        if not names:
            raise ConfigurationError(unknown("beginning of a measure", beginning, self._measures))
        return torch.stack([self[name] for name in names], dim=-1)

    def ticks(self, name: str, axis: str) -> Tensor:
        """The places (m,) along an axis of a measure, where they are numbers."""
        return torch.tensor(self._measures[name].ticks[axis], dtype=torch.float64)

    def __iter__(self) -> Iterator[str]:
        """The names of the measures."""
        return iter(self._measures)

    def __len__(self) -> int:
        """How many measures there are."""
        return len(self._measures)


Statistic = Callable[[Averages], Tensor]
"""A function of averages: from measures (.., *axes) by name to one number (..).

The leading axes are the draws of the bootstrap. Whatever it computes keeps them: index from the
right (`measures["looped"][..., -1]`), reduce over `dim=-1`.
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Estimate:
    """A statistic with its interval, over prompts for one seed and across seeds for several."""

    value: float
    low: float
    high: float
    seeds: tuple[float, ...]
    """The statistic of each seed."""


def estimate(
    statistic: Statistic,
    seeds: "Sequence[Mapping[str, Measured]]",
    *,
    log: bool = False,
    confidence: float = CONFIDENCE,
    draws: int = DRAWS,
    generator: Callable[[], torch.Generator] | None = None,
) -> Estimate:
    """A statistic of the measures of one seed, or of several seeds.

    With `log`, seeds are averaged by their logarithms, as ratios are.
    """
    values = tuple(float(statistic(Averages(measures))) for measures in seeds)
    if len(values) == 1:
        several = statistic(Averages(seeds[0], draws=draws, generator=generator))  # (D,) or ()
        value, (low, high) = values[0], ends(several.double().expand(draws), confidence=confidence)
    else:
        each = torch.tensor(values, dtype=torch.float64)  # (S,)
        whole = across_seeds(each, log=log, confidence=confidence)
        value, low, high = float(whole.value), whole.low, whole.high
    return Estimate(value=value, low=float(low), high=float(high), seeds=values)


def ends(
    draws: Tensor, *, confidence: float = CONFIDENCE, skip_nan: bool = False
) -> tuple[Tensor, Tensor]:
    """The two ends (..) of the percentile interval of draws (D, ..)."""
    tail = (1 - _checked(confidence)) / 2
    empty = draws.isnan().all(dim=0)  # (..): no draw has a number there
    quantile = np.nanquantile if skip_nan else np.quantile
    several = torch.where(empty, 0.0, draws).numpy()  # (D, ..)
    # Never between two draws: what lies between a number and infinity is not a number.
    low = torch.as_tensor(quantile(several, tail, axis=0, method="lower"))  # (..)
    high = torch.as_tensor(quantile(several, 1 - tail, axis=0, method="higher"))  # (..)
    return low.masked_fill(empty, torch.nan), high.masked_fill(empty, torch.nan)


def _checked(confidence: float) -> float:
    if not 0 < confidence < 1:
        raise ConfigurationError(f"confidence is {confidence}, expected a number between 0 and 1.")
    return confidence


def across_seeds(values: Tensor, *, log: bool = False, confidence: float = CONFIDENCE) -> Interval:
    """The mean of values (S, ..) of two seeds or more, with Student's interval, (..) each.

    The interval is one for trainings that were not made. Infinite values that all agree are their
    own interval; some of them only, or NaN, make NaN.
    """
    number = len(values)
    scaled = values.double().log() if log else values.double()  # (S, ..)
    finite = scaled.isfinite().all(dim=0)  # (..)
    usable = torch.where(finite, scaled, 0.0)  # (S, ..)
    middle = usable.mean(dim=0)  # (..)
    quantile = float(stats.t.ppf((1 + _checked(confidence)) / 2, number - 1))
    half = quantile * usable.std(dim=0, correction=1) / math.sqrt(number)  # (..)
    same = torch.where((values == values[0]).all(dim=0), values[0], torch.nan)  # (..)
    value, low, high = (
        torch.where(finite, each.exp() if log else each, same)  # (..)
        for each in (middle, middle - half, middle + half)
    )
    return Interval(value, low, high)
