"""How the studies' figures look: the same curves, bands, marks and colours everywhere."""

import textwrap
from collections.abc import Mapping, Sequence
from io import BytesIO
from pathlib import Path

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator
from PIL import Image

from innerloop.analysis.figure import COLOURS, MARKERS, STYLES

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
    """One line a label with its band, from a table with the columns mean, low and high.

    `order` lists all labels of the figure, so that each keeps its colour in every panel. A
    logarithmic axis ends at `floor`, where rounding begins.
    """
    names = list(order if order is not None else dict.fromkeys(table[label]))
    longest = table[x].to_numpy(float).max()
    for name, rows in table.groupby(label, sort=False):
        index = names.index(str(name))
        colour, style = COLOURS[index % len(COLOURS)], STYLES[index // len(COLOURS) % len(STYLES)]
        places, mean, low, high = (rows[key].to_numpy(float) for key in (x, "mean", "low", "high"))
        if len(places) == 1 and longest > 0:  # a level to compare with
            places, mean = np.array([0.0, longest]), mean.repeat(2)
            low, high, style = low.repeat(2), high.repeat(2), LEVEL
        mean = np.where(np.isfinite(mean), mean, np.nan)  # a curve that leaves the picture
        axes.plot(
            places, mean, color=colour, linestyle=style, label=str(name), linewidth=1.5,
            marker=MARKERS[index % len(MARKERS)], markersize=3.5,
            markevery=max(1, len(places) // 8),
        )  # fmt: skip
        if band:
            axes.fill_between(
                places, np.where(np.isfinite(low), low, np.nan),
                np.where(np.isfinite(high), high, np.nan), color=colour, alpha=0.2, linewidth=0,
            )  # fmt: skip
    if log:
        axes.set_yscale("log")
        if floor is not None:
            axes.set_ylim(bottom=max(floor, axes.get_ylim()[0]))
    plain(axes)


def plain(axes: Axes, *, whole: bool = True) -> None:
    """A light grid, no frame above and to the right, whole numbers below."""
    axes.grid(alpha=0.3, linewidth=0.5)
    axes.spines[["top", "right"]].set_visible(False)
    axes.margins(x=0.02)
    if whole and axes.get_xscale() == "linear":
        axes.xaxis.set_major_locator(MaxNLocator(integer=True, nbins=6))


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


def legend(figure: Figure, axes: Sequence[Axes], *, columns: int = 4) -> None:
    """One legend below all panels, each label once: it covers no data."""
    found: dict[str, object] = {}
    for panel in axes:
        for handle, told in zip(*panel.get_legend_handles_labels(), strict=True):
            found.setdefault(told, handle)
    figure.legend(
        list(found.values()), list(found), loc="outside lower center", ncols=columns,  # pyright: ignore[reportArgumentType]
        frameon=False, fontsize=8,
    )  # fmt: skip


def save_small(figure: Figure, path: Path) -> None:
    """A PNG of 256 colours, a third of the size: pages hold dozens of pictures."""
    drawn = BytesIO()
    figure.savefig(drawn, format="png")
    with Image.open(drawn) as image:
        image.convert("RGB").quantize(256).save(path, optimize=True)


def heatmap(
    axes: Axes,
    values: np.ndarray,
    *,
    rows: Sequence[object],
    columns: Sequence[object],
    best: Mapping[int, int] | None = None,
    limits: tuple[float, float] = (0.0, 1.0),
    bar: str = "",
) -> None:
    """Values (rows, columns) as colours, row 0 below; `best` frames one row of each column."""
    image = axes.imshow(
        values, aspect="auto", origin="lower", cmap="viridis", vmin=limits[0], vmax=limits[1]
    )
    for places, names, setter in (
        (len(rows), rows, (axes.set_yticks, axes.set_yticklabels)),
        (len(columns), columns, (axes.set_xticks, axes.set_xticklabels)),
    ):
        every = max(1, -(-places // 12))
        chosen = list(range(0, places, every))
        setter[0](chosen)
        setter[1]([str(names[place]) for place in chosen])
    for column, row in (best or {}).items():
        # White within black: seen on every colour of the map.
        for width, edge in ((2.8, "black"), (1.2, "white")):
            axes.plot(
                column, row, marker="s", markersize=6.5, color="none", markeredgecolor=edge,
                markeredgewidth=width,
            )  # fmt: skip
    figure = axes.figure
    assert isinstance(figure, Figure)
    figure.colorbar(image, ax=axes, shrink=0.85, label=bar)
    axes.tick_params(labelsize=8, which="both")
