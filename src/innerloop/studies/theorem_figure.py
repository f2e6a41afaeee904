"""Figures of theorems: errors of circuits by step and by free parameter, beside what is stated."""

from collections.abc import Sequence

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from innerloop.analysis import drawing
from innerloop.analysis.drawing import COLOURS, FLOOR, MARKERS, plain
from innerloop.studies.study import Tables
from innerloop.studies.theorems import DIMS, POINTS

BOUND, TRUNCATION, ROUNDING = "-", "--", ":"
"""The lines of what is stated: all of it, and its two parts."""
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
    for form, rows in table.groupby("form", sort=False):
        index = list(forms).index(str(form))
        step, error, truncation, rounding = (
            rows[key].to_numpy(float) for key in ("step", "error", "truncation", "rounding")
        )
        steps = np.unique(step)
        worst = np.array([error[step == own].max() for own in steps])
        bound = np.array([(truncation + rounding)[step == own].max() for own in steps])
        _draw_marks(axes, steps, worst, index, str(form))
        axes.plot(steps, _positive(bound), color=COLOURS[index], linestyle=BOUND, linewidth=1.2)
    axes.plot([], [], color="0.3", linestyle=BOUND, linewidth=1.2, label="stated bound")
    axes.set_yscale("log")
    plain(axes)


def draw_parameter(axes: Axes, table: pd.DataFrame, forms: Sequence[str]) -> None:
    """Errors by a free parameter, with the truncation and the rounding that are stated."""
    for form, rows in table.groupby("form", sort=False):
        index = list(forms).index(str(form))
        values, error, truncation, rounding = (
            rows[key].to_numpy(float) for key in ("value", "error", "truncation", "rounding")
        )
        _draw_marks(axes, values, error, index, str(form))
        for stated, style in ((truncation, TRUNCATION), (rounding, ROUNDING)):
            axes.plot(
                values, _positive(stated), color=COLOURS[index], linestyle=style, linewidth=1.2
            )
    for style, label in ((TRUNCATION, "stated truncation"), (ROUNDING, "stated rounding")):
        axes.plot([], [], color="0.3", linestyle=style, linewidth=1.2, label=label)
    axes.set_xscale("log")
    axes.set_yscale("log")
    plain(axes)


def _draw_marks(axes: Axes, x: np.ndarray, error: np.ndarray, index: int, label: str) -> None:
    axes.plot(
        x, _positive(error), color=COLOURS[index], marker=MARKERS[index], markersize=4.5,
        linestyle="none", label=f"{label}: measured", zorder=3,
    )  # fmt: skip


def _positive(values: np.ndarray) -> np.ndarray:
    """What a logarithmic axis can show; what is left of zeros after roundings would stretch it."""
    return np.where(np.isfinite(values) & (values > FLOOR), values, np.nan)
