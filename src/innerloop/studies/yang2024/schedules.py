"""Figure 17: whether it matters that the loops grow during training."""

import math
from dataclasses import replace

import torch
from matplotlib.figure import Figure
from torch import Tensor

from innerloop.analysis import Averages, Measured, drawing
from innerloop.studies.claim import Claim, at_least
from innerloop.studies.lab import Lab
from innerloop.studies.runs import trained
from innerloop.studies.study import Measures, Runs, Scale, Tables, declare
from innerloop.studies.yang2024.loop_grid import FAMILIES
from innerloop.studies.yang2024.shared import ALIKE, errors_of

SCHEDULES = {"with": "with a schedule", "without": "without"}


def _fig17_runs(scale: Scale) -> Runs:
    changes = {"with": (), "without": ("loops.start=null",)}
    return {
        f"{family} {schedule}": trained(f"looped-{family}", scale, *changes[schedule])
        for family in FAMILIES
        if scale == "paper" or family in ("linear", "network")
        for schedule in SCHEDULES
    }


def change(m: Averages, family: str) -> Tensor:
    """The error over all prefixes without a schedule over that with it, (..); NaN if unknown."""
    if f"{family} with" not in m:
        return torch.tensor(math.nan)
    return m[f"{family} without"].mean(dim=-1) / m[f"{family} with"].mean(dim=-1)


def largest_change(m: Averages) -> Tensor:
    """The change or its inverse, whichever is larger, of the family where it is largest: (..)."""
    measured = [family for family in FAMILIES if family != "tree" and f"{family} with" in m]
    changes = torch.stack([change(m, family) for family in measured])  # (families, ..)
    return torch.maximum(changes, 1 / changes).amax(dim=0)


def _draw_fig17(tables: Tables) -> Figure:
    table = tables["by-examples"]
    figure, axes = drawing.facets(
        table, "family", x="examples", log=False, columns=2, size=(3.9, 3.0)
    )
    for family, panel in axes.items():
        panel.set_ylim(0, drawing.ceiling(drawing.rows_where(table, {"family": family})))
    drawing.legend(figure, axes.values())
    return figure


@declare(
    paper="yang2024", id="fig17",
    title="Letting the loops grow during training matters little",
    claims=(
        Claim(
            name="matters-little", ratio=True, criterion=ALIKE,
            sentence="Whether b grows by a schedule makes no difference, except for trees.",
            quantity="mean error over all prefixes without a schedule / with it, or its inverse "
            "where that is larger; the family that differs most, without trees",
            statistic=largest_change,
        ),
        Claim(
            name="helps-trees", ratio=True,
            sentence="On trees the schedule helps a little.",
            quantity="mean error over all prefixes without a schedule / with it, trees (measured "
            "at the paper's scale only)",
            statistic=lambda m: change(m, "tree"),
            criterion=at_least(1, "better at all: by how much the paper does not say"),
        ),
    ),
    draw=_draw_fig17, runs=_fig17_runs, minutes={"smoke": 0.2, "laptop": 13, "paper": 14_000},
    smaller={
        "smoke": "Linear functions and networks only; 3 dimensions, 4 loops, 20 steps; a schedule "
        "that begins with four loops is none here.",
        "laptop": "Linear functions and networks only, without sparse ones and trees; 5 "
        "dimensions, 20 hidden units, width 64, 1500 steps of a faster optimiser; loops grow "
        "over 60% of the steps.",
    },
)  # fmt: skip
def fig17(lab: Lab) -> Measures:
    """Error by examples after training with and without a schedule of loops."""
    measures: dict[str, Measured] = {}
    for run in _fig17_runs(lab.scale):
        family, schedule = run.split()
        errors = errors_of(lab, run, purpose=family, label=SCHEDULES[schedule])
        measures[run] = replace(errors, keys={"family": family})
    if lab.scale != "paper":
        lab.note("Trees are trained at the paper's scale only.")
    return measures
