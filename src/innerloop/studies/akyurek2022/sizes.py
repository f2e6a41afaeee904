"""Figure 3: which algorithm models of several depths and widths agree with."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from torch import Tensor

from innerloop.analysis import Averages, Measured, Statistic, drawing
from innerloop.core.learner import Learner
from innerloop.learners import OLS, Ridge
from innerloop.studies import nulls
from innerloop.studies.akyurek2022 import agreement
from innerloop.studies.akyurek2022.agreement import (
    ALGORITHMS,
    EXAMPLES,
    LEAST_SQUARES,
    NEARLY,
    PASS,
    RECIPE,
    RIDGE,
    STEP,
    UNTRAINED,
)
from innerloop.studies.claim import Claim, Criterion, Premise, at_most
from innerloop.studies.lab import Lab
from innerloop.studies.runs import trained
from innerloop.studies.study import Measures, Runs, Scale, Tables, declare
from innerloop.training.config import RunConfig

PREDICTORS = tuple(label for label in ALGORITHMS if label != PASS)
"""The paper's list for this figure: its step of gradient descent is one on all examples."""
KINDS = WIDTH, DEPTH = "width", "layers"
SIZES: dict[str, dict[Scale, tuple[int, ...]]] = {
    WIDTH: {"smoke": (8, 16), "laptop": (16, 32, 64), "desk": (16, 32, 64),
            "paper": (16, 32, 64, 256, 512, 1024)},
    DEPTH: {"smoke": (1, 2), "laptop": (1, 2, 4, 8), "desk": (1, 2, 4, 8),
            "paper": (1, 2, 4, 8, 12, 16)},
}  # fmt: skip
MODEST = 1
"""Which of the widths is a modest one: 32, the second. The second depth is slightly deeper."""
SWAPPED, DEEPEST = "depth in the place of width", "the deepest model"


def _fig3_runs(scale: Scale) -> Runs:
    """The model with another depth or width; the other one is that of the full model."""
    full = {WIDTH: 512 if scale == "paper" else SIZES[WIDTH][scale][-1],
            DEPTH: SIZES[DEPTH][scale][-1]}  # fmt: skip
    runs: dict[str, RunConfig] = {}
    for kind, sizes in SIZES.items():
        for size in sizes[scale]:
            own = {**full, kind: size}
            changes = (f"model.backbone.{key}={value}" for key, value in own.items())
            runs[f"{kind} {size}"] = trained("akyurek-linear", scale, *EXAMPLES[scale], *changes)
    return runs


def _draw_fig3(tables: Tables) -> Figure:
    table = tables["by-size"]
    table = table.loc[table["label"].isin(PREDICTORS)]
    titles = {WIDTH: "by width (shade: the nearest)", DEPTH: "by depth (shade: the nearest)"}
    figure, panels = drawing.facets(
        table, "kind", x="size", title=titles.__getitem__, order=PREDICTORS,
        names=("", "SPD / d, mean over prefixes"), columns=2, size=(4.4, 3.6),
    )  # fmt: skip
    for kind, axes in panels.items():
        rows = drawing.rows_where(table, {"kind": kind})
        sizes = sorted(set(rows["size"].to_numpy(int).tolist()))
        axes.set_xscale("log", base=2)
        axes.set_xticks(sizes, [str(size) for size in sizes])
        axes.set_xticks([], minor=True)
        axes.set_xlabel(kind)
        _shade_nearest(axes, rows, sizes)
        for colour, label in zip(drawing.COLOURS, (LEAST_SQUARES, RIDGE), strict=False):
            own = drawing.rows_where(rows, {"label": label}).sort_values("size")
            axes.plot(own["size"], own["median"], color=colour, linestyle=":")
        axes.plot([], [], color="0.35", linestyle=":", label="median over prompts, same colours")
    drawing.legend(figure, panels.values(), columns=3)
    return figure


def _shade_nearest(axes: Axes, rows: pd.DataFrame, sizes: Sequence[int]) -> None:
    """The background in the colour of the algorithm that is nearest at each size."""
    places = np.array(sizes, dtype=float)
    edges = [places[0] / 1.1, *np.sqrt(places[1:] * places[:-1]), places[-1] * 1.1]
    nearest = rows.loc[rows.groupby("size")["mean"].idxmin(), "label"]
    for label, left, right in zip(nearest, edges, edges[1:], strict=False):
        colour = drawing.COLOURS[PREDICTORS.index(label)]
        axes.axvspan(left, right, color=colour, alpha=0.12, linewidth=0, zorder=0)
    axes.set_xlim(edges[0], edges[-1])


def _nearness(own: str, kind: str, place: int) -> Statistic:
    """SPD from one algorithm over that from the nearest other, of models of one size."""

    def statistic(m: Averages) -> Tensor:
        sizes = {label: m[f"{kind}, {label}"][..., place] for label in PREDICTORS}  # (..) each
        return agreement.nearer(sizes, own)

    return statistic


def _nearest(
    name: str,
    own: str,
    kind: str,
    place: int,
    *,
    sentence: str,
    quantity: str,
    premise: Premise,
    excludes: tuple[str, ...],
    criterion: Criterion,
) -> Claim:
    """That models of one size, at a place among all, are nearest to one algorithm."""
    return Claim(
        name=name, sentence=sentence, quantity=f"SPD from {quantity}", premise=premise, ratio=True,
        statistic=_nearness(own, kind, place), criterion=criterion, excludes=excludes,
    )  # fmt: skip


def _learned(which: str, kind: str, place: int, limit: float, reason: str) -> Premise:
    return Premise(
        quantity=f"error of {which} after the last example, over d",
        statistic=lambda m: m[f"{kind}, error after the last example"][..., place],
        criterion=at_most(limit, reason),
    )


FULL = _learned("the full model", DEPTH, -1, agreement.AGREEMENT,
                "the paper's number for what agrees: above it the largest model has not learned "
                "the task, and training limits all of them, not their size")  # fmt: skip
SOME = _learned("one layer", DEPTH, 0, 0.5,
                "half of predicting zero: it has learned something from the examples, which one "
                "step of gradient descent does as well")  # fmt: skip
ENDS = Premise(
    quantity="SPD of the deepest models from least squares / SPD from the nearest other",
    statistic=_nearness(LEAST_SQUARES, DEPTH, -1),
    criterion=at_most(1.0, "the regime ends: where no depth is nearest to least squares, all that "
                      "falls short of it is nearest to ridge regression"),
)  # fmt: skip
BEST = at_most(1.0, "nearer, however little: which one is best is the claim")
NEAREST = (
    _nearest("shallow", STEP, DEPTH, 0, premise=SOME, criterion=BEST,
             sentence="Very shallow models are nearest to one step of gradient descent.",
             quantity="one step / SPD from the nearest other, one layer",
             excludes=(UNTRAINED, LEAST_SQUARES, RIDGE, PASS, DEEPEST)),
    # "Slightly deeper": the next depth, not the one of all that suits best.
    _nearest("deeper", RIDGE, DEPTH, MODEST, premise=ENDS,
             sentence="Slightly deeper models are nearest to ridge regression, before deeper ones "
             "match least squares.",
             quantity="ridge 0.1 / SPD from the nearest other, the depth after the first",
             criterion=at_most(
                 agreement.CONSIDERABLY, "twice as near: by less also one pass of SGD is nearest "
                 "to ridge regression, which it is not"),
             excludes=(UNTRAINED, LEAST_SQUARES, STEP, PASS, DEEPEST)),
    _nearest("deepest", LEAST_SQUARES, DEPTH, -1, premise=FULL, criterion=BEST,
             sentence="The deepest models are nearest to least squares.",
             quantity="least squares / SPD from the nearest other, most layers",
             excludes=(UNTRAINED, NEARLY, RIDGE, STEP, PASS)),
    _nearest("modest-width", LEAST_SQUARES, WIDTH, MODEST, premise=FULL, criterion=BEST,
             sentence="Modest widths of 32 are enough to match least squares.",
             quantity="least squares / SPD from the nearest other, width 32",
             excludes=(UNTRAINED, NEARLY, RIDGE, STEP, PASS)),
)  # fmt: skip


def _width_over_depth(m: Averages) -> Tensor:
    """The effect of width over that of depth, (..): each from the second size to the full one."""
    width, depth = (m[f"{kind}, {LEAST_SQUARES}"] for kind in KINDS)  # (.., sizes)
    return width[..., MODEST] / width[..., -1] / (depth[..., MODEST] / depth[..., -1])


def _depth_for_width(lab: Lab) -> Mapping[str, Learner[Any]]:
    """In the places of the second and of the full width the models of these depths."""
    width, depth = (SIZES[kind][lab.scale] for kind in KINDS)
    return {f"{WIDTH} {width[i]}": lab.learner(f"{DEPTH} {depth[i]}") for i in (MODEST, -1)}


def _deepest(lab: Lab) -> Mapping[str, Learner[Any]]:
    """The deepest model in the places of all others of its width."""
    *others, deepest = (f"{DEPTH} {size}" for size in SIZES[DEPTH][lab.scale])
    return dict.fromkeys(others, lab.learner(deepest))


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
            criterion=at_most(0.5, "not strong: half of the effect of depth at most"),
            ratio=True,
            premise=FULL,
            excludes=(UNTRAINED, SWAPPED),
        ),
    ),
    draw=_draw_fig3,
    runs=_fig3_runs,
    nulls={
        UNTRAINED: nulls.untrained(),
        NEARLY: nulls.instead(lambda lab, label: Ridge(0.03)),
        LEAST_SQUARES: nulls.instead(lambda lab, label: OLS()),
        **{label: agreement.in_the_place_of(label) for label in (RIDGE, STEP, PASS)},
        DEEPEST: _deepest,
        SWAPPED: _depth_for_width,
    },
    minutes={"smoke": 0.5, "laptop": 25, "desk": 60, "paper": 30_000},
    smaller={
        "smoke": "3 dimensions, 1 and 2 layers, widths 8 and 16, 20 steps.",
        "laptop": f"{RECIPE['laptop']}; 1 to 8 layers instead of 16, widths 16 to 64 instead of "
        "1024, and heads are not chosen anew for each size.",
        "desk": f"{RECIPE['desk']}; 1 to 8 layers instead of 16, widths 16 to 64 instead of 1024, "
        "and heads are not chosen anew for each size.",
    },
    notes=(
        "The paper's text defines its step of gradient descent as one step on the batch of all "
        "examples, and its list has no pass of SGD, which the code of its authors makes: it is no "
        "predictor here, and a null of every claim on what is nearest.",
        "Claims are about means over prompts, as the paper's SPD is an expectation. A few prompts "
        "with nearly singular inputs make most of a mean: the table has medians beside them.",
    ),
)
def fig3(lab: Lab) -> Measures:
    """SPD from each algorithm over all prefixes, for each width and each depth."""
    config = lab.config(f"{DEPTH} {SIZES[DEPTH][lab.scale][0]}")
    task, prompt = config.task, lab.draw(config.task, config.points)
    others = agreement.algorithms(lab, task, config.points)
    others = {label: others[label] for label in PREDICTORS}
    measures: dict[str, Measured] = {}
    for kind, sizes in SIZES.items():
        models = {size: lab.learner(f"{kind} {size}") for size in sizes[lab.scale]}
        distances = {
            size: agreement.prediction_distances(lab, model, others, prompt, task)
            for size, model in models.items()
        }
        for label in PREDICTORS:
            own = {size: each[label].mean("examples") for size, each in distances.items()}
            measures[f"{kind}, {label}"] = replace(
                Measured.stack("size", own), label=label, keys={"kind": kind}
            )
        # Least squares is exact there: the distance from it is the error.
        errors = {size: each[LEAST_SQUARES].at(examples=-1) for size, each in distances.items()}
        measures[f"{kind}, error after the last example"] = replace(
            Measured.stack("size", errors),
            label="error after the last example",
            keys={"kind": kind},
        )
    return measures
