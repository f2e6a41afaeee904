"""Measured values: one number per prompt, from which every mean, interval and table is made.

Shapes: P prompts; ".." are the named axes.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import product
from typing import Any, Literal

import pandas as pd
import torch
from torch import Tensor

from innerloop.analysis.intervals import (
    CONFIDENCE,
    DRAWS,
    Average,
    Estimate,
    Interval,
    Statistic,
    across_seeds,
    average,
    ends,
    estimate,
    resample,
    seeded,
)
from innerloop.core.errors import ConfigurationError, unknown

Position = int | slice | Sequence[int]
"""Places along an axis: one, which takes the axis away, or several."""


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class Measured:
    """What was measured on every prompt, with named axes and a label.

    Comparisons keep the pairing of prompts: `first - second` is a difference per prompt, and
    `ratio(first, second)` resamples both together. What no prompt enters has one value, P = 1,
    and its interval is a point.
    """

    values: Tensor
    """(P, ..) float64 on the CPU."""
    axes: tuple[str, ...] = ()
    """The names of the axes after the prompts: ("examples",), ("layer", "iteration"), ..."""
    label: str = ""
    """What it is a measure of, such as the name of a learner."""
    keys: Mapping[str, Any] = field(default_factory=dict)
    """Further columns of its table that tell it from others, such as {"sigma": 0.1}."""
    ticks: Mapping[str, Sequence[Any]] = field(default_factory=dict)
    """The places along an axis, where they are not 0, 1, 2, ..."""
    counted: Tensor | None = None
    """(P, ..) bool: the entries that enter an average; None counts all."""
    average: Average = "mean"
    """The average over prompts that statistics and intervals are about."""
    scale: Literal["linear", "log"] = "linear"
    """How averages of several seeds are averaged: ratios and errors by their logarithms."""
    shown: Mapping[str, Sequence[int]] = field(default_factory=dict)
    """The positions along a long axis that tables have; statistics have all."""
    seed: Tensor | None = None
    """(P,) int64: the seed of training that each prompt's values belong to; None for one seed."""

    def __post_init__(self) -> None:
        """Check the shapes, and put values into float64 on the CPU."""
        values = self.values.detach().double().cpu()  # (P, ..)
        if values.ndim != len(self.axes) + 1:
            raise ConfigurationError(
                f"values of shape {tuple(values.shape)} with the axes {self.axes}: expected one "
                "axis of prompts, then one for each name."
            )
        object.__setattr__(self, "values", values)
        if self.counted is not None:
            object.__setattr__(self, "counted", self.counted.cpu().expand_as(values))
        for axis, ticks in self.ticks.items():
            if len(ticks) != values.shape[self._axis(axis)]:
                raise ConfigurationError(
                    f"{len(ticks)} ticks for {values.shape[self._axis(axis)]} places along {axis}."
                )

    @classmethod
    def exact(cls, value: float | Tensor, *axes: str, **ticks: Sequence[Any]) -> "Measured":
        """A number, or a tensor with these axes, that no prompt enters."""
        values = torch.as_tensor(value, dtype=torch.float64)  # (..)
        return cls(values=values[None], axes=axes, ticks=ticks)

    @classmethod
    def stack(cls, axis: str, measures: "Mapping[Any, Measured]") -> "Measured":
        """Measures of the same prompts and axes along a new first axis; the keys are its ticks.

        Where lengths along an axis differ, missing places do not count.
        """
        several = list(measures.values())
        shape = [max(sizes) for sizes in zip(*(one.values.shape for one in several), strict=True)]
        values = torch.full((len(several), *shape), torch.nan, dtype=torch.float64)  # (m, P, ..)
        counted = torch.zeros(values.shape, dtype=torch.bool)  # (m, P, ..)
        for place, one in enumerate(several):
            where = (place, *(slice(size) for size in one.values.shape))
            values[where] = one.values
            counted[where] = one.mask
        first, longest = several[0], max(several, key=lambda one: sum(map(len, one.ticks.values())))
        return replace(
            first, values=values.transpose(0, 1), axes=(axis, *first.axes), label="",
            counted=None if bool(counted.all()) else counted.transpose(0, 1),
            ticks={**longest.ticks, axis: list(measures)},
        )  # fmt: skip

    @classmethod
    def of_seeds(cls, seeds: "Sequence[Measured]") -> "Measured":
        """The same measure of several seeds of training: its prompts one after the other."""
        if len(seeds) == 1:
            return seeds[0]
        number = torch.cat([torch.full((one.prompts,), i) for i, one in enumerate(seeds)])  # (P,)
        everything = all(one.counted is None for one in seeds)
        return replace(
            seeds[0], values=torch.cat([one.values for one in seeds]), seed=number,
            counted=None if everything else torch.cat([one.mask for one in seeds]),
        )  # fmt: skip

    @property
    def prompts(self) -> int:
        """How many prompts there are."""
        return len(self.values)

    @property
    def mask(self) -> Tensor:
        """(P, ..) bool: the entries that count."""
        everything = torch.ones_like(self.values, dtype=torch.bool)  # (P, ..)
        return everything if self.counted is None else self.counted

    def __truediv__(self, by: float | Tensor) -> "Measured":
        """Every value over a number, or over a tensor (..) that is the same for all prompts."""
        return replace(self, values=self.values / by)

    def __sub__(self, other: "Measured") -> "Measured":
        """The difference of two measures on each prompt."""
        everything = self.counted is None and other.counted is None
        counted = None if everything else self.mask & other.mask  # (P, ..)
        return replace(self, values=self.values - other.values, counted=counted, scale="linear")

    def at(self, **positions: Position) -> "Measured":
        """Some places along axes: `at(step=-1, examples=slice(1, None))`."""
        values, counted, ticks = self.values, self.counted, dict(self.ticks)
        # One axis at a time, from the last: torch would join two lists of places into pairs.
        for axis in sorted(positions, key=self._axis, reverse=True):
            position = positions[axis]
            where = position if isinstance(position, int | slice) else list(position)
            part = (slice(None),) * self._axis(axis) + (where,)
            values, counted = values[part], None if counted is None else counted[part]
            places = self._places(axis)
            if isinstance(where, int):
                ticks.pop(axis, None)
            else:
                ticks[axis] = (
                    [places[i] for i in where] if isinstance(where, list) else places[where]
                )
        dropped = {axis for axis, position in positions.items() if isinstance(position, int)}
        return replace(
            self, values=values, counted=counted, ticks=ticks,
            axes=tuple(axis for axis in self.axes if axis not in dropped),
            shown={axis: here for axis, here in self.shown.items() if axis not in positions},
        )  # fmt: skip

    def mean(self, *axes: str) -> "Measured":
        """The mean over axes, on each prompt, of what counts there."""
        if not axes:  # torch would take the mean over all
            return self
        dims = [self._axis(axis) for axis in axes]
        kept = tuple(axis for axis in self.axes if axis not in axes)
        ticks = {axis: places for axis, places in self.ticks.items() if axis in kept}
        shown = {axis: places for axis, places in self.shown.items() if axis in kept}
        if self.counted is None:
            values, some = self.values.mean(dim=dims), None
        else:
            number = self.counted.sum(dim=dims)  # (P, ..)
            total = torch.where(self.counted, self.values, 0.0).sum(dim=dims)  # (P, ..)
            values, some = total / number.clamp(min=1), number > 0
        return replace(self, values=values, counted=some, axes=kept, ticks=ticks, shown=shown)

    def interval(
        self,
        *,
        confidence: float = CONFIDENCE,
        draws: int = DRAWS,
        generator: torch.Generator | None = None,
    ) -> Interval:
        """The average over prompts with its interval, (..) each; across seeds for several."""
        value = average(self.values, counted=self.counted, kind=self.average)  # (..)
        if self.seed is not None:
            whole = across_seeds(self._seeds(), log=self.scale == "log", confidence=confidence)
            return Interval(value, whole.low, whole.high)
        drawn = resample(self.prompts, draws, generator or seeded(0))  # (D, P)
        several = average(self.values, counted=self.counted, kind=self.average, drawn=drawn)
        skip = self.counted is not None
        return Interval(value, *ends(several, confidence=confidence, skip_nan=skip))

    def by_seed(self) -> "list[Measured]":
        """The measures of the seeds, one each."""
        if self.seed is None:
            return [self]
        return [
            replace(
                self, values=self.values[chosen], seed=None,
                counted=None if self.counted is None else self.counted[chosen],
            )
            for chosen in (self.seed == number for number in self.seed.unique())
        ]  # fmt: skip

    def _seeds(self) -> Tensor:
        """The averages of the seeds: (S, ..)."""
        return torch.stack(
            [average(one.values, counted=one.counted, kind=one.average) for one in self.by_seed()]
        )

    def table(
        self,
        *,
        confidence: float = CONFIDENCE,
        draws: int = DRAWS,
        generator: torch.Generator | None = None,
    ) -> pd.DataFrame:
        """One row per place: keys, label, axes, mean, median, low, high, seed low, seed high.

        Low and high are the interval of the average. Seed low and seed high are the lowest and the
        highest average of a seed. Places where nothing counts are left out.
        """
        # What is not shown is not resampled either.
        shown = self.at(**self.shown) if self.shown else self
        interval = shown.interval(confidence=confidence, draws=draws, generator=generator)
        each = shown._seeds()  # (S, ..)
        columns = {
            "mean": average(shown.values, counted=shown.counted),
            "median": average(shown.values, counted=shown.counted, kind="median"),
            "low": interval.low,
            "high": interval.high,
            "seed low": each.amin(dim=0),
            "seed high": each.amax(dim=0),
        }  # (..) each
        places = list(product(*(shown._places(axis) for axis in self.axes)))
        table = pd.DataFrame(places, columns=list(self.axes)).assign(
            **{name: column.flatten().numpy() for name, column in columns.items()}
        )
        label = {"label": self.label} if self.label else {}
        for place, (name, value) in enumerate({**self.keys, **label}.items()):
            table.insert(place, name, value)
        return table.loc[shown.mask.any(dim=0).flatten().tolist()].reset_index(drop=True)

    def _axis(self, name: str) -> int:
        """The dimension of a named axis."""
        if name not in self.axes:
            raise ConfigurationError(unknown("axis", name, self.axes))
        return 1 + self.axes.index(name)

    def _places(self, axis: str) -> list[Any]:
        return list(self.ticks.get(axis, range(self.values.shape[self._axis(axis)])))


def ratio(first: Measured, second: Measured, *, draws: int = DRAWS, seed: int = 0) -> Estimate:
    """The average of the first over that of the second, resampled on the same prompts."""
    return _compare(lambda both: both["first"] / both["second"], first, second, draws, seed)


def difference(first: Measured, second: Measured, *, draws: int = DRAWS, seed: int = 0) -> Estimate:
    """The average of the first less that of the second, resampled on the same prompts."""
    return _compare(lambda both: both["first"] - both["second"], first, second, draws, seed)


def _compare(
    statistic: Statistic, first: Measured, second: Measured, draws: int, seed: int
) -> Estimate:
    pairs = zip(first.by_seed(), second.by_seed(), strict=True)
    seeds = [{"first": one, "second": other} for one, other in pairs]
    return estimate(statistic, seeds, draws=draws, generator=partial(seeded, seed))


def tables_of(
    measures: Mapping[str, Measured],
    *,
    draws: int = DRAWS,
    generator: Callable[[str], torch.Generator] | None = None,
) -> dict[str, pd.DataFrame]:
    """Long tables of all measures that have axes: those of the same axes below each other.

    A table is called after its axes, `by-examples` or `by-layer-iteration`; `generator` makes the
    generator of a table from the name of its last axis.
    """
    tables: dict[str, list[pd.DataFrame]] = {}
    for one in measures.values():
        if one.axes:
            own = None if generator is None else generator(one.axes[-1])
            name = f"by-{'-'.join(one.axes)}".replace(" ", "-")
            tables.setdefault(name, []).append(one.table(draws=draws, generator=own))
    return {name: pd.concat(several, ignore_index=True) for name, several in tables.items()}
