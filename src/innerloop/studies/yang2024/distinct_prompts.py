"""Figures 5 and 14: how many distinct prompts a looped and a standard model need in training."""

import math
from collections.abc import Mapping
from dataclasses import replace
from itertools import product

import pandas as pd
import torch
from matplotlib.figure import Figure
from torch import Tensor

from innerloop.analysis import Averages, Measured, drawing
from innerloop.studies.claim import Claim, at_most
from innerloop.studies.lab import Lab
from innerloop.studies.nulls import of_another_seed, swapped, untrained
from innerloop.studies.runs import trained
from innerloop.studies.study import Measures, Runs, Scale, Tables, declare
from innerloop.studies.yang2024.shared import (
    KINDS,
    LOWER,
    UNLIKE_THE_PAPER,
    all_learned,
    errors_of,
    geometric_mean,
)
from innerloop.training.config import RunConfig

ENOUGH = 0.2
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
        # Both see each prompt of a pool equally often: as often as the stack needs.
        steps = trained("standard-linear", scale).steps
        changes = [] if pool is None else [f"pool={pool}", f"steps={steps}"]
        if scale == "paper":
            changes += [f"task.dims={dims}", f"points={2 * dims + 1}"]
            changes += ["curriculum.dims=null", "curriculum.points=null"]
            if kind == "looped":
                changes += ["model.backbone.loops=30", "window=15", "loops.start=null"]
        runs[_label(kind, dims, pool)] = trained(f"{kind}-linear", scale, *changes)
    return runs


def prompts_needed(errors: Tensor, pools: Tensor) -> Tensor:
    """The distinct prompts (..) with which errors (.., k) at pools (k,) come down to ENOUGH.

    Between two pools by a straight line of logarithms. The first pool where even that is enough:
    fewer may do. Infinite where no pool is enough.
    """
    enough = errors <= ENOUGH  # (.., k)
    first = enough.int().argmax(dim=-1, keepdim=True)  # (.., 1)
    before = (first - 1).clamp(min=0)  # (.., 1)
    above, below = (errors.log().gather(-1, place) for place in (before, first))  # (.., 1) each
    share = torch.where(first > 0, (above - math.log(ENOUGH)) / (above - below), 0.0)  # (.., 1)
    needed = torch.lerp(pools.log()[before], pools.log()[first], share).exp()  # (.., 1)
    return torch.where(enough.any(dim=-1), needed[..., 0], torch.inf)


def needed_ratio(looped: Tensor, standard: Tensor, pools: Tensor) -> Tensor:
    """Prompts that looped needs over those that standard needs, from errors (.., k) each: (..).

    NaN where nothing is known: no pool is enough for either, or the smallest is for both.
    """
    first, second = (prompts_needed(errors, pools) for errors in (looped, standard))  # (..) each
    both_at_once = (looped[..., 0] <= ENOUGH) & (standard[..., 0] <= ENOUGH)  # (..)
    return torch.where(both_at_once, torch.nan, first / second)


def _draw_fig5(tables: Tables) -> Figure:
    """Errors by distinct prompts, and below them those of looped models over standard ones."""
    table = tables["by-dims-distinct-prompts"]
    dimensions, x = list(dict.fromkeys(table["dims"])), "distinct prompts"
    figure, axes = drawing.panels(2 * len(dimensions), columns=2, size=(4.2, 3.2))
    for dims, left, right in zip(dimensions, axes[::2], axes[1::2], strict=True):
        rows = drawing.rows_where(table, {"dims": dims})
        fresh = drawing.rows_where(rows, {"source": "fresh"})["distinct prompts"].to_numpy(float)
        # Of fresh prompts the two see different numbers: their place is a name.
        of_pools = rows["source"] == "pool"
        rows = rows.assign(**{x: rows[x].where(of_pools, fresh[0])})
        drawing.draw_curves(left, rows, x=x, order=KINDS)
        drawing.level(left, 1.0, label="predicting zero")
        drawing.level(left, ENOUGH, label=f"error of {ENOUGH:g}", colour="0.2")
        drawing.name(
            left, title=f"{dims} dimensions, after {2 * dims} examples",
            x="distinct prompts seen in training", y=drawing.ERROR,
        )  # fmt: skip
        left.set_xscale("log")
        pools = drawing.rows_where(rows, {"source": "pool", "label": "looped"})["distinct prompts"]
        ticks = {pool: _pool(pool) for pool in pools} | {each: "fresh" for each in fresh[:1]}
        left.set_xticks(list(ticks), list(ticks.values()))
        left.set_xticks([], minor=True)
        looped, standard = (_by_source(drawing.rows_where(rows, {"label": kind})) for kind in KINDS)
        right.plot(list(looped), [looped[at] / standard[at] for at in looped], "kD-", markersize=4)
        drawing.logarithmic(right)
        drawing.level(right, 1.0)
        drawing.plain(right, whole=False)
        drawing.name(
            right, title="below the line, the looped model is better",
            x="distinct prompts seen in training", y="looped / standard",
        )  # fmt: skip
    drawing.legend(figure, axes)
    return figure


def _by_source(rows: pd.DataFrame) -> dict[str, float]:
    """Mean errors by what a training draws its prompts from."""
    names = [
        _pool(pool) if source == "pool" else "fresh"
        for source, pool in zip(rows["source"], rows["distinct prompts"], strict=True)
    ]
    return dict(zip(names, rows["mean"], strict=True))


def _pool(prompts: float) -> str:
    return f"{prompts / 1000:g}k" if prompts >= 1000 else f"{prompts:g}"


_STANDARD_FOR_LOOPED = {
    _label("looped", dims, pool): _label("standard", dims, pool)
    for scale in POOLS
    for dims, pool in product(DIMENSIONS[scale], POOLS[scale])
}


def _with_most(m: Averages) -> list[Tensor]:
    """The errors of both models by dimension with fresh prompts, or the most of a pool: (G,)."""
    last = "fresh" if "looped fresh" in m else "pool"
    return [m[f"{kind} {last}"][..., -1] for kind in KINDS]


_LEARNED = all_learned("both models, with the most prompts", _with_most)


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
            premise=_LEARNED, excludes=("untrained", "standard", "standard of another seed"),
        ),
        Claim(
            name="fewer-prompts", ratio=True,
            sentence="The looped model learns the function from fewer distinct prompts.",
            quantity=f"distinct prompts for an error of {ENOUGH:g}, looped / standard, in the "
            "dimension where it is largest",
            statistic=lambda m: needed_ratio(
                m["looped pool"], m["standard pool"], m.ticks("looped pool", "distinct prompts")
            ).amax(dim=-1),
            criterion=at_most(0.5, "one step to the left on the axis of the paper's figure"),
            premise=_LEARNED, excludes=("untrained", "standard", "standard of another seed"),
        ),
    ),
    runs=_fig5_runs,
    nulls={
        "untrained": untrained(),
        "standard": swapped(_STANDARD_FOR_LOOPED),
        "standard of another seed": of_another_seed(_STANDARD_FOR_LOOPED),
    },
    draw=_draw_fig5, minutes={"smoke": 0.4, "laptop": 20, "paper": 60_000},
    smaller={
        "smoke": "3 dimensions, one pool of 64 prompts, and fresh prompts; 20 steps.",
        "laptop": "5 dimensions only, width 64 with 4 heads; pools of 500, 2000 and 8000 prompts, "
        "each seen 256, 64 and 16 times in 2000 steps, where the paper's are seen 400 times and "
        "more; b = 20 and T = 10, where the paper has 30 and 15, and no schedule; the loop has "
        "higher rates than the stack, which stalls at them. The last points are the models of "
        f"figure 2, which never see a prompt twice. {UNLIKE_THE_PAPER}.",
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
