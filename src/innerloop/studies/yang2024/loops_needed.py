"""Figure 9: how many loops each family of functions needs for a stable fixed point."""

from collections.abc import Mapping

import torch
from matplotlib.figure import Figure
from torch import Tensor

from innerloop.analysis import Averages, Measured, drawing
from innerloop.studies.claim import Claim, at_most
from innerloop.studies.lab import Lab
from innerloop.studies.runs import trained
from innerloop.studies.study import Measures, Runs, Scale, Tables, declare
from innerloop.studies.yang2024.fixed_points import STAYS
from innerloop.studies.yang2024.shared import TITLES, loop_errors, mark_trained
from innerloop.training.config import RunConfig
from innerloop.training.recipes import find_recipe

LOOPS: Mapping[Scale, Mapping[str, tuple[int, ...]]] = {
    "smoke": {"sparse": (2, 4), "tree": (4,), "network": (4,)},
    "laptop": {"sparse": (6, 20), "network": (6, 20)},
    "paper": {
        "sparse": (12, 20, 30, 40, 50),
        "tree": (12, 50, 70, 100),
        "network": (12, 20, 30, 40, 50),
    },
}
"""The loops b that each family is trained with."""


_PLACES = {
    f"{family}, b = {loops}": (family, loops)
    for grid in LOOPS.values()
    for family, several in grid.items()
    for loops in several
}
"""Families and b by the names of their runs, at all scales."""


def with_loops(family: str, scale: Scale, loops: int) -> RunConfig:
    """The loop on a family with b loops; T = 10 in the paper, that of the recipe elsewhere."""
    recipe = f"looped-{family}"
    window = 10 if scale == "paper" else find_recipe(recipe, scale).window or loops
    start = window if scale == "paper" else min(4, loops)
    return trained(
        recipe, scale, f"model.backbone.loops={loops}", f"window={min(window, loops)}",
        f"loops.start={start}",
    )  # fmt: skip


def _fig9_runs(scale: Scale) -> Runs:
    return {
        label: with_loops(family, scale, loops)
        for label, (family, loops) in _PLACES.items()
        if loops in LOOPS[scale].get(family, ())
    }


def drifts(m: Averages) -> dict[str, dict[int, Tensor]]:
    """The error far beyond b loops over that at b, (..) each, by family and b."""
    ratios: dict[str, dict[int, Tensor]] = {}
    for label, (family, loops) in _PLACES.items():
        if label in m:
            ratios.setdefault(family, {})[loops] = m[label][..., -1] / m[label][..., loops]
    return ratios


def sparse_drift(m: Averages) -> Tensor:
    """The drift on sparse functions with 20 loops, or the most that there are: (..)."""
    sparse = drifts(m)["sparse"]
    return sparse[min(20, max(sparse))]


def larger_drift(m: Averages) -> Tensor:
    """The drift of the largest b over that of the smallest, in the family where it is largest."""
    ratios = [own[max(own)] / own[min(own)] for own in drifts(m).values()]  # (..) each
    return torch.stack(ratios).amax(dim=0)


def network_needs(m: Averages) -> Tensor:
    """The smallest stable b of networks over that of the other families: (..)."""
    needed = {family: smallest_stable(own) for family, own in drifts(m).items()}  # (..) each
    network = needed.pop("network")  # (..)
    return network / torch.stack(list(needed.values())).amin(dim=0)


def smallest_stable(drifts: Mapping[int, Tensor]) -> Tensor:
    """The smallest b whose error stays within a tenth, of drifts (..) by b; infinite if none."""
    loops = torch.tensor(list(drifts), dtype=torch.float64)  # (g,)
    several = torch.stack(list(drifts.values()), dim=-1)  # (.., g)
    return torch.where(several <= STAYS.at_most, loops, torch.inf).amin(dim=-1)


def _draw_fig9(tables: Tables) -> Figure:
    table = tables["by-loop"]
    order = [f"b = {loops}" for loops in sorted(set(table["trained loops"]))]
    figure, axes = drawing.facets(
        table, "family", x="loop", title=TITLES.__getitem__, names=("loops", drawing.ERROR),
        order=order,
    )  # fmt: skip
    for family, panel in axes.items():
        mark_trained(panel, drawing.rows_where(table, {"family": family}), order)
    drawing.legend(figure, axes.values(), columns=6)
    return figure


@declare(
    paper="yang2024",
    id="fig9",
    title="How many loops a family of functions needs for a stable fixed point",
    claims=(
        Claim(
            name="sparse-stays",
            sentence="On sparse functions b = 20 loops with T = 10 find a stable fixed point.",
            quantity="error far beyond b / error at b, sparse, b = 20 (4 at smoke)",
            statistic=sparse_drift,
            criterion=STAYS,
            over="prompts",
            ratio=True,
        ),
        Claim(
            name="larger-b-stays",
            sentence="On all families a larger b is more stable beyond the trained loops.",
            quantity="drift (error far beyond b / error at b) of the largest b / that of the "
            "smallest, in the family where it is largest",
            statistic=larger_drift,
            criterion=at_most(
                STAYS.at_most, "two stable models have 1, and a tenth is what staying allows"
            ),
            over="prompts",
            ratio=True,
        ),
        Claim(
            name="network-needs-least",
            sentence="Two-layer networks need fewer loops than the other families.",
            quantity="smallest stable b of networks / smallest stable b of the other families",
            statistic=network_needs,
            criterion=at_most(0.6, "12 loops against 20 for sparse functions"),
            over="seeds",
            ratio=True,
            paper="12/20",
        ),
    ),
    draw=_draw_fig9,
    runs=_fig9_runs,
    minutes={"smoke": 0.3, "laptop": 19, "paper": 30_000},
    smaller={
        "smoke": "4 loops, for sparse functions also 2, run for 20; 20 steps.",
        "laptop": "Two b, 6 and 20, for sparse functions (T = 10, 10 dimensions with 2 weights) "
        "and networks (T = 5, 20 units in 5 dimensions); run for 100 loops. T is b where b is "
        "smaller. No trees.",
    },
)
def fig9(lab: Lab) -> Measures:
    """Error by loop far beyond the trained ones, for each family and b."""
    last = lab.choose(smoke=20, laptop=100, paper=200)
    measures: dict[str, Measured] = {}
    for label in _fig9_runs(lab.scale):
        (family, loops), config = _PLACES[label], lab.config(label)
        prompt = lab.draw(config.task, config.points, purpose=family)
        measures[label] = loop_errors(
            lab, label, prompt, last=last, trained=loops, label=f"b = {loops}",
            keys={"family": family, "trained loops": loops},
        )  # fmt: skip
    return measures
