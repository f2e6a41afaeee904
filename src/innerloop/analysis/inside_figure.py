"""What is inside a model as figures: attention patterns, and heatmaps by step and component."""

from collections.abc import Sequence

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from innerloop.analysis.ablation import Ablation
from innerloop.analysis.attribution import Attribution
from innerloop.analysis.drawing import as_label, heatmap, name, panels
from innerloop.analysis.intervals import average
from innerloop.analysis.measured import Measured
from innerloop.core.errors import ConfigurationError

ROWS = 3
"""Steps of attention patterns that a figure shows, unless the caller says which."""


def draw_attention(patterns: Measured, *, rows: Sequence[int] | None = None) -> Figure:
    """One panel per step and head: who looks at whom, averaged over prompts.

    A row of a panel is a token that looks, a column one that is looked at. `rows` are places along
    the patterns' axis of steps; by default the first, the last and one between.
    """
    steps = list(patterns.ticks["step"])
    chosen = _spread(len(steps)) if rows is None else list(rows)
    heads = patterns.values.shape[2]
    figure, grid = panels(len(chosen) * heads, columns=heads, size=(2.5, 2.4), legend=0.3)
    for axes, (row, head) in zip(grid, [(r, h) for r in chosen for h in range(heads)], strict=True):
        _draw_pattern(axes, patterns, row, head, title=f"step {steps[row]}, head {head}")
    figure.suptitle(as_label(patterns.label), x=0.01, horizontalalignment="left", fontsize=10)
    return figure


def draw_places(
    measured: Measured, *, limits: tuple[float, float] = (0.0, 1.0), bar: str = ""
) -> Figure:
    """A heatmap by step and by head or token, averaged over prompts; one panel per head for both.

    `measured` is the `restored` of `patch`, the `errors` or `change` of `ablate`, or a part of
    `direct_attribution`.
    """
    if measured.axes[:1] != ("step",) or not 1 <= len(measured.axes) <= 3:
        raise ConfigurationError(
            f"the measure has the axes {measured.axes}: expected step, then head, token or both."
        )
    several = measured.axes == ("step", "head", "token")
    count = measured.values.shape[2] if several else 1
    figure, grid = panels(count, columns=2, size=(5.0, 3.6), legend=0.3)
    for head, axes in enumerate(grid):
        part = measured.at(head=head) if several else measured
        values = _mean(part).reshape(len(part.ticks["step"]), -1)  # (S, h or T)
        columns = [""] if len(part.axes) == 1 else _places(part, part.axes[1])
        heatmap(axes, values, rows=part.ticks["step"], columns=columns, limits=limits, bar=bar)
        across = part.axes[1] if len(part.axes) > 1 else ""
        name(axes, title=f"head {head}" if several else "", x=across, y="step")
    figure.suptitle(as_label(measured.label), x=0.01, horizontalalignment="left", fontsize=10)
    return figure


def draw_inside(
    patterns: Measured,
    heads: Ablation,
    mlps: Ablation | None = None,
    attribution: Attribution | None = None,
) -> Figure:
    """Attention in the last step, the error without each component, and what each adds directly."""
    number = patterns.values.shape[2]
    figure = Figure(figsize=(2.6 * max(4, number), 6.4), layout="constrained", dpi=130)
    outer = figure.add_gridspec(2, 1, height_ratios=(1.0, 1.2))
    above = outer[0].subgridspec(1, number)
    below = outer[1].subgridspec(1, 1 if attribution is None else 2)
    last = len(patterns.ticks["step"]) - 1
    for head in range(number):
        axes = figure.add_subplot(above[head])
        title = f"attention of head {head}, step {patterns.ticks['step'][last]}"
        _draw_pattern(axes, patterns, last, head, title=title)
    wide = [figure.add_subplot(below[place]) for place in range(below.ncols)]
    errors = _joined(heads.errors, None if mlps is None else mlps.errors)  # (S, c)
    _draw_joined(wide[0], np.log10(np.maximum(errors, 1e-18)), heads.errors, "log10 of the error")
    whole = float(heads.intact.values.mean())
    name(wide[0], title=f"error without one component at one step; intact {whole:.2g}", y="step")
    if attribution is not None:
        shares = attribution.shares
        parts = _joined(shares["head"], shares.get("mlp"))  # (S, c)
        _draw_joined(wide[1], parts, shares["head"], "share of the prediction")
        name(wide[1], title="what each component adds directly", y="step")
    figure.suptitle(as_label(patterns.label), x=0.01, horizontalalignment="left", fontsize=10)
    return figure


def _draw_pattern(axes: Axes, patterns: Measured, row: int, head: int, *, title: str) -> None:
    values = _mean(patterns.at(step=row, head=head))  # (T, T)
    if np.isnan(values).all():  # a block with fewer heads than others
        axes.set_axis_off()
        return
    tokens = patterns.ticks["token"]
    low, high = min(0.0, float(np.nanmin(values))), max(1.0, float(np.nanmax(values)))
    heatmap(axes, values, rows=tokens, columns=tokens, limits=(low, high), bar=None)
    name(axes, title=title)
    axes.tick_params(labelsize=6)


def _draw_joined(axes: Axes, values: np.ndarray, heads: Measured, bar: str) -> None:
    number = heads.values.shape[2]
    columns = [f"head {head}" for head in range(number)] + ["MLP"] * (values.shape[1] - number)
    limits = float(np.nanmin(values)), float(np.nanmax(values))
    heatmap(axes, values, rows=heads.ticks["step"], columns=columns, limits=limits, bar=bar)


def _joined(heads: Measured, mlps: Measured | None) -> np.ndarray:
    """The averages of heads, and of MLPs in a last column, by step: (S, h) or (S, h + 1)."""
    values = _mean(heads)  # (S, h)
    if mlps is None:
        return values
    steps = list(mlps.ticks["step"])
    average = _mean(mlps)  # (S',): blocks without an MLP are not in it
    column = [
        average[steps.index(step)] if step in steps else np.nan for step in heads.ticks["step"]
    ]
    return np.column_stack([values, column])


def _mean(measured: Measured) -> np.ndarray:
    """The average over prompts, (..)."""
    return average(measured.values, counted=measured.counted).numpy()


def _places(measured: Measured, axis: str) -> Sequence[object]:
    return measured.ticks.get(axis, range(measured.values.shape[1 + measured.axes.index(axis)]))


def _spread(total: int) -> list[int]:
    """A few of range(total), from the first to the last."""
    shown = min(ROWS, total)
    return sorted({round(i * (total - 1) / max(1, shown - 1)) for i in range(shown)})
