"""Figures 4, 12 and 13: how many loops a model is trained with, and how many of them count."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import NamedTuple

import pandas as pd
import torch
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from torch import Tensor

from innerloop.analysis.drawing import COLOURS
from innerloop.studies.claim import Claim, Criterion
from innerloop.analysis.drawing import draw_curves, legend, mark, name, panels
from innerloop.studies.lab import Lab
from innerloop.studies.quantity import Quantity
from innerloop.studies.runs import looped, trained
from innerloop.studies.study import Findings, Tables, declare
from innerloop.studies.tables import curve, record, rows_where, stacked
from innerloop.studies.yang2024.comparing import (
    APART,
    bootstrapped,
    by_value,
    largest_ratio,
    shown_loops,
    smallest_ratio,
    times,
)
from innerloop.studies.yang2024.fixed_points import STAYS
from innerloop.training.config import RunConfig
from innerloop.training.families import Scale


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
_SMALL_GRIDS: Mapping[Scale, tuple[tuple[int, int], ...]] = {
    "smoke": ((4, 2), (2, 3), (4, 3)),
    "laptop": ((5, 5), (10, 5), (20, 5), (30, 5), (10, 10), (20, 10), (30, 10)),
}
"""Loops b and window T, on linear functions."""


def _grid(scale: Scale) -> tuple[Place, ...]:
    """The models in the order of the figure: families, windows, loops."""
    if scale != "paper":
        return tuple(Place("linear", loops, window) for loops, window in _SMALL_GRIDS[scale])
    return tuple(
        Place(family, loops, window)
        for family, several in _PAPER_LOOPS.items()
        for window in (5, 10, 15)
        for loops in several
    )


def _fig4_runs(scale: Scale) -> Mapping[str, RunConfig]:
    return {place.label: _place_run(scale, place) for place in _grid(scale)}


def _place_run(scale: Scale, place: Place) -> RunConfig:
    if scale != "paper":
        return looped(scale, loops=place.loops, window=place.window)
    # In the paper the schedule begins with as many loops as there are losses.
    losses = min(place.window, place.loops)
    return trained(
        f"looped-{place.family}",
        scale,
        f"model.backbone.loops={place.loops}",
        f"window={losses}",
        f"loops.start={losses}",
    )


def _draw_fig4(tables: Tables) -> Figure:
    grid = tables["grid"]
    families = list(dict.fromkeys(grid["family"]))
    windows = sorted(set(grid["window"]))
    order = [f"b = {loops}" for loops in sorted(set(grid["loops"]))]
    figure, axes = panels(2 * len(families) * len(windows), columns=len(windows), size=(3.9, 2.8))
    places = iter(axes)
    for family in families:
        for kind in ("by-loop", "by-examples"):
            for window in windows:
                here = {"family": family, "window": window}
                table = rows_where(tables[kind], here)
                title = f"{family}, T = {window}"
                if kind == "by-loop":
                    _draw_by_loop(next(places), table, rows_where(grid, here), order, title)
                else:
                    _draw_by_examples(next(places), table, order, title)
    legend(figure, axes, columns=len(order))
    return figure


def _draw_by_loop(
    axes: Axes, table: pd.DataFrame, grid: pd.DataFrame, order: Sequence[str], title: str
) -> None:
    draw_curves(axes, table, x="loop", order=order)
    for loops in grid["loops"]:
        # Without a label of its own: the axis says what the lines are.
        mark(axes, float(loops), label="", colour=COLOURS[order.index(f"b = {loops}")])
    name(axes, title=title, x="loops (dashed: those of training)", y="squared error / E[y²]")


def _draw_by_examples(axes: Axes, table: pd.DataFrame, order: Sequence[str], title: str) -> None:
    draw_curves(axes, table, x="examples", order=order, log=False)
    name(axes, title=title, x="examples in the prompt", y="squared error / E[y²]")


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
            criterion=Criterion(
                at_least=2,
                reason="an error that doubles has not stayed, whether it settles later or not",
            ),
            over="prompts",
            ratio=True,
        ),
        Claim(
            name="many-loops-stay",
            sentence="Trained with more loops, it finds a fixed point and stays there.",
            quantity="error after all loops / error at b loops, at the largest b of each T "
            "(the T and the family where it is largest)",
            criterion=STAYS,
            over="prompts",
            ratio=True,
        ),
        Claim(
            name="few-losses-cost",
            sentence="A smaller T gives a larger error, in every family.",
            quantity="error at b loops with the smallest T / with the largest (geometric mean over "
            "the b that both have; the family with the smallest ratio)",
            criterion=Criterion(
                at_least=APART, reason="two seeds of one model differ by about a quarter"
            ),
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
def fig4(lab: Lab) -> Findings:
    """Error by loop, far beyond the trained ones, and by examples, over the grid of b and T."""
    grid = _grid(lab.scale)
    last = lab.choose(smoke=12, laptop=150, paper=200)
    by_loop: dict[Place, list[Tensor]] = {place: [] for place in grid}
    by_examples: dict[Place, list[Tensor]] = {place: [] for place in grid}
    measured: dict[str, list[Quantity]] = {
        "few-loops-diverge": [], "many-loops-stay": [], "few-losses-cost": []
    }  # fmt: skip
    for seed in lab.seeds:
        for place in grid:
            config, model = lab.run(place.label, seed).config, lab.model(place.label, seed)
            task, points = config.task, config.points
            prompt = lab.draw(task, points, seed=seed, purpose=place.family)
            by_examples[place].append(lab.errors(model, prompt, task))  # (P, n)
            by_loop[place].append(
                lab.errors(model, prompt, task, steps=last, at=points - 1)
            )  # (P, K + 1)
        errors = {place: several[-1] for place, several in by_loop.items()}  # (P, K + 1) each
        measured["few-loops-diverge"].append(drift(lab, errors, "linear", min, seed))
        families = list(dict.fromkeys(place.family for place in grid))
        drifts = [drift(lab, errors, family, max, seed) for family in families]
        measured["many-loops-stay"].append(max(drifts, key=by_value))
        costs = [cost_of_few_losses(lab, errors, family, seed) for family in families]
        measured["few-losses-cost"].append(min(costs, key=by_value))
    return Findings(tables=_grid_tables(lab, last, by_loop, by_examples), measured=measured)


def _grid_tables(
    lab: Lab,
    last: int,
    by_loop: Mapping[Place, Sequence[Tensor]],
    by_examples: Mapping[Place, Sequence[Tensor]],
) -> Tables:
    """Both curves of every model, and where it stands in the grid."""
    loop_curves: list[pd.DataFrame] = []
    example_curves: list[pd.DataFrame] = []
    for place, several in by_loop.items():
        keys = {"family": place.family, "window": place.window, "label": f"b = {place.loops}"}
        shown = shown_loops(last, place.loops)
        thinned = [errors[:, shown] for errors in several]  # (P, places) each
        loop_curves.append(curve(lab, thinned, "loop", keys, places=shown))
        example_curves.append(curve(lab, by_examples[place], "examples", keys))
    return {
        "by-loop": stacked(loop_curves),
        "by-examples": stacked(example_curves),
        "grid": record(
            {
                "family": [place.family for place in by_loop],
                "window": [place.window for place in by_loop],
                "loops": [place.loops for place in by_loop],
            }
        ),
    }


def drift(
    lab: Lab,
    errors: Mapping[Place, Tensor],
    family: str,
    choose: Callable[[Iterable[int]], int],
    seed: int,
) -> Quantity:
    """Error (P, K + 1) after all loops over that at b, at one b of each T: smallest or largest.

    Of the smallest b the T that drifts least counts, of the largest the one that drifts most: what
    is claimed of them, every T has to show.
    """
    of_family = [place for place in errors if place.family == family]
    columns: list[Tensor] = []
    for window in sorted({place.window for place in of_family}):
        loops = choose(place.loops for place in of_family if place.window == window)
        several = errors[Place(family, loops, window)]  # (P, K + 1)
        columns += [several[:, -1], several[:, loops]]  # (P,) each
    statistic = smallest_ratio if choose is min else largest_ratio
    return bootstrapped(lab, statistic, torch.stack(columns, dim=1), seed=seed)


def cost_of_few_losses(
    lab: Lab, errors: Mapping[Place, Tensor], family: str, seed: int
) -> Quantity:
    """Error (P, K + 1) at b loops with the smallest T over that with the largest."""
    of_family = [place for place in errors if place.family == family]
    windows = [place.window for place in of_family]
    few, many = (
        {
            place.loops: errors[place][:, place.loops]
            for place in of_family
            if place.window == window
        }
        for window in (min(windows), max(windows))
    )  # b -> (P,) each
    both = [loops for loops in few if loops in many]
    return times(lab, [few[loops] for loops in both], [many[loops] for loops in both], seed=seed)
