"""Figure 7: layers, heads and width of the looped block, and how many loops a layer is worth."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from functools import partial

import torch
from matplotlib.figure import Figure
from torch import Tensor

from innerloop.analysis import Averages, Measured, drawing
from innerloop.studies.claim import Claim, at_least, between
from innerloop.studies.lab import Lab
from innerloop.studies.runs import looped, trained
from innerloop.studies.study import Measures, Runs, Scale, Tables, declare
from innerloop.studies.yang2024.shared import APART, HIGHER, errors_of, shown_loops
from innerloop.training.overrides import with_overrides

LOOPS: Mapping[Scale, tuple[int, int]] = {"smoke": (4, 3), "laptop": (20, 10), "paper": (30, 15)}
"""The loops b of all looped models, and the window T."""
SIZES: Mapping[Scale, Mapping[str, tuple[int, ...]]] = {
    "smoke": {"looped L": (1, 2), "looped D": (8,), "looped h": (1, 4), "standard L": (1, 2)},
    "laptop": {
        "looped L": (1, 2), "looped D": (32,), "looped h": (1, 16), "standard L": (1, 2, 4, 8)
    },
    "paper": {
        "looped L": (1, 2, 4), "looped D": (64, 128, 384, 512), "looped h": (2, 4, 16, 32),
        "standard L": (1, 2, 4, 8, 12, 20),
    },
}  # fmt: skip
"""What is changed of the usual model, one at a time: layers, width or heads."""
USUAL = "looped L = 1"
NEAR = 0.05
"""The error until which loops are counted: well above where models end, well below no learning."""


def _runs(scale: Scale) -> Runs:
    loops, window = LOOPS[scale]
    usual = {
        "looped": looped(scale, loops=loops, window=window),
        "standard": trained("standard-linear", scale),
    }
    settings = {"L": "layers", "D": "width", "h": "heads"}
    return {
        f"{name} = {number}": with_overrides(
            usual[name.split()[0]], [f"model.backbone.{settings[name.split()[1]]}={number}"]
        )
        for name, numbers in SIZES[scale].items()
        for number in numbers
    }


def loops_until(means: Tensor, target: Tensor | float) -> Tensor:
    """The first loop after which mean errors (.., K + 1) are at most a target (..): (..).

    What never comes so far within K loops counts as K + 1.
    """
    bar = torch.as_tensor(target, dtype=means.dtype)[..., None]  # (.., 1)
    return (~(means <= bar)).double().cumprod(dim=-1).sum(dim=-1)  # the loops before the first


def by_size(m: Averages, name: str) -> dict[int, Tensor]:
    """The measures that are called so and a number, such as "looped L = 2", by their numbers."""
    return {int(each.removeprefix(name)): m[each] for each in m if each.startswith(name)}


def faster(m: Averages) -> Tensor:
    """Loops until the error is below NEAR with one layer over those with the most layers: (..)."""
    layers = by_size(m, "looped L = ")
    return loops_until(layers[1], NEAR) / loops_until(layers[max(layers)], NEAR)


def loops_for_layers(m: Averages) -> dict[int, Tensor]:
    """The loops (..) until one looped layer is as good as a standard model, by layers of that."""
    stacks = by_size(m, "standard L = ")  # (.., 1) each
    return {depth: loops_until(m[USUAL], errors[..., 0]) for depth, errors in stacks.items()}


def loops_per_layer(m: Averages) -> Tensor:
    """The loops that are needed over layers, for 8 layers or the most that there are: (..)."""
    needed = loops_for_layers(m)
    depth = min(8, max(needed))
    return needed[depth] / depth


def worse(m: Averages, *, size: str, choose: Callable[[Iterable[int]], int]) -> Tensor:
    """The error at b loops with the least or most of a size over that of the usual block: (..)."""
    several = by_size(m, f"at b, looped {size} = ")
    return several[choose(several)] / m[f"at b, {USUAL}"]


def _draw(tables: Tables) -> Figure:
    table = tables["by-loop"]
    labels = table["label"].astype(str)
    layers, loops = labels.str.contains("L ="), labels.str.startswith("looped")
    # What shares a panel has colours of its own for as long as there are some.
    order = list(dict.fromkeys([*labels[layers], *labels]))
    figure, axes = drawing.panels(2, columns=2, size=(4.4, 3.4), legend=0.8)
    titles = ("looped and standard, by layers L", "looped: layers L, width D, heads h")
    for panel, rows, title in zip(axes, (layers, loops), titles, strict=True):
        drawing.draw_curves(panel, table.loc[rows], x="loop", order=order)
        drawing.mark(panel, float(tables["sizes"]["trained loops"].iloc[0]))
        drawing.name(panel, title=title, x="loops", y=drawing.ERROR)
    drawing.legend(figure, axes)
    return figure


@declare(
    paper="yang2024", id="fig7",
    title="Layers, heads and width of the block; a looped layer needs many loops to equal a stack",
    claims=(
        Claim(
            name="layers-faster", ratio=True,
            sentence="The more layers are in the loop, the fewer loops it needs.",
            quantity=f"loops until the error is below {NEAR:g}, 1 layer / most layers",
            statistic=faster,
            criterion=at_least(APART, "a loop of two layers does the work of two: one loop in five "
                               "saved is the least to call it faster"),
        ),
        Claim(
            name="more-loops-than-layers", 
            sentence="To match L layers of a standard model, one looped layer needs more loops.",
            quantity="loops until one looped layer is as good as L standard ones, less L; the "
            "smallest over L",
            statistic=lambda m: torch.stack(
                [loops - layers for layers, loops in loops_for_layers(m).items()]
            ).amin(dim=0),
            criterion=at_least(1, "one loop more is the least that is more"),
        ),
        Claim(
            name="twenty-for-eight", ratio=True, paper="20 / 8",
            sentence="It needs about 20 loops to equal 8 layers.",
            quantity="loops until one looped layer is as good as 8 standard ones / 8 (2 at smoke)",
            statistic=loops_per_layer,
            criterion=between(1.9, 3.1, "20 / 8, and a quarter of it either way"),
        ),
        *(
            Claim(
                name=name, ratio=True, criterion=HIGHER, sentence=sentence,
                quantity=f"error at b loops, {compared}",
                statistic=partial(worse, size=size, choose=choose),
            )
            for name, size, choose, compared, sentence in (
                ("width-helps", "D", min, "narrowest / usual width",
                 "A wider block comes to a lower error, up to the usual width."),
                ("few-heads-worse", "h", min, "fewest heads / usual number",
                 "Up to the usual number, more heads lower the error."),
                ("many-heads-worse", "h", max, "most heads / usual number",
                 "Beyond it, more heads of fewer dimensions raise the error."),
            )
        ),
    ),
    draw=_draw, runs=_runs, minutes={"smoke": 0.5, "laptop": 16, "paper": 28_000},
    smaller={
        "smoke": "3 dimensions, 7 points, 4 loops, width 16 and 8, heads 2, 1 and 4, 20 steps.",
        "laptop": "5 dimensions, 11 points; b = 20 and T = 10 instead of 30 and 15; loops of 1 and "
        "2 layers, width 64 and 32, heads 4, 1 and 16, stacks of 1, 2, 4 and 8 layers; 1500 steps "
        "of a faster optimiser (2000 for the stacks). Whether more width than usual helps is not "
        "asked.",
    },
)  # fmt: skip
def fig7(lab: Lab) -> Measures:
    """Error by loop of blocks of several shapes, and of standard models as levels."""
    (loops, _), last = LOOPS[lab.scale], lab.choose(smoke=12, laptop=100, paper=100)
    measures: dict[str, Measured] = {}
    for label in _runs(lab.scale):
        if label.startswith("looped"):
            errors = errors_of(lab, label, loops=last)
            measures[label] = replace(errors, shown={"loop": shown_loops(last, loops)})
            measures[f"at b, {label}"] = errors.at(loop=loops)
        else:
            end = errors_of(lab, label).at(examples=[-1])
            measures[label] = replace(end, axes=("loop",), ticks={})
    lab.table("sizes", {"trained loops": [loops]})
    return measures
