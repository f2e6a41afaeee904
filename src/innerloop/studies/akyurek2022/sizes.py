"""Figure 3: which algorithm models of several depths and widths agree with."""

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from torch import Tensor

from innerloop.analysis import Measured, drawing
from innerloop.studies.akyurek2022 import agreement
from innerloop.studies.akyurek2022.agreement import ALGORITHMS, LEAST_SQUARES, RIDGE, STEP
from innerloop.studies.claim import Claim, at_most
from innerloop.studies.lab import Lab
from innerloop.studies.runs import trained
from innerloop.studies.study import Measures, Runs, Scale, Tables, declare
from innerloop.training.config import RunConfig

SIZES: dict[str, dict[Scale, tuple[int, ...]]] = {
    "width": {"smoke": (8, 16), "laptop": (16, 32, 64), "paper": (16, 32, 64, 256, 512, 1024)},
    "layers": {"smoke": (1, 2), "laptop": (1, 2, 4, 8), "paper": (1, 2, 4, 8, 12, 16)},
}
MODEST = 1
"""Which of the widths is a modest one: 32, the second."""


def _fig3_runs(scale: Scale) -> Runs:
    """The model with another depth or width; the other one is that of the full model."""
    recipe, full = "standard-linear", {"layers": SIZES["layers"][scale][-1]}
    if scale == "paper":
        recipe, full = "akyurek-linear", {**full, "width": 512}
    runs: dict[str, RunConfig] = {}
    for kind, sizes in SIZES.items():
        for size in sizes[scale]:
            own = {**full, kind: size}
            changes = (f"model.backbone.{key}={value}" for key, value in own.items())
            runs[f"{kind} {size}"] = trained(recipe, scale, *changes)
    return runs


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
    edges = [places[0] / 1.1, *np.sqrt(places[1:] * places[:-1]), places[-1] * 1.1]
    nearest = rows.loc[rows.groupby("size")["mean"].idxmin(), "label"]
    for label, left, right in zip(nearest, edges, edges[1:], strict=False):
        colour = drawing.COLOURS[ALGORITHMS.index(label)]
        axes.axvspan(left, right, color=colour, alpha=0.12, linewidth=0, zorder=0)
    axes.set_xlim(edges[0], edges[-1])


def _nearest(name: str, own: str, kind: str, place: int, sentence: str, words: str) -> Claim:
    """That models of one size, at a place among all, are nearest to one algorithm."""

    def statistic(m: Mapping[str, Tensor]) -> Tensor:
        sizes = {label: m[f"{kind}, {label}"][..., place] for label in ALGORITHMS}  # (..) each
        return agreement.nearer(sizes, own)

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
    """SPD from each algorithm over all prefixes, for each width and each depth."""
    config = lab.config(f"layers {SIZES['layers'][lab.scale][0]}")
    task, prompt = config.task, lab.draw(config.task, config.points)
    others = agreement.algorithms(lab, task, config.points)
    measures: dict[str, Measured] = {}
    for kind, sizes in SIZES.items():
        models = {size: lab.learner(f"{kind} {size}") for size in sizes[lab.scale]}
        distances = {
            size: agreement.prediction_distances(lab, model, others, prompt, task)
            for size, model in models.items()
        }
        for label in ALGORITHMS:
            own = {size: each[label].mean("examples") for size, each in distances.items()}
            stacked = Measured.stack("size", own)
            measures[f"{kind}, {label}"] = replace(stacked, label=label, keys={"kind": kind})
    return measures
