"""Figures 5 and 14: how many distinct prompts a looped and a standard model need in training."""

import math
from collections.abc import Mapping
from dataclasses import replace
from itertools import product

import torch
from matplotlib.figure import Figure
from torch import Tensor

from innerloop.analysis import Measured, drawing
from innerloop.studies.claim import Claim, at_most
from innerloop.studies.lab import Lab
from innerloop.studies.runs import trained
from innerloop.studies.study import Measures, Runs, Scale, Tables, declare
from innerloop.studies.yang2024.shared import KINDS, LOWER, errors_of, geometric_mean
from innerloop.training.config import RunConfig

LEARNED = 0.2
"""The error below which a function counts as learned: where the axis of the paper's figure ends."""
POOLS: Mapping[Scale, tuple[int | None, ...]] = {
    "smoke": (64, None),
    "laptop": (500, 2000, 8000, None),
    "paper": (1000, 2000, 5000, 10_000, 20_000, 40_000, 80_000),
}
"""The distinct prompts of each training; None for those of figure 2, which draw fresh ones."""
DIMENSIONS: Mapping[Scale, tuple[int, ...]] = {"smoke": (3,), "laptop": (5,), "paper": (5, 10, 20)}


def _label(kind: str, dims: int, pool: int | None) -> str:
    return f"{kind}, {dims} dimensions, {pool or 'fresh'} prompts"


def _fig5_runs(scale: Scale) -> Runs:
    """Models trained on fixed pools of prompts: all of their size from the start."""
    runs: dict[str, RunConfig] = {}
    for dims, kind, pool in product(DIMENSIONS[scale], KINDS, POOLS[scale]):
        changes = [] if pool is None else [f"pool={pool}"]
        if scale == "paper":
            changes += [f"task.dims={dims}", f"points={2 * dims + 1}"]
            changes += ["curriculum.dims=null", "curriculum.points=null"]
            if kind == "looped":
                changes += ["model.backbone.loops=30", "window=15", "loops.start=null"]
        runs[_label(kind, dims, pool)] = trained(f"{kind}-linear", scale, *changes)
    return runs


def prompts_needed(errors: Tensor, pools: Tensor) -> Tensor:
    """The distinct prompts (..) with which errors (.., k) at pools (k,) come down to LEARNED.

    Between two pools by a straight line of logarithms. The first pool where even that is enough:
    fewer may do. Infinite where no pool is enough.
    """
    enough = errors <= LEARNED  # (.., k)
    first = enough.int().argmax(dim=-1, keepdim=True)  # (.., 1)
    before = (first - 1).clamp(min=0)  # (.., 1)
    above, below = (errors.log().gather(-1, place) for place in (before, first))  # (.., 1) each
    share = torch.where(first > 0, (above - math.log(LEARNED)) / (above - below), 0.0)  # (.., 1)
    needed = torch.lerp(pools.log()[before], pools.log()[first], share).exp()  # (.., 1)
    return torch.where(enough.any(dim=-1), needed[..., 0], torch.inf)


def needed_ratio(looped: Tensor, standard: Tensor, pools: Tensor) -> Tensor:
    """Prompts that looped needs over those that standard needs, from errors (.., k) each: (..).

    NaN where nothing is known: no pool is enough for either, or the smallest is for both.
    """
    first, second = (prompts_needed(errors, pools) for errors in (looped, standard))  # (..) each
    both_at_once = (looped[..., 0] <= LEARNED) & (standard[..., 0] <= LEARNED)  # (..)
    return torch.where(both_at_once, torch.nan, first / second)


def _draw_fig5(tables: Tables) -> Figure:
    table = tables["by-dims-distinct-prompts"]
    figure, axes = drawing.facets(
        table, "dims", x="distinct prompts", order=KINDS, log=False, size=(4.2, 3.2),
        title=lambda dims: f"{dims} dimensions, after {2 * dims} examples",
        names=("distinct prompts seen in training", drawing.ERROR),
    )  # fmt: skip
    for dims, panel in axes.items():
        rows = drawing.rows_where(table, {"dims": dims})
        panel.set_ylim(0, drawing.ceiling(rows))
        # A logarithmic axis with the pools as its ticks, and a word for prompts that never repeat.
        pools, fresh = (
            drawing.rows_where(rows, {"source": source})["distinct prompts"].to_numpy(float)
            for source in ("pool", "fresh")
        )
        words = {pool: f"{pool / 1000:g}k" if pool >= 1000 else f"{pool:g}" for pool in pools}
        if len(fresh) > 0:
            words[fresh.prod() ** (1 / len(fresh))] = "fresh"
        panel.set_xscale("log")
        panel.set_xticks(list(words), list(words.values()))
        panel.set_xticks([], minor=True)
    drawing.legend(figure, axes.values())
    return figure


@declare(
    paper="yang2024", id="fig5", also=("fig14",),
    title="Looped transformers need fewer distinct prompts in training",
    claims=(
        Claim(
            name="lower-error", ratio=True, criterion=LOWER,
            sentence="Trained on the same number of distinct prompts, the looped model is better.",
            quantity="error after the last example, looped / standard, geometric mean over the "
            "numbers of prompts, in the dimension where it is largest",
            statistic=lambda m: geometric_mean(m["looped pool"] / m["standard pool"]).amax(dim=-1),
        ),
        Claim(
            name="fewer-prompts", ratio=True,
            sentence="The looped model learns the function from fewer distinct prompts.",
            quantity=f"distinct prompts for an error of {LEARNED:g}, looped / standard, in the "
            "dimension where it is largest",
            statistic=lambda m: needed_ratio(
                m["looped pool"], m["standard pool"], m.ticks("looped pool", "distinct prompts")
            ).amax(dim=-1),
            criterion=at_most(0.5, "one step to the left on the axis of the paper's figure"),
        ),
    ),
    draw=_draw_fig5, runs=_fig5_runs, minutes={"smoke": 0.3, "laptop": 16, "paper": 60_000},
    smaller={
        "smoke": "3 dimensions, one pool of 64 prompts, and fresh prompts; 20 steps.",
        "laptop": "5 dimensions only; pools of 500, 2000 and 8000 prompts, each seen 192, 48 and "
        "12 times (256, 64 and 16 by the stack) where the paper's are seen 400 times and more; 20 "
        "loops that grow from 4, 10 of them with a loss, where the paper has 30 and 15 from the "
        "start. The last points of the curves are the models of figure 2, which never see a prompt "
        "twice.",
    },
    notes=(
        "The paper takes the best of up to three learning rates for each number of prompts; "
        "here there is one.",
    ),
)  # fmt: skip
def fig5(lab: Lab) -> Measures:
    """Error at the last prefix after training on pools of several sizes, and on fresh prompts."""
    sources: dict[str, list[int | None]] = {"pool": [pool for pool in POOLS[lab.scale] if pool]}
    if None in POOLS[lab.scale]:
        sources["fresh"] = [None]
    measures: dict[str, Measured] = {}
    for kind, (source, pools) in product(KINDS, sources.items()):
        by_dims: dict[int, Measured] = {}
        for dims in DIMENSIONS[lab.scale]:
            by_pool: dict[int, Measured] = {}
            for label in (_label(kind, dims, pool) for pool in pools):
                config = lab.config(label)
                seen = config.pool or config.steps * config.batch * config.accumulate
                errors = errors_of(lab, label, purpose=f"{dims} dimensions")
                by_pool[seen] = errors.at(examples=-1)
            by_dims[dims] = Measured.stack("distinct prompts", by_pool)
        errors = Measured.stack("dims", by_dims)
        measures[f"{kind} {source}"] = replace(errors, label=kind, keys={"source": source})
    return measures
