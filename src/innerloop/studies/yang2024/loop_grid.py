"""Figures 4, 9, 12 and 13: how many loops a model is trained with, and how many of them count."""

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
from innerloop.studies.nulls import instead, of_another_seed, untrained
from innerloop.studies.runs import trained
from innerloop.studies.study import Measures, Scale, Tables, declare
from innerloop.studies.yang2024 import shared
from innerloop.studies.yang2024.shared import LOWER, PLAIN, STAYS, TITLES, UNLIKE_THE_PAPER
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
FAMILIES = ("linear", *TITLES)
GRIDS: Mapping[Scale, Grid] = {
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
NEEDED: Mapping[Scale, Grid] = {
    "smoke": (Place("sparse", 2, 3), *(Place(family, 4, 3) for family in TITLES)),
    "laptop": (
        *(Place("sparse", loops, 10) for loops in (6, 20)),
        *(Place("network", loops, 5) for loops in (6, 20)),
    ),
    "paper": tuple(each for each in GRIDS["paper"] if each.window == 10 and each.family in TITLES),
}
"""Those of figure 9: one window per family."""


def grid_of(m: Averages) -> Grid:
    """The models of whichever grid was measured."""
    return next(
        grid
        for grids, scale in product((GRIDS, NEEDED), SCALES)
        if (grid := grids.get(scale, ())) and all(place.label in m for place in grid)
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


def _few_for_many(grids: Mapping[Scale, Grid]) -> Null:
    """Models of few loops and of many in each other's place, within each family and T."""

    def null(lab: Lab) -> dict[str, AnyModel]:
        windows = by_window(grids[lab.scale]).values()
        ends = {(own[0].label, own[-1].label) for own in windows}
        return {place: lab.model(label) for pair in ends for place, label in (pair, pair[::-1])}

    return null


def _of_another_seed(pairs: Callable[[Grid], Iterable[tuple[Place, Place]]]) -> Null:
    """In the place of the first of each pair the second, trained with another seed."""
    grids = (*GRIDS.values(), *NEEDED.values())
    return of_another_seed(
        {first.label: second.label for grid in grids for first, second in pairs(grid)}
    )


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
        "few for many": _few_for_many(GRIDS),
        "one T against itself": _of_another_seed(
            lambda grid: [each for own in few_and_many_losses(grid).values() for each in own]
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


def fewest_and_most(grid: Grid) -> dict[str, tuple[Place, Place]]:
    """The models with the smallest and the largest b of each family that has several."""
    return {
        family: (own[0], own[-1]) for (family, _), own in by_window(grid).items() if len(own) > 1
    }


def stays_better(m: Averages) -> Tensor:
    """The drift of the largest b over that of the smallest, geometric mean over families: (..)."""
    fewest, most = zip(*fewest_and_most(grid_of(m)).values(), strict=True)
    return shared.geometric_mean(drifts(m, most) / drifts(m, fewest))


def networks_stay(m: Averages) -> Tensor:
    """The drift of networks at the smallest b over that of the calmest other family: (..)."""
    fewest = {family: own[0] for (family, _), own in by_window(grid_of(m)).items()}
    network = shared.drift(fewest.pop("network").label)(m)  # (..)
    return network / drifts(m, fewest.values()).amin(dim=-1)


def over_plain(m: Averages, places: Iterable[Place]) -> list[Tensor]:
    """Errors (..) over all prefixes over those of a learner that knows nothing of the family."""
    return [m[f"{place.label}, all prefixes"] / m[f"{place.family}, plain"] for place in places]


def _of_twenty(grid: Grid) -> list[Place]:
    """The model of sparse functions with b = 20, or with the most where there are fewer."""
    return [[place for place in sorted(grid) if place.family == "sparse" and place.loops <= 20][-1]]


def _draw_fig9(tables: Tables) -> Figure:
    """Errors by loop, and what they have become since b loops, with the margin of staying."""
    table = tables["by-loop"]
    order = [f"b = {loops}" for loops in sorted(set(table["trained loops"]))]
    families = list(dict.fromkeys(table["family"]))
    figure, axes = drawing.panels(2 * len(families), columns=len(families), size=(3.9, 2.6))
    for place, (panel, family) in enumerate(zip(axes, families * 2, strict=True)):
        rows = drawing.rows_where(table, {"family": family})
        below = place >= len(families)
        if below:
            rows = _since_trained(rows)
            drawing.level(panel, STAYS.at_most, label="a tenth more")
        drawing.draw_curves(panel, rows, x="loop", order=order)
        drawing.name(
            panel, title="" if below else TITLES[family], x="loops" if below else "",
            y="error / error at b loops" if below else drawing.ERROR,
        )  # fmt: skip
        mark_trained(panel, rows, order, "")
    drawing.legend(figure, axes, columns=6)
    return figure


def _since_trained(rows: pd.DataFrame) -> pd.DataFrame:
    """The rows of each curve from b loops on, over its mean at b loops."""
    curves: list[pd.DataFrame] = []
    for _, curve in rows.groupby("label", sort=False):
        after = curve.loc[curve["loop"] >= curve["trained loops"]].copy()
        for column in ("low", "high", "mean"):
            after[column] /= float(after["mean"].iloc[0])
        curves.append(after)
    return pd.concat(curves)


@declare(
    paper="yang2024", id="fig9",
    title="How many loops a family of functions needs for a stable fixed point",
    claims=(
        Claim(
            name="sparse-stays", ratio=True, criterion=STAYS,
            sentence="On sparse functions b = 20 loops with T = 10 find a stable fixed point.",
            quantity="error far beyond b / error at b, sparse, b = 20 (4 at smoke)",
            statistic=lambda m: drifts(m, _of_twenty(grid_of(m)))[..., 0],
            premise=shared.known("this model", lambda m: over_plain(m, _of_twenty(grid_of(m)))),
            excludes=("untrained", "few for many", "plain learners"),
        ),
        Claim(
            name="larger-b-stays", ratio=True, criterion=LOWER,
            sentence="A larger b is more stable beyond the trained loops, whatever the family.",
            quantity="drift (error far beyond b / error at b) of the largest b / that of the "
            "smallest, geometric mean over the families measured",
            statistic=stays_better,
            premise=shared.known(
                "all families at the largest b", lambda m: over_plain(m, many_loops(grid_of(m)))
            ),
            excludes=("untrained", "few for many", "one b against itself"),
        ),
        Claim(
            name="network-needs-least", ratio=True, criterion=LOWER,
            sentence="Two-layer networks need fewer loops than the other families.",
            quantity="drift at the smallest b, networks / the other family that drifts least",
            statistic=networks_stay,
            premise=shared.known(
                "all families at the smallest b",
                lambda m: over_plain(m, [own[0] for own in by_window(grid_of(m)).values()]),
            ),
            excludes=("untrained", "untrained networks", "one b against itself"),
        ),
    ),
    runs=lambda scale: {place.label: place.run(scale) for place in NEEDED[scale]},
    nulls={
        "untrained": untrained(),
        "untrained networks": lambda lab: untrained(
            *(place.label for place in NEEDED[lab.scale] if place.family == "network")
        )(lab),
        "few for many": _few_for_many(NEEDED),
        "one b against itself": _of_another_seed(lambda grid: fewest_and_most(grid).values()),
        "plain learners": instead(lambda lab, label: PLAIN[label.split()[0]]),
    },
    draw=_draw_fig9, minutes={"smoke": 0.5, "laptop": 25, "paper": 30_000},
    smaller={
        "smoke": "4 loops, for sparse functions also 2, run for 20; 20 steps.",
        "laptop": "Two b, 6 and 20, for sparse functions (T = 10, 10 dimensions with 2 weights, "
        "2500 steps) and networks (T = 5, 20 units in 5 dimensions, 1500 steps); width 64 with 4 "
        "heads; run for 100 loops. T is b where b is smaller. No trees. Dimensions grow from 2, "
        f"for networks not. {UNLIKE_THE_PAPER}.",
    },
)  # fmt: skip
def fig9(lab: Lab) -> Measures:
    """Error by loop far beyond the trained ones, for each family and b."""
    last = lab.choose(smoke=20, laptop=100, paper=200)
    measures: dict[str, Measured] = {}
    for place in NEEDED[lab.scale]:
        errors = shared.errors_of(lab, place.label, purpose=place.family)
        measures |= place.measure(lab, last)
        measures[f"{place.label}, all prefixes"] = shared.over_prefixes(errors)
        measures[f"{place.family}, plain"] = shared.plain_errors(lab, place.label, place.family)
    return measures
