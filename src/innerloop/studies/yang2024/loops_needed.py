"""Figure 9: how many loops each family of functions needs for a stable fixed point."""

from collections.abc import Mapping

import torch
from matplotlib.figure import Figure
from torch import Tensor

from innerloop.analysis import Averages, drawing
from innerloop.studies.claim import Claim, at_most
from innerloop.studies.lab import Lab
from innerloop.studies.study import Measures, Tables, declare
from innerloop.studies.yang2024.fixed_points import STAYS
from innerloop.studies.yang2024.loop_grid import GRIDS, Grids, Place, mark_trained, measured
from innerloop.studies.yang2024.shared import TITLES

PLACES: Grids = {
    "smoke": (Place("sparse", 2, 3), *(Place(family, 4, 3) for family in TITLES)),
    "laptop": tuple(
        Place(family, loops, window)
        for family, window in (("sparse", 10), ("network", 5))
        for loops in (6, 20)
    ),
    "paper": tuple(each for each in GRIDS["paper"] if each.window == 10 and each.family in TITLES),
}


def drifts(m: Averages) -> dict[str, dict[int, Tensor]]:
    """The error far beyond b loops over that at b, (..) each, by family and b."""
    ratios: dict[str, dict[int, Tensor]] = {}
    for place in measured(m, PLACES):
        ratios.setdefault(place.family, {})[place.loops] = place.drift(m)
    return ratios


def sparse_drift(m: Averages) -> Tensor:
    """The drift on sparse functions with 20 loops, or with the most that there are: (..)."""
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
    paper="yang2024", id="fig9",
    title="How many loops a family of functions needs for a stable fixed point",
    claims=(
        Claim(
            name="sparse-stays", ratio=True, criterion=STAYS,
            sentence="On sparse functions b = 20 loops with T = 10 find a stable fixed point.",
            quantity="error far beyond b / error at b, sparse, b = 20 (4 at smoke)",
            statistic=sparse_drift,
        ),
        Claim(
            name="larger-b-stays", ratio=True,
            sentence="On all families a larger b is more stable beyond the trained loops.",
            quantity="drift (error far beyond b / error at b) of the largest b / that of the "
            "smallest, in the family where it is largest",
            statistic=larger_drift,
            criterion=at_most(STAYS.at_most, "two stable models have 1, and a tenth is what "
                              "staying allows"),
        ),
        Claim(
            name="network-needs-least", over="seeds", ratio=True, paper="12/20",
            sentence="Two-layer networks need fewer loops than the other families.",
            quantity="smallest stable b of networks / smallest stable b of the other families",
            statistic=network_needs,
            criterion=at_most(0.6, "12 loops against 20 for sparse functions"),
        ),
    ),
    runs=lambda scale: {place.label: place.run(scale) for place in PLACES[scale]},
    draw=_draw_fig9, minutes={"smoke": 0.3, "laptop": 19, "paper": 30_000},
    smaller={
        "smoke": "4 loops, for sparse functions also 2, run for 20; 20 steps.",
        "laptop": "Two b, 6 and 20, for sparse functions (T = 10, 10 dimensions with 2 weights) "
        "and networks (T = 5, 20 units in 5 dimensions); run for 100 loops. T is b where b is "
        "smaller. No trees.",
    },
)  # fmt: skip
def fig9(lab: Lab) -> Measures:
    """Error by loop far beyond the trained ones, for each family and b."""
    last = lab.choose(smoke=20, laptop=100, paper=200)
    return {place.label: place.errors(lab, last) for place in PLACES[lab.scale]}
