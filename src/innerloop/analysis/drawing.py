"""How figures look: the same curves, bands and colours everywhere, drawn from tables alone."""

import textwrap
from collections.abc import Callable, Iterable, Mapping, Sequence
from io import BytesIO
from pathlib import Path
from typing import Any, BinaryIO, Literal

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, MaxNLocator
from PIL import Image

from innerloop.core.errors import ConfigurationError, unknown
from innerloop.core.files import write_atomically
from innerloop.core.words import printable

COLOURS = ("#0072B2", "#E69F00", "#009E73", "#CC79A7", "#D55E00", "#56B4E9", "#000000", "#8C6D31")
"""Okabe and Ito's palette, ordered so that neighbours differ for every reader, and a brown."""
STYLES = ("-", "--", "-.", ":")
"""After the colours have gone round once, the lines change, and every colour has the next mark."""
MARKERS = ("o", "s", "^", "D", "v", "P", "X", "*")

FLOOR = 1e-18
"""Errors below this are rounding: a logarithmic axis ends here."""
LEVEL = (0, (1, 1.5))
"""The line of a level to compare with: densely dotted."""


def panels(
    count: int, *, columns: int = 3, size: tuple[float, float] = (3.6, 3.0), legend: float = 0.55
) -> tuple[Figure, list[Axes]]:
    """A figure of so many panels, and their axes in order; `legend` inches are kept below them."""
    columns = min(columns, count)
    rows = -(-count // columns)
    width, height = max(size[0] * columns, 5.0), size[1] * rows + legend
    figure = Figure(figsize=(width, height), layout="constrained", dpi=130)
    grid = list(figure.subplots(rows, columns, squeeze=False).flat)
    for axes in grid[count:]:
        axes.set_axis_off()
    return figure, grid[:count]


ERROR, EXAMPLES = "squared error / E[y²]", "examples in the prompt"
"""What the axes of most figures are called."""


def facets(
    table: pd.DataFrame,
    by: str,
    *,
    x: str,
    title: Callable[[Any], str] = str,
    names: tuple[str, str] = (EXAMPLES, ERROR),
    order: Sequence[str] | None = None,
    log: bool = True,
    band: bool = True,
    floor: float | None = None,
    columns: int = 3,
    size: tuple[float, float] = (3.6, 3.0),
    legend: float = 0.55,
) -> tuple[Figure, dict[Any, Axes]]:
    """One panel of curves per value of a column, and the panels by these values.

    `names` are those of the two axes. All panels share the colours of their labels; the legend is
    the caller's.
    """
    values = list(dict.fromkeys(table[by]))
    labels = list(dict.fromkeys(table["label"])) if order is None else order
    figure, grid = panels(len(values), columns=columns, size=size, legend=legend)
    for axes, value in zip(grid, values, strict=True):
        rows = rows_where(table, {by: value})
        draw_curves(axes, rows, x=x, order=labels, log=log, band=band, floor=floor)
        name(axes, title=title(value), x=names[0], y=names[1])
    return figure, dict(zip(values, grid, strict=True))


def draw_curves(
    axes: Axes,
    table: pd.DataFrame,
    *,
    x: str,
    label: str = "label",
    order: Sequence[str] | None = None,
    log: bool = True,
    band: bool = True,
    floor: float | None = None,
) -> None:
    """One line per label with its band, from a table with the columns mean, low and high.

    `order` lists all labels of the figure, so that each keeps its colour in every panel. A
    logarithmic axis ends at `floor`, where rounding begins. Bands that are far wider than the
    curves are apart, as those of two seeds, are cut: curves scale the axis.
    """
    names = list(order if order is not None else dict.fromkeys(table[label]))
    longest = table[x].to_numpy(float).max()
    limits = _band_limits(table, log=log)
    for name, rows in table.groupby(label, sort=False):
        index = names.index(str(name))
        colour, style = COLOURS[index % len(COLOURS)], STYLES[index // len(COLOURS) % len(STYLES)]
        places, mean, low, high = (rows[key].to_numpy(float) for key in (x, "mean", "low", "high"))
        if len(places) == 1 and longest > 0:  # a level to compare with
            places, mean = np.array([0.0, longest]), mean.repeat(2)
            low, high, style = low.repeat(2), high.repeat(2), LEVEL
        mean = np.where(np.isfinite(mean), mean, np.nan)  # a curve that leaves the picture
        # Short, to leave room for the curves.
        shown = textwrap.shorten(as_label(str(name)), 40, placeholder=" ..")
        axes.plot(
            places, mean, color=colour, linestyle=style, label=shown, linewidth=1.5,
            marker=MARKERS[(index + index // len(COLOURS)) % len(MARKERS)], markersize=3.5,
            markevery=max(1, len(places) // 8),
        )  # fmt: skip
        if band:
            low, high = (
                np.where(np.isfinite(end), end, np.nan).clip(*limits) for end in (low, high)
            )
            axes.fill_between(places, low, high, color=colour, alpha=0.2, linewidth=0)
    if log:
        logarithmic(axes)
        if floor is not None:
            axes.set_ylim(bottom=max(floor, axes.get_ylim()[0]))
    plain(axes)


def logarithmic(axes: Axes) -> None:
    """A logarithmic axis of what is drawn; in less than a decade 0.6 is not written 6 x 10^-1."""
    axes.set_yscale("log")
    low, high = axes.get_ylim()
    if high < 10 * low:
        axes.yaxis.set_minor_formatter(FuncFormatter(lambda value, _: f"{value:g}"))


def _band_limits(table: pd.DataFrame, *, log: bool) -> tuple[float, float]:
    """Where bands are cut: ten times beyond the curves, or at the `ceiling` of a linear axis."""
    mean, low, high = (table[key].to_numpy(float) for key in ("mean", "low", "high"))
    if log:
        shown = mean[np.isfinite(mean) & (mean > 0)]
        return float(shown.min(initial=np.inf)) / 10, float(shown.max(initial=0)) * 10
    top = ceiling(pd.DataFrame({"mean": abs(mean), "high": np.fmax(abs(low), abs(high))}))
    return -top, top


def ceiling(table: pd.DataFrame) -> float:
    """Where a linear axis ends: above all bands, cut at twice their mean."""
    mean, high = (table[key].to_numpy(float) for key in ("mean", "high"))
    ends = np.fmin(high, 2 * mean)
    return 1.08 * float(ends[np.isfinite(ends)].max(initial=0.1))


def plain(axes: Axes, *, whole: bool = True) -> None:
    """A light grid, no frame above and to the right, whole numbers below."""
    axes.grid(alpha=0.3, linewidth=0.5)
    axes.spines[["top", "right"]].set_visible(False)
    axes.margins(x=0.02)
    if whole and axes.get_xscale() == "linear":
        axes.xaxis.set_major_locator(MaxNLocator(integer=True, nbins=6))


def as_label(text: str) -> str:
    """What somebody else has called something, as it is: a dollar would begin a formula."""
    return printable(text).replace("$", r"\$")


def name(axes: Axes, *, title: str = "", x: str = "", y: str = "") -> None:
    """Title and labels; a long title is broken."""
    axes.set_title(textwrap.fill(title, 42), loc="left", fontsize=9)
    axes.set_xlabel(x, fontsize=9)
    axes.set_ylabel(y, fontsize=9)
    axes.tick_params(labelsize=8, which="both")


def mark(axes: Axes, place: float, *, label: str = "trained loops", colour: str = "0.35") -> None:
    """A dashed line from top to bottom: the loops that a model was trained with."""
    axes.axvline(place, color=colour, linewidth=1.0, linestyle=(0, (4, 3)), label=label)


def level(axes: Axes, value: float, *, label: str = "", colour: str = "0.5") -> None:
    """A dotted line from left to right: an error to compare with."""
    axes.axhline(value, color=colour, linewidth=1.0, linestyle=LEVEL, label=label, zorder=0)


def legend(figure: Figure, axes: Iterable[Axes], *, columns: int = 4) -> None:
    """One legend below all panels, each label once: it covers no data."""
    handles: dict[str, object] = {}
    for panel in axes:
        for handle, label in zip(*panel.get_legend_handles_labels(), strict=True):
            handles.setdefault(label, handle)
    figure.legend(
        list(handles.values()), list(handles), loc="outside lower center", ncols=columns,  # pyright: ignore[reportArgumentType]
        frameon=False, fontsize=8,
    )  # fmt: skip


def save_small(figure: Figure, file: BinaryIO) -> None:
    """A PNG of 256 colours, a third of the size: pages hold dozens of pictures."""
    drawn = BytesIO()
    figure.savefig(drawn, format="png")
    # The default method gives most colours to wide pale bands, and makes the blue of a line teal.
    method = Image.Quantize.MAXCOVERAGE
    with Image.open(drawn) as image:
        image.convert("RGB").quantize(256, method=method, kmeans=1).save(file, "png", optimize=True)


def heatmap(
    axes: Axes,
    values: np.ndarray,
    *,
    rows: Sequence[object],
    columns: Sequence[object],
    best: Mapping[int, int] | None = None,
    limits: tuple[float, float] = (0.0, 1.0),
    bar: str | None = "",
) -> None:
    """Values (rows, columns) as colours, row 0 below; `best` frames one row of each column.

    `bar` names the bar of colours; None draws none.
    """
    image = axes.imshow(
        values, aspect="auto", origin="lower", cmap="viridis", vmin=limits[0], vmax=limits[1]
    )
    for axis, names in ((axes.yaxis, rows), (axes.xaxis, columns)):
        places = range(0, len(names), max(1, -(-len(names) // 12)))
        axis.set_ticks(places, [as_label(str(names[place])) for place in places])
    for column, row in (best or {}).items():
        # White within black: seen on every colour of the map.
        for width, edge in ((2.8, "black"), (1.2, "white")):
            axes.plot(
                column, row, marker="s", markersize=6.5, color="none", markeredgecolor=edge,
                markeredgewidth=width,
            )  # fmt: skip
    figure = axes.figure
    assert isinstance(figure, Figure)
    if bar is not None:
        figure.colorbar(image, ax=axes, shrink=0.85, label=bar)
    axes.tick_params(labelsize=8, which="both")


def draw_error_curve(
    table: pd.DataFrame,
    *,
    title: str = "",
    scale: Literal["linear", "log"] = "linear",
    place: tuple[float, str] | None = None,
) -> Figure:
    """A figure of `error_curve`'s table: one line per learner, by prefix or by step.

    `place` is a position on the horizontal axis with its name, drawn as a line from top to bottom.
    A linear axis is cut at twice the error of predicting zero, or higher if a learner would not be
    seen at all, which keeps the rest legible; the label of the axis says so.
    """
    if not isinstance(table, pd.DataFrame):
        raise ConfigurationError(
            f"table is a {type(table).__name__}, expected the table that error_curve returns."
        )
    if table.empty:
        raise ConfigurationError("the table has no rows: there is nothing to draw.")
    if scale not in ("linear", "log"):
        raise ConfigurationError(unknown("scale", scale, ("linear", "log")))
    prefixes, steps = (len(np.unique(table[column])) for column in ("prefix", "step"))
    by = "step" if prefixes == 1 and steps > 1 else "prefix"
    figure = Figure(figsize=(8.0, 4.5), layout="constrained", dpi=150)
    axes = figure.add_subplot()
    draw_curves(axes, table, x=by, label="learner", log=scale == "log")
    axes.set_xlabel("examples seen" if by == "prefix" else "steps taken")
    axes.set_ylabel(ERROR)
    means = table["mean"].to_numpy(float)
    finite = means[np.isfinite(means)]
    if scale == "log":
        positive = finite[finite > 0]
        axes.set_ylim(bottom=max(FLOOR, float(positive.min()) / 2) if len(positive) else FLOOR)
    else:
        # It ends where the curves are, not where one learner fails.
        highest = 1.1 * float(finite.max(initial=0))
        curves = [rows["mean"].to_numpy(float) for _, rows in table.groupby("learner")]
        lowest = np.array([curve.min() for curve in curves])
        needed = 1.5 * float(lowest[np.isfinite(lowest)].max(initial=0))
        top = min(highest, max(2.0, needed))
        axes.set_ylim(0, max(top, 1e-3))
        if top < highest:
            axes.set_ylabel(f"{ERROR}, cut at {top:.2g}")
        level(axes, 1.0, colour="0.6")
    if place is not None:
        mark(axes, place[0], label=place[1])
    if by == "step":
        title = f"{title}, after {int(table['prefix'].iloc[0])} examples".removeprefix(", ")
    _name_beside(figure, axes, title)
    return figure


def draw_training(metrics: pd.DataFrame, *, title: str = "") -> Figure:
    """A figure of the loss of each batch and the held-out error by training step."""
    figure = Figure(figsize=(8.0, 4.5), layout="constrained", dpi=150)
    axes = figure.add_subplot()
    loss, error = (metrics[["step", column]].dropna() for column in ("loss", "error"))
    axes.plot(
        loss["step"], loss["loss"], color=COLOURS[1], label="loss of the batch, all prefixes",
        linewidth=0.8, alpha=0.7,
    )  # fmt: skip
    axes.plot(
        error["step"], error["error"], color=COLOURS[0], label="held-out error at the last prefix",
        linewidth=1.8, marker="o", markersize=4,
    )  # fmt: skip
    axes.set_yscale("log")
    axes.set_xlabel("training step")
    axes.set_ylabel(ERROR)
    plain(axes, whole=False)
    _name_beside(figure, axes, title)
    return figure


def _name_beside(figure: Figure, axes: Axes, title: str) -> None:
    """Put a title over the whole figure and the legend beside the axes."""
    # Above the axes alone a title would run into the legend.
    text = textwrap.fill(as_label(title), 95)
    figure.suptitle(text, x=0.01, horizontalalignment="left", fontsize=10)
    figure.legend(*axes.get_legend_handles_labels(), loc="outside right center", frameon=False)


def save_figure_and_table(figure: Figure, table: pd.DataFrame, path: Path) -> tuple[Path, Path]:
    """Write the figure to path.png and the numbers beside it to path.csv."""
    image, numbers = path.with_name(f"{path.name}.png"), path.with_name(f"{path.name}.csv")
    write_atomically(image, lambda file: figure.savefig(file))
    write_atomically(numbers, lambda file: table.to_csv(file, index=False))
    return image, numbers


def rows_where(table: pd.DataFrame, values: Mapping[str, object]) -> pd.DataFrame:
    """The rows of a table in which columns have these values."""
    chosen = pd.Series(True, index=table.index)
    for column, value in values.items():
        chosen &= table[column] == value
    return table.loc[chosen, :]
