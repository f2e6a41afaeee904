"""Figures 4, 9, 12 and 13: how many loops a model is trained with, and how many of them count."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from itertools import product
from typing import NamedTuple

import pandas as pd
import torch
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from torch import Tensor

from innerloop.analysis import Averages, Measured, Statistic, drawing
from innerloop.studies.claim import Claim, at_least, at_most
from innerloop.studies.lab import Lab
from innerloop.studies.runs import trained
from innerloop.studies.study import Measures, Scale, Tables, declare
from innerloop.studies.yang2024 import shared
from innerloop.studies.yang2024.shared import STAYS, TITLES
from innerloop.training.config import RunConfig


class Place(NamedTuple):
    """One model of a grid: what it learns, with b loops of which the last T count."""

    family: str
    loops: int
    window: int

    @property
    def label(self) -> str:
        """What its run and its errors by loop are called."""
        return f"{self.family} b={self.loops} T={self.window}"

    def run(self, scale: Scale) -> RunConfig:
        """The recipe of its family with b loops and T losses, or b losses where b is smaller."""
        losses = min(self.window, self.loops)
        # In the paper the schedule begins with as many loops as there are losses.
        start = losses if scale == "paper" else min(4, self.loops)
        return trained(
            f"looped-{self.family}", scale, f"model.backbone.loops={self.loops}",
            f"window={losses}", f"loops.start={start}",
        )  # fmt: skip

    def errors(self, lab: Lab, last: int | None = None) -> Measured:
        """Errors by examples, or after each loop up to the last, on the prompts of its family."""
        errors = shared.errors_of(
            lab, self.label, loops=last, purpose=self.family, label=f"b = {self.loops}"
        )
        keys = {"family": self.family, "window": self.window, "trained loops": self.loops}
        shown = {} if last is None else {"loop": shared.shown_loops(last, self.loops)}
        return replace(errors, keys=keys, shown=shown)


Grids = Mapping[Scale, tuple[Place, ...]]
FAMILIES = ("linear", *TITLES)
GRIDS: Grids = {
    "smoke": (Place("linear", 4, 2), Place("linear", 2, 3), Place("linear", 4, 3)),
    "laptop": (
        *(Place("linear", loops, 5) for loops in (5, 10, 20, 30)),
        *(Place("linear", loops, 10) for loops in (10, 20, 30)),
    ),
    "paper": tuple(
        Place(family, loops, window)
        for family in FAMILIES
        for window in (5, 10, 15)
        for loops in ((12, 50, 70, 100) if family == "tree" else (12, 20, 30, 40, 50))
    ),
}
"""The models of figure 4 in its order: families, windows, loops."""
NEEDED: Grids = {
    "smoke": (Place("sparse", 2, 3), *(Place(family, 4, 3) for family in TITLES)),
    "laptop": (
        *(Place("sparse", loops, 10) for loops in (6, 20)),
        *(Place("network", loops, 5) for loops in (6, 20)),
    ),
    "paper": tuple(each for each in GRIDS["paper"] if each.window == 10 and each.family in TITLES),
}
"""Those of figure 9: one window per family."""


def measured(m: Averages, *families: str) -> list[Place]:
    """The models of these families, or of all, that were measured, whatever the scale."""
    every = {place for grids in (GRIDS, NEEDED) for grid in grids.values() for place in grid}
    known = families or FAMILIES
    return sorted(place for place in every if place.label in m and place.family in known)


def drifts(m: Averages, *families: str) -> dict[tuple[str, int], dict[int, Tensor]]:
    """The error after all loops over that at b loops, (..) each, by family and T, and by b."""
    ratios: dict[tuple[str, int], dict[int, Tensor]] = {}
    for place in measured(m, *families):
        errors = m[place.label]  # (.., K + 1)
        ratio = errors[..., -1] / errors[..., place.loops]  # (..)
        ratios.setdefault((place.family, place.window), {})[place.loops] = ratio
    return ratios


def largest(number: Callable[[Mapping[int, Tensor]], Tensor], *families: str) -> Statistic:
    """A number made of drifts by b, in the family and at the T where it is largest."""
    return lambda m: torch.stack([number(own) for own in drifts(m, *families).values()]).amax(dim=0)


def cost_of_few_losses(m: Averages) -> Tensor:
    """The error at b loops with the smallest T over that with the largest: (..).

    By geometric mean over the b that both have, in the family where it is smallest.
    """
    costs: list[Tensor] = []
    for family in {place.family for place in measured(m)}:
        errors = {
            (place.window, place.loops): m[place.label][..., place.loops]
            for place in measured(m, family)
        }  # (..) each
        few, many = min(errors)[0], max(errors)[0]
        both = [b for window, b in errors if window == few and (many, b) in errors]
        ratios = torch.stack([errors[few, b] / errors[many, b] for b in both], dim=-1)
        costs.append(shared.geometric_mean(ratios))
    return torch.stack(costs).amin(dim=0)


def network_needs(m: Averages) -> Tensor:
    """The smallest stable b of networks over that of the other families: (..)."""
    needed = {family: smallest_stable(own) for (family, _), own in drifts(m).items()}  # (..) each
    network = needed.pop("network")  # (..)
    return network / torch.stack(list(needed.values())).amin(dim=0)


def smallest_stable(drifts: Mapping[int, Tensor]) -> Tensor:
    """The smallest b whose error stays within a tenth, of drifts (..) by b; infinite if none."""
    loops = torch.tensor(list(drifts), dtype=torch.float64)  # (g,)
    several = torch.stack(list(drifts.values()), dim=-1)  # (.., g)
    return torch.where(several <= STAYS.at_most, loops, torch.inf).amin(dim=-1)


def mark_trained(axes: Axes, rows: pd.DataFrame, order: Sequence[str], label: str) -> None:
    """Mark the loops that each curve `b = ..` was trained with, in the colour of the curve."""
    for loops in sorted(set(rows["trained loops"])):
        colour = drawing.COLOURS[order.index(f"b = {loops}") % len(drawing.COLOURS)]
        drawing.mark(axes, float(loops), label=label, colour=colour)


def _draw_fig4(tables: Tables) -> Figure:
    table = tables["by-loop"]
    families, windows = list(dict.fromkeys(table["family"])), sorted(set(table["window"]))
    order = [f"b = {loops}" for loops in sorted(set(table["trained loops"]))]
    names = {"loop": "loops (dashed: those of training)", "examples": drawing.EXAMPLES}
    places = list(product(families, names, windows))
    figure, axes = drawing.panels(len(places), columns=len(windows), size=(3.9, 2.8))
    for panel, (family, by, window) in zip(axes, places, strict=True):
        rows = drawing.rows_where(tables[f"by-{by}"], {"family": family, "window": window})
        drawing.draw_curves(panel, rows, x=by, order=order, log=by == "loop")
        drawing.name(panel, title=f"{family}, T = {window}", x=names[by], y=drawing.ERROR)
        if by == "loop":  # without a label of their own: the axis says what the lines are
            mark_trained(panel, rows, order, label="")
        else:
            panel.set_ylim(top=drawing.ceiling(rows))
    drawing.legend(figure, axes, columns=len(order))
    return figure


@declare(
    paper="yang2024", id="fig4", also=("fig12", "fig13"),
    title="Few trained loops do not last, more find a fixed point; few losses cost accuracy",
    claims=(
        Claim(
            name="few-loops-diverge", ratio=True,
            sentence="Trained with few loops, a model loses its accuracy beyond them.",
            quantity="error after all loops / error at b loops, at the smallest b of each T, on "
            "linear functions (the T where it is smallest)",
            statistic=lambda m: torch.stack(
                [own[min(own)] for own in drifts(m, "linear").values()]
            ).amin(dim=0),
            criterion=at_least(2, "an error that doubles has not stayed, whether it settles "
                               "later or not"),
        ),
        Claim(
            name="many-loops-stay", ratio=True, criterion=STAYS,
            sentence="Trained with more loops, it finds a fixed point and stays there.",
            quantity="error after all loops / error at b loops, at the largest b of each T "
            "(the T and the family where it is largest)",
            statistic=largest(lambda drift: drift[max(drift)]),
        ),
        Claim(
            name="few-losses-cost", ratio=True, criterion=shared.HIGHER,
            sentence="A smaller T gives a larger error, in every family.",
            quantity="error at b loops with the smallest T / with the largest (geometric mean over "
            "the b that both have; the family with the smallest ratio)",
            statistic=cost_of_few_losses,
        ),
    ),
    runs=lambda scale: {place.label: place.run(scale) for place in GRIDS[scale]},
    draw=_draw_fig4, minutes={"smoke": 0.3, "laptop": 15, "paper": 90_000},
    smaller={
        "smoke": "Linear functions only; b in {2, 4} with T = 3, b = 4 with T = 2; 3 dimensions, "
        "width 16, 20 steps.",
        "laptop": "Linear functions only, without the paper's sparse ones, trees and networks "
        "(figures 12b and 13); b in {5, 10, 20, 30} with T = 5, {10, 20, 30} with T = 10; "
        "5 dimensions, 11 points, width 64, 1500 steps of a faster optimiser, run for 150 loops.",
    },
)  # fmt: skip
def fig4(lab: Lab) -> Measures:
    """Error by loop, far beyond the trained ones, and by examples, over the grid of b and T."""
    last, grid = lab.choose(smoke=12, laptop=150, paper=200), GRIDS[lab.scale]
    return {
        **{place.label: place.errors(lab, last) for place in grid},
        **{f"{place.label} by examples": place.errors(lab) for place in grid},
    }


def _draw_fig9(tables: Tables) -> Figure:
    table = tables["by-loop"]
    order = [f"b = {loops}" for loops in sorted(set(table["trained loops"]))]
    figure, axes = drawing.facets(
        table, "family", x="loop", title=TITLES.__getitem__, names=("loops", drawing.ERROR),
        order=order,
    )  # fmt: skip
    for family, panel in axes.items():
        mark_trained(panel, drawing.rows_where(table, {"family": family}), order, "trained loops")
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
            statistic=largest(lambda drift: drift[min(20, max(drift))], "sparse"),
        ),
        Claim(
            name="larger-b-stays", ratio=True,
            sentence="On all families a larger b is more stable beyond the trained loops.",
            quantity="drift (error far beyond b / error at b) of the largest b / that of the "
            "smallest, in the family where it is largest",
            statistic=largest(lambda drift: drift[max(drift)] / drift[min(drift)]),
            criterion=at_most(STAYS.at_most, "two stable models have 1, and a tenth is what "
                              "staying allows"),
        ),
        Claim(
            name="network-needs-least", ratio=True, paper="12/20",
            sentence="Two-layer networks need fewer loops than the other families.",
            quantity="smallest stable b of networks / smallest stable b of the other families",
            statistic=network_needs,
            criterion=at_most(0.6, "12 loops against 20 for sparse functions"),
        ),
    ),
    runs=lambda scale: {place.label: place.run(scale) for place in NEEDED[scale]},
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
    return {place.label: place.errors(lab, last) for place in NEEDED[lab.scale]}
