"""Figure 11: sparse linear functions with few and with many weights that are not zero."""

from collections.abc import Mapping
from dataclasses import replace
from itertools import product

from matplotlib.figure import Figure
from torch import Tensor

from innerloop.analysis import Averages, Measured, drawing
from innerloop.analysis.drawing import COLOURS, ERROR, EXAMPLES
from innerloop.studies.claim import Claim, at_most
from innerloop.studies.lab import Lab
from innerloop.studies.runs import sparse, trained
from innerloop.studies.study import Measures, Runs, Scale, Tables, declare
from innerloop.studies.yang2024.families import few_and_more, largest_ratio
from innerloop.studies.yang2024.shared import KINDS, MATCHES, errors_of, geometric_mean
from innerloop.training.config import RunConfig

SPARSITIES: Mapping[Scale, tuple[int, ...]] = {
    "smoke": (1, 3), "laptop": (1, 3, 5), "paper": (1, 3, 6, 9, 12)
}  # fmt: skip
"""How many weights are not zero."""


def _fig11_runs(scale: Scale) -> Runs:
    runs: dict[str, RunConfig] = {}
    for sparsity, kind in product(SPARSITIES[scale], KINDS):
        label = f"{kind}, s = {sparsity}"
        if scale == "paper":  # which takes b = 30 and T = 15 for all
            loops = ("model.backbone.loops=30", "window=15", "loops.start=15")
            changes = (f"task.sparsity={sparsity}", *(loops if kind == "looped" else ()))
            runs[label] = trained(f"{kind}-sparse", scale, *changes)
        else:
            runs[label] = sparse(f"{kind}-linear", scale, sparsity)
    return runs


def _draw_fig11(tables: Tables) -> Figure:
    """One panel as in the paper: a colour per sparsity, lines of their own for the two models."""
    table = tables["by-examples"]
    sparsities = list(dict.fromkeys(table["sparsity"]))
    looped, standard = ([f"{kind}, s = {sparsity}" for sparsity in sparsities] for kind in KINDS)
    # Once all colours have gone round, the same ones come with the next style of line.
    order = [*looped, *("" for _ in COLOURS[len(looped) :]), *standard]
    figure, (axes,) = drawing.panels(1, size=(7.6, 4.0))
    drawing.draw_curves(axes, table, x="examples", order=order, log=False)
    axes.set_ylim(0, drawing.ceiling(table))
    drawing.name(axes, title="error by examples, s weights not zero", x=EXAMPLES, y=ERROR)
    drawing.legend(figure, [axes], columns=len(sparsities))
    return figure


def _ahead_with_few(m: Averages) -> Tensor:
    """Looped over standard with few examples, over the same with more: geometric mean (..)."""
    few, more = (
        m.several(f"{part} examples, looped") / m.several(f"{part} examples, standard")
        for part in ("few", "more")
    )  # (.., sparsities) each
    return geometric_mean(few / more)


@declare(
    paper="yang2024", id="fig11",
    title="Looped and standard transformers at every sparsity",
    claims=(
        Claim(
            name="matches-at-all", ratio=True, criterion=MATCHES,
            sentence="At every sparsity the looped model matches the standard one or is better.",
            quantity="mean error over all prefixes, looped / standard, at the sparsity where it is "
            "largest",
            statistic=largest_ratio,
        ),
        Claim(
            name="ahead-with-few-examples", ratio=True,
            sentence="It is ahead above all when there are few examples.",
            quantity="looped / standard, mean error over 1 to d - 1 examples, over the same from d "
            "on (geometric mean over sparsities)",
            statistic=_ahead_with_few,
            criterion=at_most(1.0, "ahead above all there: by more than with more examples"),
        ),
    ),
    draw=_draw_fig11, runs=_fig11_runs, minutes={"smoke": 0.2, "laptop": 12, "paper": 25_000},
    smaller={
        "smoke": "3 dimensions, 1 or 3 weights that are not zero; 20 steps.",
        "laptop": "5 dimensions with 1, 3 and 5 weights that are not zero (the paper: 20 with 1 to "
        "12); width 64, 20 loops against 8 layers.",
    },
)  # fmt: skip
def fig11(lab: Lab) -> Measures:
    """Error by prefix of both models at each sparsity."""
    measures: dict[str, Measured] = {}
    for sparsity, kind in product(SPARSITIES[lab.scale], KINDS):
        label = f"{kind}, s = {sparsity}"
        errors = errors_of(lab, label, purpose=f"s = {sparsity}")
        measures[label] = replace(errors, keys={"sparsity": sparsity})
        measures |= few_and_more(label, errors, lab.config(label).task.dims - 1)
    return measures
