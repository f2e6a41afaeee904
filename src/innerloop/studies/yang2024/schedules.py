"""Figure 17: whether it matters that the loops grow during training."""

import math
from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from typing import Any

import torch
from matplotlib.figure import Figure
from torch import Tensor

from innerloop.analysis import Averages, Measured, drawing
from innerloop.core.learner import Learner
from innerloop.learners import Ridge
from innerloop.studies.claim import Claim, Premise, at_least
from innerloop.studies.lab import Lab
from innerloop.studies.nulls import instead, of_another_seed, untrained
from innerloop.studies.runs import trained
from innerloop.studies.study import Measures, Runs, Scale, Tables, declare
from innerloop.studies.yang2024.loop_grid import FAMILIES
from innerloop.studies.yang2024.shared import (
    ALIGNED,
    PLAIN,
    TITLES,
    UNLIKE_THE_PAPER,
    all_learned,
    descent,
    distance,
    errors_of,
    known,
    plain_errors,
)

SCHEDULES = {"with": "with a schedule", "without": "without"}
TRAINED: Mapping[Scale, tuple[str, ...]] = {
    "smoke": ("linear", "network"), "laptop": ("linear", "network"), "paper": FAMILIES
}  # fmt: skip
"""The families of each scale."""


def _fig17_runs(scale: Scale) -> Runs:
    changes = {"with": (), "without": ("loops.start=null",)}
    return {
        f"{family} {schedule}": trained(f"looped-{family}", scale, *changes[schedule])
        for family in TRAINED[scale]
        for schedule in SCHEDULES
    }


def change(m: Averages, *, family: str) -> Tensor:
    """How far apart the errors without a schedule and with it are, (..); NaN if not measured."""
    if f"{family} with" not in m:
        return torch.tensor(math.nan)
    return distance(m[f"{family} without"], m[f"{family} with"])


def worse_without(m: Averages) -> Tensor:
    """The error on trees without a schedule over that with it, (..); NaN if not measured."""
    if "tree with" not in m:
        return torch.tensor(math.nan)
    return m["tree without"].mean(dim=-1) / m["tree with"].mean(dim=-1)


def _learned(family: str) -> Premise:
    """The model with a schedule has learned its family; that without one may fail to."""
    if family == "linear":
        return all_learned("with a schedule", lambda m: [m["linear with"][..., -1]])
    return known("with a schedule", partial(_over_plain, family=family))


def _over_plain(m: Averages, *, family: str) -> list[Tensor]:
    if f"{family}, plain" not in m:
        return [torch.tensor(math.nan)]
    return [m[f"{family} with"].mean(dim=-1) / m[f"{family}, plain"]]


def _draw_fig17(tables: Tables) -> Figure:
    """Errors by examples, and below them what a schedule changes, with a line's width around 0."""
    table = tables["by-examples"]
    families = list(dict.fromkeys(table["family"]))
    order = [*SCHEDULES.values(), "difference"]
    figure, axes = drawing.panels(2 * len(families), columns=len(families), size=(3.9, 2.6))
    for place, (panel, family) in enumerate(zip(axes, families * 2, strict=True)):
        below = place >= len(families)
        rows = drawing.rows_where(table, {"family": family})
        rows = rows.loc[(rows["label"] == "difference") == below]
        drawing.draw_curves(panel, rows, x="examples", order=order, log=not below)
        drawing.name(
            panel, title="" if below else TITLES.get(family, "linear functions"),
            x=drawing.EXAMPLES if below else "", y="without less with" if below else drawing.ERROR,
        )  # fmt: skip
        if below:
            for level in (-ALIGNED.at_most, ALIGNED.at_most):
                drawing.level(panel, level, label=f"± {ALIGNED.at_most:g}")
    drawing.legend(figure, axes)
    return figure


@declare(
    paper="yang2024", id="fig17",
    title="Letting the loops grow during training matters little",
    claims=(
        *(
            Claim(
                name=f"{family}-alike", ratio=True, criterion=ALIGNED,
                sentence="Whether b grows by a schedule makes no difference on "
                f"{TITLES.get(family, 'linear functions')}.",
                quantity="distance of the errors without a schedule and with it, mean over all "
                "prefixes",
                statistic=partial(change, family=family), premise=_learned(family),
                excludes=("untrained", "untrained without", "plain without"),
            )
            for family in FAMILIES
            if family != "tree"
        ),
        Claim(
            name="helps-trees", ratio=True,
            sentence="On trees the schedule helps a little.",
            quantity="mean error over all prefixes without a schedule / with it, trees (measured "
            "at the paper's scale only)",
            statistic=worse_without, premise=_learned("tree"),
            criterion=at_least(1, "better at all: by how much the paper does not say"),
            excludes=("untrained", "with a schedule, too"),
        ),
    ),
    runs=_fig17_runs,
    nulls={
        "untrained": untrained(),
        "untrained without": lambda lab: untrained(*_without(lab))(lab),
        "plain without": lambda lab: instead(_plain, *_without(lab))(lab),
        "with a schedule, too": of_another_seed(
            {f"{family} without": f"{family} with" for family in FAMILIES}
        ),
    },
    draw=_draw_fig17, minutes={"smoke": 0.3, "laptop": 14, "paper": 14_000},
    smaller={
        "smoke": "Linear functions and networks only; 3 dimensions, 4 loops, 20 steps; a schedule "
        "that begins with four loops is none here.",
        "laptop": "Linear functions and networks only, without sparse ones and trees; 5 "
        "dimensions, 20 hidden units, width 64 with 4 heads, 1500 steps without a curriculum; "
        f"T = 10 for linear functions. {UNLIKE_THE_PAPER}.",
    },
)  # fmt: skip
def fig17(lab: Lab) -> Measures:
    """Error by examples after training with and without a schedule of loops."""
    measures: dict[str, Measured] = {}
    for family in TRAINED[lab.scale]:
        both = {
            schedule: replace(
                errors_of(lab, f"{family} {schedule}", purpose=family, label=label),
                keys={"family": family},
            )
            for schedule, label in SCHEDULES.items()
        }
        measures |= {f"{family} {schedule}": errors for schedule, errors in both.items()}
        measures[f"{family}, difference"] = replace(
            both["without"] - both["with"], label="difference", scale="linear"
        )
        if family in PLAIN:
            measures[f"{family}, plain"] = plain_errors(lab, f"{family} with", family)
    return measures


def _without(lab: Lab) -> list[str]:
    return [label for label in lab.labels if label.endswith("without")]


def _plain(lab: Lab, label: str) -> Learner[Any]:
    """Descent with a step per loop on linear functions, ridge regression on the others."""
    return descent(lab, label) if label.startswith("linear") else Ridge(1.0)
