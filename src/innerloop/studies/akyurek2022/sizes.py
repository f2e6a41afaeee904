"""Figure 3: which algorithm models of several depths and widths agree with."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from torch import Tensor

from innerloop.analysis import Measured, drawing
from innerloop.core.learner import Learner
from innerloop.core.task import Task
from innerloop.studies.akyurek2022.agreement import (
    ALGORITHMS,
    LEAST_SQUARES,
    RIDGE,
    STEP,
    algorithms,
    nearer,
    prediction_distances,
)
from innerloop.studies.claim import Claim, at_most
from innerloop.studies.lab import Lab
from innerloop.studies.runs import standard, trained
from innerloop.studies.study import Measures, Runs, Scale, Tables, declare
from innerloop.training.config import RunConfig

DEPTHS: dict[Scale, tuple[int, ...]] = {
    "smoke": (1, 2),
    "laptop": (1, 2, 4, 8),
    "paper": (1, 2, 4, 8, 12, 16),
}
WIDTHS: dict[Scale, tuple[int, ...]] = {
    "smoke": (8, 16),
    "laptop": (16, 32, 64),
    "paper": (16, 32, 64, 256, 512, 1024),
}
MODEST = 1
"""Which of the widths is a modest one: 32, the second."""


def _sized(scale: Scale, *, layers: int | None = None, width: int | None = None) -> RunConfig:
    """The model with another depth or width; of the paper's size, that of its main model."""
    if scale != "paper":
        return standard(scale, layers=layers or DEPTHS[scale][-1], width=width)
    sizes = (f"model.backbone.layers={layers or 16}", f"model.backbone.width={width or 512}")
    return trained("akyurek-linear", scale, *sizes)


def _fig3_runs(scale: Scale) -> Runs:
    depths = {f"layers {layers}": _sized(scale, layers=layers) for layers in DEPTHS[scale]}
    return depths | {f"width {width}": _sized(scale, width=width) for width in WIDTHS[scale]}


def _draw_fig3(tables: Tables) -> Figure:
    titles = {"width": "by width, all layers", "layers": "by depth, full width"}
    figure, panels = drawing.facets(
        tables["by-size"], "kind", x="size", title=titles.__getitem__, order=ALGORITHMS,
        names=("", "SPD / d, mean over prefixes"), columns=2, size=(4.4, 3.6),
    )  # fmt: skip
    for kind, axes in panels.items():
        rows = drawing.rows_where(tables["by-size"], {"kind": kind})
        sizes = sorted(set(rows["size"].to_numpy(int).tolist()))
        axes.set_xscale("log", base=2)
        axes.set_xticks(sizes, [str(size) for size in sizes])
        axes.set_xticks([], minor=True)
        axes.set_xlabel(kind)
        _shade_nearest(axes, rows, sizes)
    drawing.legend(figure, panels.values(), columns=3)
    return figure


def _shade_nearest(axes: Axes, rows: pd.DataFrame, sizes: Sequence[int]) -> None:
    """The background in the colour of the algorithm that is nearest at each size."""
    places = np.array(sizes, dtype=float)
    between = np.sqrt(places[1:] * places[:-1])
    edges = [places[0] / 1.1, *between, places[-1] * 1.1]
    for size, left, right in zip(sizes, edges, edges[1:], strict=False):
        own = rows.loc[rows["size"] == size, :]
        nearest = str(own.loc[own["mean"].idxmin(), "label"])
        colour = drawing.COLOURS[ALGORITHMS.index(nearest)]
        axes.axvspan(left, right, color=colour, alpha=0.12, linewidth=0, zorder=0)
    axes.set_xlim(edges[0], edges[-1])


def _nearest(name: str, own: str, kind: str, place: int, sentence: str, words: str) -> Claim:
    """That models of one size, at a place among all, are nearest to one algorithm."""

    def statistic(m: Mapping[str, Tensor]) -> Tensor:
        return nearer({label: m[f"{kind}, {label}"][..., place] for label in ALGORITHMS}, own)

    return Claim(
        name=name, sentence=sentence, quantity=f"SPD from {words}", statistic=statistic, ratio=True,
        criterion=at_most(1.0, "nearer, however little: which one is best is the claim"),
    )  # fmt: skip


NEAREST = (
    _nearest("shallow", STEP, "layers", 0,
             "Very shallow models are nearest to one step of gradient descent.",
             "one step / SPD from the nearest other, one pass of SGD among them, one layer"),
    # "Slightly deeper": the next depth, not the one of all that suits best.
    _nearest("deeper", RIDGE, "layers", 1,
             "Slightly deeper models are nearest to ridge regression.",
             "ridge 0.1 / SPD from the nearest other, the depth after the first"),
    _nearest("deepest", LEAST_SQUARES, "layers", -1,
             "The deepest models are nearest to least squares.",
             "least squares / SPD from the nearest other, most layers"),
    _nearest("modest-width", LEAST_SQUARES, "width", MODEST,
             "Modest widths of 32 are enough to match least squares.",
             "least squares / SPD from the nearest other, width 32"),
)  # fmt: skip


def _width_over_depth(m: Mapping[str, Tensor]) -> Tensor:
    """The effect of width over that of depth, (..): each from the second size to the full one."""
    width, depth = (m[f"{kind}, {LEAST_SQUARES}"] for kind in ("width", "layers"))  # (.., sizes)
    return width[..., MODEST] / width[..., -1] / (depth[..., 1] / depth[..., -1])


@declare(
    paper="akyurek2022",
    id="fig3",
    title="With depth a model passes from gradient descent to ridge to least squares",
    claims=(
        *NEAREST,
        Claim(
            name="width-against-depth",
            sentence="Width has no strong effect, beside that of depth.",
            quantity="SPD from least squares, second width / full width, over the same of the "
            "second depth / full depth",
            statistic=_width_over_depth,
            criterion=at_most(1.0, "the weaker effect, however little"),
            over="seeds",
            ratio=True,
        ),
    ),
    draw=_draw_fig3,
    runs=_fig3_runs,
    minutes={"smoke": 0.3, "laptop": 22, "paper": 30_000},
    smaller={
        "smoke": "3 dimensions, 1 and 2 layers, widths 8 and 16, 20 steps.",
        "laptop": "5 dimensions instead of 8, 10 examples instead of 40, 1 to 8 layers instead of "
        "16, widths 16 to 64 instead of 1024, 2000 steps of a faster optimiser; heads are not "
        "chosen anew for each size.",
    },
    notes=(
        "The paper's text defines its step of gradient descent as one step on the batch of all "
        "examples, and that is what is judged. The code that its authors have published makes a "
        "step an example instead; one pass of SGD stands beside it and counts among the others.",
    ),
)
def fig3(lab: Lab) -> Measures:
    """SPD over all prefixes, for each width and each depth."""
    config = lab.config(f"layers {DEPTHS[lab.scale][0]}")
    models = {
        kind: {size: lab.learner(f"{kind} {size}") for size in sizes[lab.scale]}
        for kind, sizes in (("width", WIDTHS), ("layers", DEPTHS))
    }
    return by_size(lab, models, config.task, config.points)


def by_size(
    lab: Lab, models: Mapping[str, Mapping[int, Learner[Any]]], task: Task, points: int
) -> Measures:
    """SPD of models by kind and size from each algorithm, averaged over prefixes."""
    others, prompt = algorithms(lab, task, points), lab.draw(task, points)
    measures: dict[str, Measured] = {}
    for kind, sizes in models.items():
        distances = {
            size: prediction_distances(lab, model, others, prompt, task)
            for size, model in sizes.items()
        }
        for label in ALGORITHMS:
            own = {size: each[label].mean("examples") for size, each in distances.items()}
            measures[f"{kind}, {label}"] = replace(
                Measured.stack("size", own), label=label, keys={"kind": kind}
            )
    return measures
