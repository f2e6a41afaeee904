"""How the similarity of layers and steps is drawn: heatmaps, with the best match of each layer."""

from collections.abc import Sequence

import numpy as np
from matplotlib.axes import Axes

from innerloop.analysis import drawing
from innerloop.studies.fu2023.layer_trends import Measure, linear_steps, logarithmic_steps
from innerloop.studies.fu2023.model_layers import DESCENT, LEAST, LSTM, MODEL, NEWTON, ONLINE
from innerloop.studies.study import Tables

ORDER = (MODEL, LSTM, NEWTON, DESCENT, ONLINE, LEAST)
"""Models and algorithms have the same colours in all figures; layers have shades of their own."""


def draw_similarity(
    axes: Axes, tables: Tables, measure: Measure, algorithm: str, *, logarithmic: bool = False
) -> None:
    """The similarity of every layer with the steps of an algorithm; the best are framed.

    Of many steps some twenty are shown, at equal distances or ratios, and the frame is on the
    nearest of them (`nearest_row`).
    """
    table = drawing.rows_where(tables["by-layer-step"], {"measure": measure, "label": algorithm})
    values = table.pivot(index="step", columns="layer", values="mean")
    count = int(table["step"].to_numpy().max()) + 1
    choose = logarithmic_steps if logarithmic else linear_steps
    shown, best = choose(count), best_steps(tables, measure, algorithm).values()
    frames = [nearest_row(shown, step, logarithmic=logarithmic) for step in best]
    drawing.heatmap(
        axes, values.loc[shown, :].to_numpy(float), rows=shown, columns=list(values.columns),
        best=dict(enumerate(frames)), bar=measure,
    )  # fmt: skip
    title = f"{measure}, {algorithm}" + (", log scale" if logarithmic else "")
    words = "iteration" if algorithm == NEWTON else "steps"
    drawing.name(axes, title=title, x="layer", y=f"{algorithm}: {words}")


def draw_matches(axes: Axes, tables: Tables, measure: Measure) -> None:
    """The best match of each layer, in both algorithms, with the lines through what is fitted.

    What is not fitted is pale: layers in which the error does not fall, or whose match is the end.
    """
    for algorithm, logarithmic in ((NEWTON, False), (DESCENT, True)):
        best, index = best_steps(tables, measure, algorithm), ORDER.index(algorithm)
        colour = drawing.COLOURS[index]
        fitted = best_steps(tables, measure, algorithm, "fitted")
        chosen = {layer: step for layer, step in best.items() if fitted[layer] > 0.5}
        rest = {layer: step for layer, step in best.items() if layer not in chosen}
        for own, label, strength in ((chosen, f"best match: {algorithm}", 1.0), (rest, "", 0.3)):
            axes.plot(
                list(own), list(own.values()), color=colour, marker=drawing.MARKERS[index],
                linestyle="none", markersize=6, label=label, alpha=strength,
                markerfacecolor="none" if logarithmic else colour,  # both show where they agree
            )  # fmt: skip
        if len(chosen) > 1:
            _draw_line(axes, chosen, colour, logarithmic=logarithmic)
    axes.set_yscale("symlog", linthresh=1)  # with the start, which is step 0
    drawing.plain(axes)
    drawing.name(axes, title=f"best match by {measure}", x="layer", y="steps of the algorithm")


def _draw_line(axes: Axes, best: dict[int, float], colour: str, *, logarithmic: bool) -> None:
    """The line through the steps by layer, or through their logarithms."""
    layers, steps = np.array(list(best), float), np.array(list(best.values()))
    line = np.polyfit(layers, np.log(np.maximum(steps, 1)) if logarithmic else steps, 1)
    places = np.linspace(layers.min(), layers.max(), 50)
    drawn = np.exp(np.polyval(line, places)) if logarithmic else np.polyval(line, places)
    kind, style = ("exponential", "--") if logarithmic else ("line", "-")
    axes.plot(places, drawn, style, color=colour, linewidth=1.2, label=f"{kind} fitted")


def best_steps(
    tables: Tables, measure: Measure, algorithm: str, value: str = "best match"
) -> dict[int, float]:
    """The step that is most like each layer, or another value, by layer; the mean over seeds."""
    own = {"value": value, "measure": measure, "label": algorithm}
    rows = drawing.rows_where(tables["by-layer"], own)
    return dict(zip(rows["layer"].astype(int), rows["mean"].astype(float), strict=True))


def nearest_row(shown: Sequence[int], step: float, *, logarithmic: bool) -> int:
    """The row of the step that is shown nearest to one, by distance or by ratio.

    The start is a row of its own: it matches layers that have done nothing, so that no step is
    rounded to it. `shown` begins with it and is in order.
    """
    if step == 0 or len(shown) == 1:
        return 0
    steps = np.array(shown[1:], dtype=float)
    away = np.abs(np.log(steps / step)) if logarithmic else np.abs(steps - step)
    return 1 + int(np.argmin(away))
