"""Figures 4, 12 and 13: how many loops a model is trained with, and how many of them count."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from itertools import product
from typing import NamedTuple

import pandas as pd
import torch
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from torch import Tensor

from innerloop.analysis import Averages, Measured, drawing
from innerloop.models.model import AnyModel
from innerloop.studies.claim import Claim, at_least
from innerloop.studies.lab import Lab, Null
from innerloop.studies.nulls import of_another_seed, untrained
from innerloop.studies.runs import trained
from innerloop.studies.study import Measures, Scale, Tables, declare
from innerloop.studies.yang2024 import shared
from innerloop.studies.yang2024.shared import STAYS, TITLES, UNLIKE_THE_PAPER
from innerloop.training.config import RunConfig
from innerloop.training.families import SCALES


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

    def measure(self, lab: Lab, last: int) -> dict[str, Measured]:
        """Errors after each loop up to the last, at b loops and after all, on its family."""
        errors = shared.errors_of(
            lab, self.label, loops=last, purpose=self.family, label=f"b = {self.loops}"
        )
        keys = {"family": self.family, "window": self.window, "trained loops": self.loops}
        shown = {"loop": shared.shown_loops(last, self.loops)}
        return shared.with_ends(lab, self.label, replace(errors, keys=keys, shown=shown))


Grid = tuple[Place, ...]
Grids = Mapping[Scale, Grid]
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
FEW: Mapping[Scale, int] = {"smoke": 2, "laptop": 8, "paper": 12}
"""Up to how many loops are few: the layers of the standard model, as the paper says of b = 12."""


def grid_of(m: Averages, grids: Grids = GRIDS) -> Grid:
    """The models that were measured, of whichever scale."""
    return next(
        grids[scale]
        for scale in SCALES
        if scale in grids and all(place.label in m for place in grids[scale])
    )


def by_window(grid: Iterable[Place]) -> dict[tuple[str, int], list[Place]]:
    """The models of each family and T, by growing b."""
    windows: dict[tuple[str, int], list[Place]] = {}
    for place in sorted(grid):
        windows.setdefault((place.family, place.window), []).append(place)
    return windows


def few_loops(grid: Grid) -> list[Place]:
    """The models of linear functions whose b is the smallest, where that is few, for each T."""
    few = next(FEW[scale] for scale in SCALES if GRIDS.get(scale) == grid)
    smallest = [own[0] for (family, _), own in by_window(grid).items() if family == "linear"]
    return [place for place in smallest if place.loops <= few]


def many_loops(grid: Grid) -> list[Place]:
    """The models whose b is the largest of their family and T."""
    return [own[-1] for own in by_window(grid).values()]


def drifts(m: Averages, places: Iterable[Place]) -> Tensor:
    """The error after all loops over that at b loops: (.., places)."""
    return torch.stack([shared.drift(place.label)(m) for place in places], dim=-1)


def at_b(m: Averages, places: Iterable[Place]) -> list[Tensor]:
    """The errors (..) of models at b loops."""
    return [m[f"{place.label}, at b loops"] for place in places]


def few_and_many_losses(grid: Grid) -> dict[str, list[tuple[Place, Place]]]:
    """By family: the models with the smallest T and with the largest, at each b that both have."""
    pairs: dict[str, list[tuple[Place, Place]]] = {}
    for family in dict.fromkeys(place.family for place in grid):
        own = [place for place in grid if place.family == family]
        few, many = (choose(place.window for place in own) for choose in (min, max))
        pairs[family] = [
            (place, place._replace(window=many))
            for place in own
            if place.window == few and place._replace(window=many) in own
        ]
    return pairs


def cost_of_few_losses(m: Averages) -> Tensor:
    """The error at b loops with the smallest T over that with the largest: (..).

    By geometric mean over the b that both have, in the family where it is smallest.
    """
    costs: list[Tensor] = []
    for pairs in few_and_many_losses(grid_of(m)).values():
        few, many = (torch.stack(at_b(m, own), dim=-1) for own in zip(*pairs, strict=True))
        costs.append(shared.geometric_mean(few / many))
    return torch.stack(costs).amin(dim=0)


def few_for_many(grids: Grids) -> Null:
    """Models of few loops and of many in each other's place, within each family and T."""

    def null(lab: Lab) -> dict[str, AnyModel]:
        windows = by_window(grids[lab.scale]).values()
        ends = {(own[0].label, own[-1].label) for own in windows}
        return {place: lab.model(label) for pair in ends for place, label in (pair, pair[::-1])}

    return null


def second_for_first(grids: Grids, pairs: Callable[[Grid], Iterable[tuple[Place, Place]]]) -> Null:
    """In the place of the first of each pair the second, trained with another seed."""
    # By scale: the same first model has another second one in a larger grid.
    return lambda lab: of_another_seed(
        {first.label: second.label for first, second in pairs(grids[lab.scale])}
    )(lab)


def mark_trained(axes: Axes, rows: pd.DataFrame, order: Sequence[str], label: str) -> None:
    """Mark the loops that each curve `b = ..` was trained with, in the colour of the curve."""
    for loops in sorted(set(rows["trained loops"])):
        colour = drawing.COLOURS[order.index(f"b = {loops}") % len(drawing.COLOURS)]
        drawing.mark(axes, float(loops), label=label, colour=colour)


def _draw_fig4(tables: Tables) -> Figure:
    table = tables["by-loop"]
    families, windows = list(dict.fromkeys(table["family"])), sorted(set(table["window"]))
    order = [f"b = {loops}" for loops in sorted(set(table["trained loops"]))]
    places = list(product(families, windows))
    figure, axes = drawing.panels(len(places), columns=len(windows), size=(3.9, 2.8))
    for panel, (family, window) in zip(axes, places, strict=True):
        rows = drawing.rows_where(table, {"family": family, "window": window})
        drawing.draw_curves(panel, rows, x="loop", order=order)
        drawing.name(
            panel, title=f"{family}, T = {window}", x="loops (dashed: those of training)",
            y=drawing.ERROR,
        )  # fmt: skip
        mark_trained(panel, rows, order, label="")  # the axis says what the lines are
    drawing.legend(figure, axes, columns=len(order))
    return figure


@declare(
    paper="yang2024", id="fig4", also=("fig12", "fig13"),
    title="Few trained loops do not last, more find a fixed point; few losses cost accuracy",
    claims=(
        Claim(
            name="few-loops-diverge", ratio=True,
            sentence="Trained with few loops, a model loses its accuracy beyond them.",
            quantity="error after all loops / error at b loops, at the smallest b of each T, if "
            "that is no more than the layers of the standard model (12; 8 at laptop); linear "
            "functions, geometric mean over T",
            statistic=lambda m: shared.geometric_mean(drifts(m, few_loops(grid_of(m)))),
            criterion=at_least(2, "an error that doubles has not stayed, whether it settles "
                               "later or not"),
            premise=shared.all_learned("those models", lambda m: at_b(m, few_loops(grid_of(m)))),
            excludes=("untrained", "few for many"),
        ),
        Claim(
            name="many-loops-stay", ratio=True, criterion=STAYS,
            sentence="Trained with more loops, it finds a fixed point and stays there.",
            quantity="error after all loops / error at b loops, at the largest b of each T "
            "(the T and the family where it is largest)",
            statistic=lambda m: drifts(m, many_loops(grid_of(m))).amax(dim=-1),
            premise=shared.all_learned(
                "those models on linear functions",
                lambda m: at_b(m, [each for each in many_loops(grid_of(m)) if _linear(each)]),
            ),
            excludes=("untrained", "few for many"),
        ),
        Claim(
            name="few-losses-cost", ratio=True, criterion=shared.HIGHER,
            sentence="A smaller T gives a larger error.",
            quantity="error at b loops with the smallest T / with the largest (geometric mean over "
            "the b that both have; the family with the smallest ratio)",
            statistic=cost_of_few_losses,
            premise=shared.all_learned(
                "linear functions with the largest T",
                lambda m: at_b(m, [many for _, many in few_and_many_losses(grid_of(m))["linear"]]),
            ),
            excludes=("untrained", "one T against itself"),
        ),
    ),
    runs=lambda scale: {place.label: place.run(scale) for place in GRIDS[scale]},
    nulls={
        "untrained": untrained(),
        "few for many": few_for_many(GRIDS),
        "one T against itself": second_for_first(
            GRIDS, lambda grid: [each for own in few_and_many_losses(grid).values() for each in own]
        ),
    },
    draw=_draw_fig4, minutes={"smoke": 0.5, "laptop": 20, "paper": 90_000},
    smaller={
        "smoke": "Linear functions only; b in {2, 4} with T = 3, b = 4 with T = 2; 3 dimensions, "
        "width 16, 20 steps.",
        "laptop": "Linear functions only, without the paper's sparse ones, trees and networks "
        "(figures 12b and 13); b in {5, 10, 20, 30} with T = 5, {10, 20, 30} with T = 10; "
        "5 dimensions, 11 points, width 64 with 4 heads, 1500 steps without a curriculum, run for "
        f"150 loops. {UNLIKE_THE_PAPER}.",
    },
)  # fmt: skip
def fig4(lab: Lab) -> Measures:
    """Error by loop, far beyond the trained ones, over the grid of b and T."""
    last = lab.choose(smoke=12, laptop=150, paper=200)
    measures: dict[str, Measured] = {}
    for place in GRIDS[lab.scale]:
        measures |= place.measure(lab, last)
    return measures


def _linear(place: Place) -> bool:
    return place.family == "linear"
