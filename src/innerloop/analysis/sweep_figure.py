"""Errors over a grid of settings: averages over seeds, and a figure of them."""

from collections.abc import Sequence
from itertools import product

import numpy as np
import pandas as pd
import torch
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import NullLocator

from innerloop.analysis.drawing import ERROR, draw_curves, heatmap, name, panels, rows_where
from innerloop.analysis.intervals import across_seeds
from innerloop.core.errors import ConfigurationError

_FEW = 12
"""Values along an axis up to which each has its tick, and each cell its number."""
_WIDE = 30
"""The ratio of the largest to the smallest value from which on an axis is logarithmic."""


def sweep_averages(table: pd.DataFrame, keys: Sequence[str]) -> pd.DataFrame:
    """One row per place of the grid: mean error over its finished runs, and Student's interval.

    `table` has a column for each key, and the columns `state` and `error`. A single run is its own
    interval; without any, all is NaN.
    """
    rows: list[dict[str, object]] = []
    for _, runs in table.groupby(list(keys), sort=False, dropna=False):
        errors = runs.loc[runs["state"] == "finished", "error"].to_numpy(float)
        mean = low = high = float(errors.mean()) if len(errors) else float("nan")
        if len(errors) > 1:
            interval = across_seeds(torch.tensor(errors))
            mean, low, high = float(interval.value), float(interval.low), float(interval.high)
        place = {key: runs[key].iloc[0] for key in keys}
        counts = {"runs": len(runs), "finished": len(errors)}
        rows.append({**place, **counts, "mean": mean, "low": low, "high": high})
    return pd.DataFrame(rows)


def draw_sweep(averages: pd.DataFrame, keys: Sequence[str], *, title: str = "") -> Figure:
    """A curve over one key, colours over two; more keys make one panel per value of the others."""
    if not keys or not np.isfinite(averages["mean"].to_numpy(float)).any():
        raise ConfigurationError("there are no finished runs along any key: nothing to draw.")
    shown, others = list(keys[:2]), list(keys[2:])
    places = list(product(*(dict.fromkeys(averages[key]) for key in others)))
    figure, grid = panels(len(places), size=(5.0, 3.6), legend=0.2)
    limits = _limits(averages["mean"].to_numpy(float))
    for axes, values in zip(grid, places, strict=True):
        here = dict(zip(others, values, strict=True))
        rows = rows_where(averages, here) if here else averages
        above = ", ".join(f"{key}={value}" for key, value in here.items()) or title
        if len(shown) == 1:
            _draw_curve(axes, rows, shown[0], above)
        else:
            _draw_grid(axes, rows, (shown[0], shown[1]), limits, above)
    return figure


def _draw_curve(axes: Axes, rows: pd.DataFrame, key: str, title: str) -> None:
    values = list(rows[key])
    numbers = _numbers(values)
    places = numbers if numbers is not None else [float(place) for place in range(len(values))]
    table = rows.assign(label="error", place=places).sort_values("place")
    draw_curves(axes, table, x="place")
    if numbers is not None and min(numbers) > 0 and max(numbers) > _WIDE * min(numbers):
        axes.set_xscale("log")
        axes.xaxis.set_minor_locator(NullLocator())
    if numbers is None or len(values) <= _FEW:
        axes.set_xticks(places, [_escaped(value) for value in values])
    name(axes, title=_escaped(title), x=_escaped(key), y=ERROR)


def _draw_grid(
    axes: Axes, rows: pd.DataFrame, keys: tuple[str, str], limits: tuple[float, float], title: str
) -> None:
    down, along = (list(dict.fromkeys(rows[key])) for key in keys)
    values = np.full((len(down), len(along)), np.nan)
    for first, second, mean in zip(rows[keys[0]], rows[keys[1]], rows["mean"], strict=True):
        values[down.index(first), along.index(second)] = mean
    heatmap(
        axes, np.log10(np.where(values > 0, values, np.nan)), rows=[*map(_escaped, down)],
        columns=[*map(_escaped, along)], limits=limits, bar=f"log10 of {ERROR}",
    )  # fmt: skip
    if max(values.shape) <= _FEW:
        middle = sum(limits) / 2
        for row, column in np.argwhere(np.isfinite(values)):
            value = values[row, column]
            dark = value > 0 and np.log10(value) < middle
            axes.text(
                column, row, f"{value:.2g}", ha="center", va="center", fontsize=7,
                color="white" if dark else "black",
            )  # fmt: skip
    name(axes, title=_escaped(title), x=_escaped(keys[1]), y=_escaped(keys[0]))


def _limits(values: np.ndarray) -> tuple[float, float]:
    """The ends of the colours, in powers of ten: the same in every panel."""
    positive = np.log10(values[np.isfinite(values) & (values > 0)])
    if len(positive) == 0:
        return -1.0, 0.0
    low, high = float(positive.min()), float(positive.max())
    return (low, high) if high > low else (low - 0.5, high + 0.5)


def _numbers(values: Sequence[object]) -> list[float] | None:
    """All values as finite numbers; None where one is a word."""
    try:
        numbers = [float(str(value)) for value in values]
    except ValueError:
        return None
    return numbers if np.isfinite(numbers).all() else None


def _escaped(text: object) -> str:
    """A text of a user's, in which a dollar begins no formula."""
    return str(text).replace("$", r"\$")
