"""Figures of theorems: errors of circuits by step and by free parameter, beside what is stated."""

from collections.abc import Mapping, Sequence

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from innerloop.analysis import drawing
from innerloop.analysis.drawing import COLOURS, FLOOR, MARKERS, plain
from innerloop.studies.study import Tables
from innerloop.studies.theorems import DIMS, POINTS

ERROR = "error / max(1, |answer|)"


def draw_theorem(tables: Tables) -> Figure:
    """Error by step with its bound; with a free parameter, error by its value as well."""
    by_step = tables["by-step"]
    forms = list(dict.fromkeys(by_step["form"]))
    number = 2 if "by-parameter" in tables else 1
    figure, axes = drawing.panels(number, columns=2, size=(4.6, 3.5))
    draw_steps(axes[0], by_step, forms)
    drawing.name(axes[0], title="worst error of all sizes", x="steps of the algorithm", y=ERROR)
    if "by-parameter" in tables:
        swept = tables["by-parameter"]
        draw_parameter(axes[1], swept, forms)
        title = f"worst error of all steps, d = {DIMS}, n = {POINTS}"
        drawing.name(axes[1], title=title, x=str(swept["parameter"].iloc[0]), y=ERROR)
    drawing.legend(figure, axes)
    return figure


def draw_steps(axes: Axes, table: pd.DataFrame, forms: Sequence[str]) -> None:
    """The worst error of all sizes after each step, and the largest bound that was stated."""
    bound = table["truncation"] + table["rounding"]
    stated = table.loc[:, ["form", "step", "error"]].assign(bound=bound)
    in_order = stated.sort_values("step", kind="stable")  # forms stay as they are
    worst = in_order.groupby(["form", "step"], sort=False, as_index=False).max()
    _draw(axes, worst, forms, "step", {"bound": ("-", "stated bound")})


def draw_parameter(axes: Axes, table: pd.DataFrame, forms: Sequence[str]) -> None:
    """Errors by a free parameter, with the truncation and the rounding that are stated."""
    axes.set_xscale("log")
    lines = {"truncation": ("--", "stated truncation"), "rounding": (":", "stated rounding")}
    _draw(axes, table, forms, "value", lines)


def _draw(
    axes: Axes,
    table: pd.DataFrame,
    forms: Sequence[str],
    x: str,
    lines: Mapping[str, tuple[str, str]],
) -> None:
    """Errors of each form as marks, and columns as lines, each with its style and label."""
    for form, rows in table.groupby("form", sort=False):
        index = list(forms).index(str(form))
        axes.plot(
            rows[x], _positive(rows["error"].to_numpy(float)), color=COLOURS[index],
            marker=MARKERS[index], markersize=4.5, linestyle="none", label=f"{form}: measured",
            zorder=3,
        )  # fmt: skip
        for column, (style, _) in lines.items():
            stated = _positive(rows[column].to_numpy(float))
            axes.plot(rows[x], stated, color=COLOURS[index], linestyle=style, linewidth=1.2)
    for style, label in lines.values():
        axes.plot([], [], color="0.3", linestyle=style, linewidth=1.2, label=label)
    axes.set_yscale("log")
    plain(axes)


def _positive(values: np.ndarray) -> np.ndarray:
    """What a logarithmic axis can show; what is left of zeros after roundings would stretch it."""
    return np.where(np.isfinite(values) & (values > FLOOR), values, np.nan)
