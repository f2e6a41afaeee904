"""Figure 4: how many layers and heads the modules of an AlgoFormer need."""

from dataclasses import replace

from matplotlib.figure import Figure

from innerloop.analysis import drawing
from innerloop.studies.claim import Claim
from innerloop.studies.gao2025 import samples
from innerloop.studies.lab import Lab
from innerloop.studies.runs import trained
from innerloop.studies.study import Measures, Runs, Scale, Tables, declare
from innerloop.training.config import RunConfig

STACKS: dict[Scale, tuple[int, ...]] = {
    "smoke": (2,), "laptop": (3, 8), "paper": (3, 12, 14, 20, 22)
}  # fmt: skip
"""Layers of the standard transformers; AlgoFormers have one and two per module."""
HEADS: dict[Scale, tuple[int, ...]] = {"smoke": (1, 2), "laptop": (1, 4), "paper": (2, 4, 8, 16)}
USUAL_HEADS: dict[Scale, int] = {"smoke": 2, "laptop": 4, "paper": 8}
"""Of a block in the recipes: what the curve of one layer has."""
STACK, LAYERS, HEADED = "standard, L = {}", "AlgoFormer, L = {}", "AlgoFormer, h = {}"
"""Labels of runs, by the number that varies."""


def _fig4_runs(scale: Scale) -> Runs:
    # Backbones of other sizes; at laptop scale in fewer steps.
    steps = ("steps=800",) if scale == "laptop" else ()

    def sized(model: str, number: int, *sizes: str) -> RunConfig:
        changes = (f"model.backbone.{size}={number}" for size in sizes)
        return trained(f"{model}-representation", scale, *changes, *steps)

    return {
        **{STACK.format(n): sized("standard", n, "layers") for n in STACKS[scale]},
        **{LAYERS.format(n): sized("algoformer", n, "pre", "layers", "post") for n in (1, 2)},
        **{HEADED.format(n): sized("algoformer", n, "heads") for n in HEADS[scale]},
    }


def _draw_fig4(tables: Tables) -> Figure:
    figure, axes = drawing.facets(
        tables["by-examples"], "varied", x="examples", title=lambda kind: f"number of {kind}",
        names=(samples.SAMPLES, drawing.ERROR), columns=2, size=(4.2, 3.3),
    )  # fmt: skip
    drawing.legend(figure, axes.values())
    return figure


def _better(name: str, own: str, other: str, sentence: str, quantity: str) -> Claim:
    """The claim that one of the compared models is clearly better than another."""
    return Claim(
        name=name, sentence=sentence, quantity=f"error {samples.QUARTER}, {quantity}",
        statistic=samples.over(own, other), criterion=samples.CLEARLY, ratio=True,
    )  # fmt: skip


@declare(
    paper="gao2025", id="fig4", title="Layers and heads of an AlgoFormer's modules",
    claims=(
        _better(
            "beats-three-layers", "L = 1", "shallowest stack",
            "An AlgoFormer of one layer a module beats a standard transformer of the same size, "
            "three layers.", "AlgoFormer L = 1 / standard L = 3",
        ),
        _better(
            "beats-the-deepest", "L = 1", "deepest stack",
            "It beats a standard transformer as deep as its loops.",
            "AlgoFormer L = 1 / the deepest standard transformer",
        ),
        _better("layers-help", "L = 2", "L = 1", "More layers lead to lower errors.",
                "AlgoFormer L = 2 / L = 1"),
        _better(
            "heads-help", "usual heads", "fewest heads", "More heads lead to lower errors.",
            "the usual number of heads / the fewest (at laptop scale 4 / 1, in the paper 8 / 2)",
        ),
    ),
    draw=_draw_fig4, runs=_fig4_runs, minutes={"smoke": 0.4, "laptop": 12, "paper": 25000},
    smaller={
        "smoke": "3 dimensions, 7 points, 20 steps; a stack of 2 layers, 1 and 2 heads.",
        "laptop": "5 dimensions, 16 points, width 64, 800 steps of a faster optimiser, 12 loops; "
        "standard transformers of 3 and 8 layers (the depth of the loops would be 14), 1 and 4 "
        "heads.",
    },
)  # fmt: skip
def fig4(lab: Lab) -> Measures:
    """Error by sample of AlgoFormers and stacks of several sizes, without noise."""
    stacks, heads = STACKS[lab.scale], HEADS[lab.scale]
    errors, _ = samples.sample_errors(lab, _fig4_runs(lab.scale))
    headed = {*map(HEADED.format, heads)}
    measures = {
        label: replace(own, keys={"varied": "heads" if label in headed else "layers"})
        for label, own in errors.items()
    }
    compared = {
        "L = 1": LAYERS.format(1), "L = 2": LAYERS.format(2),
        "shallowest stack": STACK.format(min(stacks)), "deepest stack": STACK.format(max(stacks)),
        "usual heads": HEADED.format(USUAL_HEADS[lab.scale]),
        "fewest heads": HEADED.format(min(heads)),
    }  # fmt: skip
    return measures | {key: samples.late(measures[label]) for key, label in compared.items()}
