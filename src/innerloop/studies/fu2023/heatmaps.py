"""How the similarity of layers and steps is drawn: heatmaps, with the best match of each layer."""

from collections.abc import Sequence

import numpy as np
import pandas as pd
from matplotlib.axes import Axes

from innerloop.analysis.drawing import COLOURS, MARKERS, heatmap, name, plain
from innerloop.studies.fu2023.layers import Measure
from innerloop.studies.fu2023.trends import (
    DESCENT,
    NEWTON,
    linear_steps,
    logarithmic_steps,
)
from innerloop.studies.study import Tables
from innerloop.studies.tables import rows_where


def draw_similarity(
    axes: Axes, tables: Tables, measure: Measure, algorithm: str, *, logarithmic: bool = False
) -> None:
    """The similarity of every layer with the steps of an algorithm; the best are framed.

    From the tables `similarities` and `best`. Of many steps some twenty are shown, at equal
    distances or ratios, and the frame is on the nearest of them (`nearest_row`).
    """
    table = rows_where(tables["similarities"], {"measure": measure, "algorithm": algorithm})
    values = table.pivot(index="step", columns="layer", values="similarity")
    count = int(table["step"].to_numpy().max()) + 1
    shown = logarithmic_steps(count) if logarithmic else linear_steps(count)
    values = values.loc[shown, :]
    best = _first_seed(tables["best"], measure, algorithm)
    frames = {
        column: nearest_row(shown, int(step), logarithmic=logarithmic)
        for column, step in enumerate(best["step"])
    }
    heatmap(
        axes, values.to_numpy(float), rows=shown, columns=list(values.columns), best=frames,
        limits=(0.0, 1.0), bar=measure,
    )  # fmt: skip
    words = "iteration" if algorithm == NEWTON else "steps"
    scale = ", log scale" if logarithmic else ""
    name(axes, title=f"{measure}, {algorithm}{scale}", x="layer", y=f"{algorithm}: {words}")


def draw_matches(axes: Axes, tables: Tables, measure: Measure) -> None:
    """The best match of each layer, in both algorithms, with the lines through what is fitted."""
    for index, (algorithm, logarithmic) in enumerate(((NEWTON, False), (DESCENT, True))):
        rows = _first_seed(tables["best"], measure, algorithm)
        colour = COLOURS[index]
        axes.plot(
            rows["layer"], rows["step"], color=colour, marker=MARKERS[index],
            linestyle="none", markersize=6, label=f"best match: {algorithm}",
            markerfacecolor="none" if logarithmic else colour,  # both show where they agree
        )  # fmt: skip
        fitted = rows_where(rows, {"fitted": True})
        if len(fitted) > 1:
            _draw_line(axes, fitted, colour, logarithmic=logarithmic)
    axes.set_yscale("symlog", linthresh=1)  # with the start, which is step 0
    plain(axes)
    name(axes, title=f"best match by {measure}", x="layer", y="steps of the algorithm")


def _draw_line(axes: Axes, rows: pd.DataFrame, colour: str, *, logarithmic: bool) -> None:
    """The line through the steps, or through their logarithms."""
    layers, steps = rows["layer"].to_numpy(float), rows["step"].to_numpy(float)
    values = np.log(np.maximum(steps, 1)) if logarithmic else steps
    slope, start = np.polyfit(layers, values, 1)
    places = np.linspace(layers.min(), layers.max(), 50)
    drawn = slope * places + start
    told = "exponential" if logarithmic else "line"
    axes.plot(
        places, np.exp(drawn) if logarithmic else drawn,
        color=colour, linewidth=1.2, linestyle="--" if logarithmic else "-", label=f"{told} fitted",
    )  # fmt: skip


def _first_seed(best: pd.DataFrame, measure: Measure, algorithm: str) -> pd.DataFrame:
    return rows_where(best, {"seed": 0, "measure": measure, "algorithm": algorithm})


def nearest_row(shown: Sequence[int], step: int, *, logarithmic: bool) -> int:
    """The row of the step that is shown nearest to one, by distance or by ratio.

    The start is a row of its own: it matches layers that have done nothing, so that no step is
    rounded to it. `shown` begins with it and is in order.
    """
    if step == 0 or len(shown) == 1:
        return 0
    steps = np.array(shown[1:], dtype=float)
    away = np.abs(np.log(steps / step)) if logarithmic else np.abs(steps - step)
    return 1 + int(np.argmin(away))
