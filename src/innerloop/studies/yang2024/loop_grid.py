"""Figures 4, 12 and 13: how many loops a model is trained with, and how many of them count."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from itertools import product
from typing import NamedTuple

import torch
from matplotlib.figure import Figure
from torch import Tensor

from innerloop.analysis import Averages, Measured, drawing
from innerloop.studies.claim import Claim, at_least
from innerloop.studies.lab import Lab
from innerloop.studies.runs import looped, trained
from innerloop.studies.study import Measures, Runs, Scale, Tables, declare
from innerloop.studies.yang2024.fixed_points import STAYS
from innerloop.studies.yang2024.shared import HIGHER, geometric_mean, loop_errors, mark_trained
from innerloop.training.config import RunConfig


class Place(NamedTuple):
    """One model of the grid: what it learns, with b loops of which the last T count."""

    family: str
    loops: int
    window: int

    @property
    def label(self) -> str:
        """What its run is called."""
        return f"{self.family} b={self.loops} T={self.window}"


_PAPER_LOOPS = {
    "linear": (12, 20, 30, 40, 50),
    "sparse": (12, 20, 30, 40, 50),
    "tree": (12, 50, 70, 100),
    "network": (12, 20, 30, 40, 50),
}
_SMALL = {
    "smoke": ((4, 2), (2, 3), (4, 3)),
    "laptop": ((5, 5), (10, 5), (20, 5), (30, 5), (10, 10), (20, 10), (30, 10)),
}
"""Loops b and window T, on linear functions."""
GRIDS: Mapping[Scale, tuple[Place, ...]] = {
    "smoke": tuple(Place("linear", *pair) for pair in _SMALL["smoke"]),
    "laptop": tuple(Place("linear", *pair) for pair in _SMALL["laptop"]),
    "paper": tuple(
        Place(family, loops, window)
        for family, several in _PAPER_LOOPS.items()
        for window in (5, 10, 15)
        for loops in several
    ),
}
"""The models in the order of the figure: families, windows, loops."""
_PLACES = tuple(dict.fromkeys(place for grid in GRIDS.values() for place in grid))


def _fig4_runs(scale: Scale) -> Runs:
    return {place.label: _place_run(scale, place) for place in GRIDS[scale]}


def _place_run(scale: Scale, place: Place) -> RunConfig:
    if scale != "paper":
        return looped(scale, loops=place.loops, window=place.window)
    # In the paper the schedule begins with as many loops as there are losses.
    losses = min(place.window, place.loops)
    return trained(
        f"looped-{place.family}", scale, f"model.backbone.loops={place.loops}",
        f"window={losses}", f"loops.start={losses}",
    )  # fmt: skip


def _errors(m: Averages, family: str) -> dict[Place, Tensor]:
    """Mean errors (.., K + 1) by loop of the models that were measured on a family."""
    return {
        place: m[place.label] for place in _PLACES if place.family == family and place.label in m
    }


def _families(m: Averages) -> list[str]:
    """The families that were measured."""
    return [family for family in _PAPER_LOOPS if _errors(m, family)]


def drifts(m: Averages, family: str, choose: Callable[[Iterable[Place]], Place]) -> Tensor:
    """The error after all loops over that at b, at the smallest or largest b of each T: (.., T)."""
    errors = _errors(m, family)
    windows = sorted({place.window for place in errors})
    chosen = [choose(place for place in errors if place.window == window) for window in windows]
    ratios = [errors[place][..., -1] / errors[place][..., place.loops] for place in chosen]
    return torch.stack(ratios, dim=-1)


def largest_drift(m: Averages) -> Tensor:
    """The largest drift at the largest b, of all T and families: (..)."""
    return torch.cat([drifts(m, family, max) for family in _families(m)], dim=-1).amax(dim=-1)


def cost_of_few_losses(m: Averages, family: str) -> Tensor:
    """The error at b loops with the smallest T over that with the largest, by geometric mean."""
    errors = _errors(m, family)
    windows = [place.window for place in errors]
    few, many = (
        {place.loops: errors[place][..., place.loops] for place in errors if place.window == window}
        for window in (min(windows), max(windows))
    )  # b -> (..) each
    ratios = [few[loops] / many[loops] for loops in few if loops in many]  # (..) each
    return geometric_mean(torch.stack(ratios, dim=-1))


_AXES = {"loop": "loops (dashed: those of training)", "examples": drawing.EXAMPLES}


def _draw_fig4(tables: Tables) -> Figure:
    table = tables["by-loop"]
    families, windows = list(dict.fromkeys(table["family"])), sorted(set(table["window"]))
    order = [f"b = {loops}" for loops in sorted(set(table["trained loops"]))]
    places = list(product(families, _AXES, windows))
    figure, axes = drawing.panels(len(places), columns=len(windows), size=(3.9, 2.8))
    for panel, (family, by, window) in zip(axes, places, strict=True):
        rows = drawing.rows_where(tables[f"by-{by}"], {"family": family, "window": window})
        drawing.draw_curves(panel, rows, x=by, order=order, log=by == "loop")
        drawing.name(panel, title=f"{family}, T = {window}", x=_AXES[by], y=drawing.ERROR)
        if by == "loop":  # without a label of their own: the axis says what the lines are
            mark_trained(panel, rows, order, label="")
    drawing.legend(figure, axes, columns=len(order))
    return figure


@declare(
    paper="yang2024",
    id="fig4",
    also=("fig12", "fig13"),
    title="Few trained loops do not last, more find a fixed point; few losses cost accuracy",
    claims=(
        Claim(
            name="few-loops-diverge",
            sentence="Trained with few loops, a model loses its accuracy beyond them.",
            quantity="error after all loops / error at b loops, at the smallest b of each T, on "
            "linear functions (the T where it is smallest)",
            statistic=lambda m: drifts(m, "linear", min).amin(dim=-1),
            criterion=at_least(
                2, "an error that doubles has not stayed, whether it settles later or not"
            ),
            over="prompts",
            ratio=True,
        ),
        Claim(
            name="many-loops-stay",
            sentence="Trained with more loops, it finds a fixed point and stays there.",
            quantity="error after all loops / error at b loops, at the largest b of each T "
            "(the T and the family where it is largest)",
            statistic=largest_drift,
            criterion=STAYS,
            over="prompts",
            ratio=True,
        ),
        Claim(
            name="few-losses-cost",
            sentence="A smaller T gives a larger error, in every family.",
            quantity="error at b loops with the smallest T / with the largest (geometric mean over "
            "the b that both have; the family with the smallest ratio)",
            statistic=lambda m: torch.stack(
                [cost_of_few_losses(m, family) for family in _families(m)]
            ).amin(dim=0),
            criterion=HIGHER,
            over="seeds",
            ratio=True,
        ),
    ),
    draw=_draw_fig4,
    runs=_fig4_runs,
    minutes={"smoke": 0.3, "laptop": 15, "paper": 90_000},
    smaller={
        "smoke": "Linear functions only; b in {2, 4} with T = 3, b = 4 with T = 2; 3 dimensions, "
        "width 16, 20 steps.",
        "laptop": "Linear functions only, without the paper's sparse ones, trees and networks "
        "(figures 12b and 13); b in {5, 10, 20, 30} with T = 5, {10, 20, 30} with T = 10; "
        "5 dimensions, 11 points, width 64, 1500 steps of a faster optimiser, run for 150 loops.",
    },
)
def fig4(lab: Lab) -> Measures:
    """Error by loop, far beyond the trained ones, and by examples, over the grid of b and T."""
    last = lab.choose(smoke=12, laptop=150, paper=200)
    measures: dict[str, Measured] = {}
    for place in GRIDS[lab.scale]:
        config, name = lab.config(place.label), f"b = {place.loops}"
        keys = {"family": place.family, "window": place.window, "trained loops": place.loops}
        prompt = lab.draw(config.task, config.points, purpose=place.family)
        by_examples = lab.error(lab.learner(place.label), prompt, config.task, label=name)
        measures |= {
            place.label: loop_errors(
                lab, place.label, prompt, last=last, trained=place.loops, label=name, keys=keys
            ),
            f"{place.label} by examples": replace(by_examples, keys=keys),
        }
    return measures
