"""Figures of error tables: drawn from the table alone, so that a CSV is all one needs."""

import textwrap
from pathlib import Path
from typing import Literal

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from innerloop.core.errors import ConfigurationError, unknown
from innerloop.core.files import write_atomically

COLOURS = ("#0072B2", "#E69F00", "#009E73", "#CC79A7", "#D55E00", "#56B4E9", "#000000", "#8C6D31")
"""Okabe and Ito's palette, ordered so that neighbours differ for every reader, and a brown."""
STYLES = ("-", "--", "-.", ":")
"""After the colours have gone round once, the lines change."""
MARKERS = ("o", "s", "^", "D", "v", "P", "X", "*")

FLOOR = 1e-18
"""Errors below this are rounding: a logarithmic axis ends here."""


def draw_error_curve(
    table: pd.DataFrame,
    *,
    title: str = "",
    scale: Literal["linear", "log"] = "linear",
    mark: tuple[float, str] | None = None,
) -> Figure:
    """One line a learner with its interval as a band; by prefix or by step, as the table is.

    `mark` is a place on the horizontal axis with its name, drawn as a line from top to bottom.

    A linear axis is cut at twice the error of predicting zero, or higher if a learner would not be
    seen at all, which keeps the rest legible; the label of the axis says so.
    """
    if table.empty:
        raise ConfigurationError("the table has no rows: there is nothing to draw.")
    if scale not in ("linear", "log"):
        raise ConfigurationError(unknown("scale", scale, ("linear", "log")))
    prefixes, steps = (len(np.unique(table[name].to_numpy())) for name in ("prefix", "step"))
    by: Literal["prefix", "step"] = "step" if prefixes == 1 and steps > 1 else "prefix"
    figure, axes = _empty()
    longest = int(table[by].to_numpy().max())
    for index, (_, rows) in enumerate(table.groupby("learner", sort=False)):
        _draw_line(axes, rows, by, index, longest)
    _decorate(axes, table, by, scale)
    if mark is not None:
        place, name = mark
        axes.axvline(place, color="0.35", linewidth=1.0, linestyle=(0, (4, 3)), label=name)
    if by == "step":
        title = f"{title}, after {int(table['prefix'].to_numpy()[0])} examples".removeprefix(", ")
    _name(figure, axes, title)
    return figure


def draw_training(metrics: pd.DataFrame, *, title: str = "") -> Figure:
    """Loss of each batch and held-out error by training step, on a logarithmic axis."""
    figure, axes = _empty()
    for index, (column, label) in enumerate(
        (
            ("loss", "loss of the batch, all prefixes"),
            ("error", "held-out error at the last prefix"),
        )
    ):
        rows = metrics[["step", column]].dropna()
        heavy = column == "error"
        axes.plot(
            rows["step"], rows[column], color=COLOURS[1 - index], label=label,
            linewidth=1.8 if heavy else 0.8, alpha=1.0 if heavy else 0.7,
            marker="o" if heavy else None, markersize=4,
        )  # fmt: skip
    axes.set_yscale("log")
    axes.set_xlabel("training step")
    axes.set_ylabel("squared error / E[y²]")
    axes.grid(alpha=0.3, linewidth=0.5)
    axes.spines[["top", "right"]].set_visible(False)
    _name(figure, axes, title)
    return figure


def _empty() -> tuple[Figure, Axes]:
    # A Figure of its own, not pyplot's: nothing to close, and safe beside a user's own figures.
    figure = Figure(figsize=(8.0, 4.5), layout="constrained", dpi=150)
    return figure, figure.add_subplot()


def _name(figure: Figure, axes: Axes, title: str) -> None:
    """Title and legend."""
    # Over the whole figure: above the axes alone it would run into the legend.
    told = textwrap.fill(title.replace("$", r"\$"), 95)  # a dollar would begin a formula
    figure.suptitle(told, x=0.01, horizontalalignment="left", fontsize=10)
    figure.legend(*axes.get_legend_handles_labels(), loc="outside right center", frameon=False)


def save_figure_and_table(figure: Figure, table: pd.DataFrame, path: Path) -> tuple[Path, Path]:
    """Write the figure to path.png and the numbers beside it to path.csv."""
    image, numbers = path.with_name(f"{path.name}.png"), path.with_name(f"{path.name}.csv")
    write_atomically(image, lambda file: figure.savefig(file))
    write_atomically(numbers, lambda file: table.to_csv(file, index=False))
    return image, numbers


def _draw_line(axes: Axes, rows: pd.DataFrame, by: str, index: int, longest: int) -> None:
    colour = COLOURS[index % len(COLOURS)]
    style = STYLES[index // len(COLOURS) % len(STYLES)]
    label = textwrap.shorten(
        str(rows["learner"].iloc[0]).replace("$", r"\$"), 40, placeholder=" .."
    )
    x, mean, low, high = (rows[name].to_numpy(float) for name in (by, "mean", "low", "high"))
    if by == "step" and len(x) == 1 and longest > 0:
        # A one-shot learner has no steps: its error is a level to compare with.
        x, mean, low, high = (
            np.array([0.0, longest]), mean.repeat(2), low.repeat(2), high.repeat(2),
        )  # fmt: skip
        style = "--"
    marker = MARKERS[index % len(MARKERS)]
    axes.plot(
        x, mean, color=colour, linestyle=style, label=label, linewidth=1.6,
        marker=marker, markersize=4, markevery=max(1, len(x) // 10),
    )  # fmt: skip
    axes.fill_between(x, low, high, color=colour, alpha=0.2, linewidth=0)


def _decorate(axes: Axes, table: pd.DataFrame, by: str, scale: str) -> None:
    axes.set_xlabel("examples seen" if by == "prefix" else "steps taken")
    axes.set_ylabel("squared error / E[y²]")
    axes.grid(alpha=0.3, linewidth=0.5)
    axes.spines[["top", "right"]].set_visible(False)
    means = table["mean"].to_numpy(float)
    finite = means[np.isfinite(means)]
    if scale == "log":
        axes.set_yscale("log")
        positive = finite[finite > 0]
        axes.set_ylim(bottom=max(FLOOR, float(positive.min()) / 2) if len(positive) else FLOOR)
    else:
        highest = 1.1 * float(finite.max(initial=0))
        lowest = np.array(
            [rows["mean"].to_numpy(float).min() for _, rows in table.groupby("learner")]
        )
        needed = 1.5 * float(lowest[np.isfinite(lowest)].max(initial=0))
        top = min(highest, max(2.0, needed))
        axes.set_ylim(0, max(top, 1e-3))
        if top < highest:
            axes.set_ylabel(f"squared error / E[y²], cut at {top:.2g}")
        axes.axhline(1.0, color="0.6", linewidth=0.8, linestyle=":", zorder=0)
    axes.xaxis.set_major_locator(MaxNLocator(integer=True))
    axes.margins(x=0.01)
