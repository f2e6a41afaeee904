"""Figure 4: how many layers and heads the modules of an AlgoFormer need."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pandas as pd
from matplotlib.figure import Figure

from innerloop.analysis import drawing
from innerloop.core.learner import Learner
from innerloop.studies import nulls
from innerloop.studies.claim import Claim
from innerloop.studies.gao2025 import samples
from innerloop.studies.gao2025.samples import UNTRAINED, another_seed
from innerloop.studies.lab import Lab, Null
from innerloop.studies.runs import trained
from innerloop.studies.study import Measures, Runs, Scale, Tables, declare
from innerloop.training.config import RunConfig

STACKS: dict[Scale, tuple[int, ...]] = {
    "smoke": (2,), "laptop": (3, 14), "paper": (3, 12, 14, 20, 22)
}  # fmt: skip
"""Layers of the standard transformers; the most are as many as an AlgoFormer runs through, its
loops and two. AlgoFormers have one and two per module."""
HEADS: dict[Scale, tuple[int, ...]] = {"smoke": (1, 2), "laptop": (1, 4), "paper": (2, 4, 8, 16)}
USUAL_HEADS: dict[Scale, int] = {"smoke": 2, "laptop": 4, "paper": 8}
"""Of a block in the recipes: what the curve of one layer has."""
STACK, LAYERS, HEADED = "standard, L = {}", "AlgoFormer, L = {}", "AlgoFormer, h = {}"
"""Labels of runs, by the number that varies."""


ONE, TWO, SHALLOWEST, DEEPEST = "L = 1", "L = 2", "the shallowest stack", "the deepest stack"
USUAL, FEWEST = "the usual heads", "the fewest heads"


def compared(scale: Scale) -> dict[str, str]:
    """What claims call the models that they compare, with their labels."""
    return {
        ONE: LAYERS.format(1), TWO: LAYERS.format(2),
        SHALLOWEST: STACK.format(min(STACKS[scale])), DEEPEST: STACK.format(max(STACKS[scale])),
        USUAL: HEADED.format(USUAL_HEADS[scale]), FEWEST: HEADED.format(min(HEADS[scale])),
    }  # fmt: skip


def _fig4_runs(scale: Scale) -> Runs:
    # Equally many: at laptop scale the recipe gives a stack more steps than a loop.
    steps = ("steps=1200",) if scale == "laptop" else ()

    def sized(model: str, number: int, *sizes: str) -> RunConfig:
        changes = (f"model.backbone.{size}={number}" for size in sizes)
        return trained(f"{model}-representation", scale, *changes, *steps)

    return {
        **{STACK.format(n): sized("standard", n, "layers") for n in STACKS[scale]},
        **{LAYERS.format(n): sized("algoformer", n, "pre", "layers", "post") for n in (1, 2)},
        **{HEADED.format(n): sized("algoformer", n, "heads") for n in HEADS[scale]},
    }


def _draw_fig4(tables: Tables) -> Figure:
    """Excesses, and below them how many times that of the AlgoFormer of one layer they are."""
    table = tables["by-examples"]
    usual = LAYERS.format(1)
    rows = drawing.rows_where(table, {"label": usual})
    own = dict(zip(rows["examples"], rows["mean"], strict=True))
    # A band of means is none of their ratio.
    means = table["mean"] / [own[place] for place in table["examples"]]
    ratio = table.assign(mean=means, low=float("nan"), high=float("nan"))
    shown = pd.concat(
        [
            table.assign(part="excess over ridge on Φ"),
            ratio.assign(part=f"excess / that of {usual}"),
        ]
    )
    shown = shown.assign(panel="number of " + shown["varied"] + ": " + shown["part"])
    figure, axes = drawing.facets(
        shown, "panel", x="examples", names=(samples.SAMPLES, drawing.ERROR), columns=2,
        size=(4.2, 3.0),
    )  # fmt: skip
    for panel in list(axes.values())[2:]:
        panel.set_ylabel("ratio", fontsize=9)
        panel.set_yscale("linear")  # ratios near 1 have no decades
        drawing.level(panel, 1.0)
    drawing.legend(figure, axes.values())
    return figure


def _better(name: str, own: str, other: str, sentence: str, quantity: str) -> Claim:
    """The claim that one of the compared models is better than another, by their excesses."""
    return Claim(
        name=name, sentence=sentence, ratio=True, criterion=samples.BETTER,
        quantity=f"excess over the reference {samples.QUARTER}, {quantity}",
        statistic=samples.over(f"{own}, late", f"{other}, late"),
        premise=samples.learned((own, other), which="the two"),
        excludes=(UNTRAINED, f"{own}: {another_seed(other)}"),
    )  # fmt: skip


def _of_another_seed(own: str, other: str) -> dict[str, Null]:
    """One architecture against itself: in the place of a model that it is compared with."""

    def null(lab: Lab) -> Mapping[str, Learner[Any]]:
        labels = compared(lab.scale)
        return nulls.of_another_seed({labels[own]: labels[other]})(lab)

    return {f"{own}: {another_seed(other)}": null}


@declare(
    paper="gao2025", id="fig4", title="Layers and heads of an AlgoFormer's modules",
    claims=(
        _better(
            "beats-three-layers", ONE, SHALLOWEST,
            "An AlgoFormer with one layer per module beats a standard transformer of the same "
            "size, three layers.", "AlgoFormer L = 1 / standard L = 3",
        ),
        _better(
            "beats-the-deepest", ONE, DEEPEST,
            "It beats a standard transformer that is as deep as it is with all of its loops.",
            "AlgoFormer L = 1 / the deepest standard transformer (14 layers for 12 loops, in the "
            "paper 22 for 20)",
        ),
        _better("layers-help", TWO, ONE, "More layers lead to lower errors.",
                "AlgoFormer L = 2 / L = 1"),
        _better(
            "heads-help", USUAL, FEWEST, "More heads lead to lower errors.",
            "the usual number of heads / the fewest (at laptop scale 4 / 1, in the paper 8 / 2)",
        ),
    ),
    nulls={
        UNTRAINED: nulls.untrained(),
        **_of_another_seed(ONE, SHALLOWEST), **_of_another_seed(ONE, DEEPEST),
        **_of_another_seed(TWO, ONE), **_of_another_seed(USUAL, FEWEST),
    },
    draw=_draw_fig4, runs=_fig4_runs, minutes={"smoke": 0.4, "laptop": 18, "paper": 25000},
    smaller={
        "smoke": "3 dimensions, 7 points, 20 steps; a stack of 2 layers, 1 and 2 heads.",
        "laptop": f"5 dimensions, 16 points, 1200 steps, {samples.RECIPE}, y in a place of its "
        "own; standard transformers of 3 and 14 layers, 1 and 4 heads.",
    },
)  # fmt: skip
def fig4(lab: Lab) -> Measures:
    """Excess by sample of AlgoFormers and stacks of several sizes, without noise."""
    labels = _fig4_runs(lab.scale)
    _, excess = samples.sample_errors(lab, samples.ridge_on_features(0.0), labels)
    headed = {*map(HEADED.format, HEADS[lab.scale])}
    kinds = {label: "heads" if label in headed else "layers" for label in labels}
    own = {key: excess[label] for key, label in compared(lab.scale).items()}
    return {
        **{label: replace(each, keys={"varied": kinds[label]}) for label, each in excess.items()},
        **samples.ends(own),
    }
