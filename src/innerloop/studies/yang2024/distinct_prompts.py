"""Figures 5 and 14: how many distinct prompts a looped and a standard model need in training."""

import math
from collections.abc import Mapping, Sequence

import pandas as pd
import torch
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from torch import Tensor

from innerloop.studies.claim import Claim, Criterion
from innerloop.analysis.drawing import draw_curves, legend, name, panels
from innerloop.studies.lab import Lab
from innerloop.studies.quantity import Quantity
from innerloop.studies.runs import trained
from innerloop.studies.study import Findings, Tables, declare
from innerloop.studies.tables import curve, rows_where, stacked
from innerloop.studies.yang2024.comparing import APART, bootstrapped
from innerloop.training.config import RunConfig
from innerloop.training.families import Scale

KINDS = ("looped", "standard")
LEARNED = 0.2
"""The error below which a function counts as learned: where the axis of the paper's figure ends."""


def _pools(scale: Scale) -> tuple[int, ...]:
    return {
        "smoke": (64,),
        "laptop": (500, 2000, 8000),
        "paper": (1000, 2000, 5000, 10_000, 20_000, 40_000, 80_000),
    }[scale]


def _dimensions(scale: Scale) -> tuple[int, ...]:
    return {"smoke": (3,), "laptop": (5,), "paper": (5, 10, 20)}[scale]


def _label(kind: str, dims: int, pool: int | str) -> str:
    return f"{kind}, {dims} dimensions, {pool} prompts"


def _pooled(kind: str, scale: Scale, dims: int, pool: int) -> RunConfig:
    """A model trained on a fixed pool of prompts: all of their size from the start."""
    if scale != "paper":
        return trained(f"{kind}-linear", scale, f"pool={pool}")
    changes = [f"task.dims={dims}", f"points={2 * dims + 1}", f"pool={pool}"]
    changes += ["curriculum.dims=null", "curriculum.points=null"]
    if kind == "looped":
        changes += ["model.backbone.loops=30", "window=15", "loops.start=null"]
    return trained(f"{kind}-linear", scale, *changes)


def _fig5_runs(scale: Scale) -> Mapping[str, RunConfig]:
    runs = {
        _label(kind, dims, pool): _pooled(kind, scale, dims, pool)
        for dims in _dimensions(scale)
        for kind in KINDS
        for pool in _pools(scale)
    }
    if scale != "paper":  # the models of figure 2, which other studies have trained
        (dims,) = _dimensions(scale)
        runs |= {_label(kind, dims, "fresh"): trained(f"{kind}-linear", scale) for kind in KINDS}
    return runs


def prompts_needed(errors: Tensor, pools: Sequence[int]) -> Tensor:
    """The distinct prompts (..) with which errors (.., k) at k pools come down to LEARNED.

    Between two pools by a straight line of logarithms. The first pool where even that is enough:
    fewer may do. Infinite where no pool is enough.
    """
    sizes = torch.tensor(pools, dtype=errors.dtype).log()  # (k,)
    enough = errors <= LEARNED  # (.., k)
    first = enough.int().argmax(dim=-1, keepdim=True)  # (.., 1)
    before = (first - 1).clamp(min=0)  # (.., 1)
    heights = errors.log()  # (.., k)
    above, below = (heights.gather(-1, place) for place in (before, first))  # (.., 1) each
    share = (above - math.log(LEARNED)) / (above - below)  # (.., 1)
    share = torch.where(first > 0, share, 0.0)  # (.., 1)
    found = sizes[before] + share * (sizes[first] - sizes[before])  # (.., 1)
    found = torch.where(enough.any(dim=-1, keepdim=True), found.exp(), torch.inf)
    return found[..., 0]


def needed_ratio(looped: Tensor, standard: Tensor, pools: Sequence[int]) -> Tensor:
    """Prompts that looped needs over those that standard needs, from errors (.., k) each: (..).

    NaN where nothing is known: no pool is enough for either, or the smallest is for both.
    """
    first, second = (prompts_needed(errors, pools) for errors in (looped, standard))  # (..) each
    both_at_once = (looped[..., 0] <= LEARNED) & (standard[..., 0] <= LEARNED)  # (..)
    return torch.where(both_at_once, torch.nan, first / second)


def _draw_fig5(tables: Tables) -> Figure:
    table = tables["by-prompts"]
    dimensions = list(dict.fromkeys(table["dims"]))
    figure, axes = panels(len(dimensions), size=(4.2, 3.2))
    for panel, dims in zip(axes, dimensions, strict=True):
        rows = rows_where(table, {"dims": dims})
        draw_curves(panel, rows, x="distinct prompts", order=KINDS, log=False)
        panel.set_ylim(bottom=0)
        _name_prompts(panel, rows)
        name(
            panel, title=f"{dims} dimensions, after {2 * dims} examples",
            x="distinct prompts seen in training", y="squared error / E[y²]",
        )  # fmt: skip
    legend(figure, axes)
    return figure


def _name_prompts(axes: Axes, rows: pd.DataFrame) -> None:
    """A logarithmic axis with the pools as its ticks, and a word for prompts that never repeat."""
    axes.set_xscale("log")
    pools = sorted(set(rows_where(rows, {"source": "pool"})["distinct prompts"]))
    places = [float(pool) for pool in pools]
    words = [f"{pool / 1000:g}k" if pool >= 1000 else f"{pool:g}" for pool in pools]
    fresh = rows_where(rows, {"source": "fresh"})["distinct prompts"].to_numpy(float)
    if len(fresh) > 0:
        places.append(float(fresh.prod() ** (1 / len(fresh))))
        words.append("fresh")
    axes.set_xticks(places, words)
    axes.set_xticks([], minor=True)


@declare(
    paper="yang2024",
    id="fig5",
    also=("fig14",),
    title="Looped transformers need fewer distinct prompts in training",
    claims=(
        Claim(
            name="lower-error",
            sentence="Trained on the same number of distinct prompts, the looped model is better.",
            quantity="error after the last example, looped / standard, geometric mean over the "
            "numbers of prompts, in the dimension where it is largest",
            criterion=Criterion(
                at_most=1 / APART, reason="two seeds of one model differ by about a quarter"
            ),
            over="seeds",
            ratio=True,
        ),
        Claim(
            name="fewer-prompts",
            sentence="The looped model learns the function from fewer distinct prompts.",
            quantity=f"distinct prompts for an error of {LEARNED:g}, looped / standard, in the "
            "dimension where it is largest",
            criterion=Criterion(
                at_most=0.5, reason="one step to the left on the axis of the paper's figure"
            ),
            over="seeds",
            ratio=True,
        ),
    ),
    draw=_draw_fig5,
    runs=_fig5_runs,
    minutes={"smoke": 0.3, "laptop": 16, "paper": 60_000},
    smaller={
        "smoke": "3 dimensions, one pool of 64 prompts, and fresh prompts; 20 steps.",
        "laptop": "5 dimensions only; pools of 500, 2000 and 8000 prompts, each seen 192, 48 and "
        "12 times (256, 64 and 16 by the stack) where the paper's are seen 400 times and more; 20 "
        "loops that grow from 4, 10 of them with a loss, where the paper has 30 and 15 from the "
        "start. The last points of the curves are the models of figure 2, which never see a prompt "
        "twice.",
    },
)
def fig5(lab: Lab) -> Findings:
    """Error at the last prefix after training on pools of several sizes."""
    pools, dimensions = _pools(lab.scale), _dimensions(lab.scale)
    found: dict[tuple[int, str], list[Tensor]] = {
        (dims, kind): [] for dims in dimensions for kind in KINDS
    }
    lower: list[Quantity] = []
    fewer: list[Quantity] = []
    shape = (len(dimensions), 2, len(pools))

    def average(means: Tensor) -> Tensor:
        looped, standard = means.unflatten(-1, shape).unbind(-2)  # (.., G, k) each
        return (looped / standard).log().mean(dim=-1).exp().amax(dim=-1)  # (..)

    def needed(means: Tensor) -> Tensor:
        looped, standard = means.unflatten(-1, shape).unbind(-2)  # (.., G, k) each
        return needed_ratio(looped, standard, pools).amax(dim=-1)  # (..)

    for seed in lab.seeds:
        for (dims, kind), errors in found.items():
            errors.append(_errors(lab, kind, dims, seed))  # (P, k), or (P, k + 1) with fresh
        latest = torch.stack([errors[-1][:, : len(pools)] for errors in found.values()], dim=1)
        values = latest.flatten(1)  # (P, 2 G k): dimensions, kinds, pools
        lower.append(bootstrapped(lab, average, values, seed=seed))
        fewer.append(bootstrapped(lab, needed, values, seed=seed))
    return Findings(
        tables={"by-prompts": stacked([_table(lab, *which, found[which]) for which in found])},
        measured={"lower-error": lower, "fewer-prompts": fewer},
        notes=(
            "The paper takes the best of up to three learning rates for each number of prompts; "
            "here there is one.",
        ),
    )


def _errors(lab: Lab, kind: str, dims: int, seed: int) -> Tensor:
    """Errors at the last prefix (P, k) after each pool, and after fresh prompts where there are."""
    config = lab.run(_label(kind, dims, _pools(lab.scale)[0]), seed).config
    prompt = lab.draw(config.task, config.points, seed=seed, purpose=f"{dims} dimensions")
    sources = [*_pools(lab.scale), *(["fresh"] if lab.scale != "paper" else [])]
    models = [lab.model(_label(kind, dims, source), seed) for source in sources]
    return torch.stack(
        [lab.errors(model, prompt, config.task)[:, -1] for model in models], dim=1
    )  # (P, k)


def _table(lab: Lab, dims: int, kind: str, errors: Sequence[Tensor]) -> pd.DataFrame:
    """A curve by pool, and one more point for prompts that are drawn anew at each step."""
    pools = _pools(lab.scale)
    keys: dict[str, object] = {"label": kind, "dims": dims, "source": "pool"}
    pooled = [part[:, : len(pools)] for part in errors]  # (P, k) each
    table = curve(lab, pooled, "distinct prompts", keys, places=pools)
    if lab.scale == "paper":
        return table
    config = lab.run(_label(kind, dims, "fresh")).config
    seen = config.steps * config.batch * config.accumulate
    last = [part[:, len(pools) :] for part in errors]  # (P, 1) each
    keys["source"] = "fresh"
    return stacked([table, curve(lab, last, "distinct prompts", keys, places=[seen])])
