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
from innerloop.studies.claim import Claim, at_least
from innerloop.studies.lab import Lab
from innerloop.studies.runs import trained
from innerloop.studies.study import Measures, Scale, Tables, declare
from innerloop.studies.yang2024.fixed_points import STAYS
from innerloop.studies.yang2024.shared import HIGHER, geometric_mean, shown_loops
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
        config, learner = lab.config(self.label), lab.learner(self.label)
        prompt = lab.draw(config.task, config.points, purpose=self.family)
        errors = lab.error(
            learner, prompt, config.task, by="examples" if last is None else "step", steps=last,
            axis="loop", label=f"b = {self.loops}",
        )  # fmt: skip
        keys = {"family": self.family, "window": self.window, "trained loops": self.loops}
        shown = {} if last is None else {"loop": shown_loops(last, self.loops)}
        return replace(errors, keys=keys, shown=shown)

    def drift(self, m: Averages) -> Tensor:
        """The error after all loops over that at b loops: (..)."""
        return m[self.label][..., -1] / m[self.label][..., self.loops]


Grids = Mapping[Scale, tuple[Place, ...]]
FAMILIES = ("linear", "sparse", "tree", "network")
GRIDS: Grids = {
    "smoke": (Place("linear", 4, 2), Place("linear", 2, 3), Place("linear", 4, 3)),
    "laptop": tuple(
        Place("linear", loops, window)
        for window, several in ((5, (5, 10, 20, 30)), (10, (10, 20, 30)))
        for loops in several
    ),
    "paper": tuple(
        Place(family, loops, window)
        for family in FAMILIES
        for window in (5, 10, 15)
        for loops in ((12, 50, 70, 100) if family == "tree" else (12, 20, 30, 40, 50))
    ),
}
"""The models in the order of the figure: families, windows, loops."""


def measured(m: Averages, grids: Grids = GRIDS) -> list[Place]:
    """The models that were measured, whatever the scale."""
    return sorted({place for grid in grids.values() for place in grid if place.label in m})


def drifts(m: Averages, choose: Callable[[Iterable[Place]], Place], *families: str) -> Tensor:
    """The drifts (.., m) of the models with the smallest or largest b of each family and T."""
    places = measured(m)
    kinds = {(place.family, place.window) for place in places if place.family in families}
    chosen = [choose(p for p in places if (p.family, p.window) == kind) for kind in kinds]
    return torch.stack([place.drift(m) for place in chosen], dim=-1)


def cost_of_few_losses(m: Averages) -> Tensor:
    """The error at b loops with the smallest T over that with the largest: (..).

    By geometric mean over the b that both have, in the family where it is smallest.
    """
    costs: list[Tensor] = []
    for family in FAMILIES:
        places = [place for place in measured(m) if place.family == family]
        errors = {(each.window, each.loops): m[each.label][..., each.loops] for each in places}
        if errors:
            few, many = min(errors)[0], max(errors)[0]
            both = [b for window, b in errors if window == few and (many, b) in errors]
            ratios = torch.stack([errors[few, b] / errors[many, b] for b in both], dim=-1)
            costs.append(geometric_mean(ratios))
    return torch.stack(costs).amin(dim=0)


def mark_trained(
    axes: Axes, rows: pd.DataFrame, order: Sequence[str], label: str = "trained loops"
) -> None:
    """Mark the loops that each curve `b = ..` was trained with, in the colour of the curve."""
    for loops in sorted(set(rows["trained loops"])):
        colour = drawing.COLOURS[order.index(f"b = {loops}") % len(drawing.COLOURS)]
        drawing.mark(axes, float(loops), label=label, colour=colour)


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
            statistic=lambda m: drifts(m, min, "linear").amin(dim=-1),
            criterion=at_least(2, "an error that doubles has not stayed, whether it settles "
                               "later or not"),
        ),
        Claim(
            name="many-loops-stay", ratio=True, criterion=STAYS,
            sentence="Trained with more loops, it finds a fixed point and stays there.",
            quantity="error after all loops / error at b loops, at the largest b of each T "
            "(the T and the family where it is largest)",
            statistic=lambda m: drifts(m, max, *FAMILIES).amax(dim=-1),
        ),
        Claim(
            name="few-losses-cost", over="seeds", ratio=True, criterion=HIGHER,
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
