"""Figure 7: layers, heads and width of the looped block, and how many loops a layer is worth."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from functools import partial

import torch
from matplotlib.figure import Figure
from torch import Tensor

from innerloop.analysis import Averages, Measured, drawing
from innerloop.studies.claim import Claim, Premise, at_least, between
from innerloop.studies.lab import Lab
from innerloop.studies.nulls import instead, of_another_seed, untrained
from innerloop.studies.runs import looped, trained
from innerloop.studies.study import Measures, Runs, Scale, Tables, declare
from innerloop.studies.yang2024.shared import (
    APART,
    HIGHER,
    SEEDS,
    UNLIKE_THE_PAPER,
    all_learned,
    descent,
    errors_of,
    shown_loops,
)
from innerloop.training.overrides import with_overrides

LOOPS: Mapping[Scale, tuple[int, int]] = {"smoke": (4, 3), "laptop": (20, 10), "paper": (30, 15)}
"""The loops b of all looped models, and the window T."""
SIZES: Mapping[Scale, Mapping[str, tuple[int, ...]]] = {
    "smoke": {"looped L": (1, 2), "looped D": (8,), "looped h": (1, 4), "standard L": (1, 2)},
    "laptop": {
        "looped L": (1, 2), "looped D": (32,), "looped h": (2, 16), "standard L": (1, 2, 4, 8)
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
    """The loops after which mean errors (.., K + 1) first come down to a target (..): (..).

    Between two loops by a straight line of the errors' logarithms, so that it is no whole number
    which a small change makes another; infinite where K loops are not enough.
    """
    bar = torch.as_tensor(target, dtype=means.dtype)[..., None].log()  # (.., 1)
    logs = means.log()  # (.., K + 1)
    enough = logs <= bar  # (.., K + 1)
    first = enough.int().argmax(dim=-1, keepdim=True)  # (.., 1)
    above, below = (logs.gather(-1, place) for place in ((first - 1).clamp(min=0), first))
    part = torch.where(first > 0, (above - bar) / (above - below), 1.0)  # (.., 1)
    loops = torch.where(enough.any(dim=-1, keepdim=True), first - 1 + part, torch.inf)  # (.., 1)
    return loops[..., 0]


def by_size(m: Averages, name: str) -> dict[int, Tensor]:
    """The measures that are called so and a number, such as "looped L = 2", by their numbers."""
    return {int(each.removeprefix(name)): m[each] for each in m if each.startswith(name)}


def faster(m: Averages) -> Tensor:
    """Loops until the error is below NEAR with one layer over those with the most layers: (..)."""
    layers = by_size(m, "looped L = ")
    return loops_until(layers[1], NEAR) / loops_until(layers[max(layers)], NEAR)


def loops_for_layers(m: Averages) -> dict[int, Tensor]:
    """The loops (..) until one looped layer is as good as a standard model, by its layers."""
    stacks = by_size(m, "standard L = ")  # (.., 1) each
    return {depth: loops_until(m[USUAL], errors[..., 0]) for depth, errors in stacks.items()}


def loops_per_layer(m: Averages) -> dict[int, Tensor]:
    """The loops that are needed for each layer of a standard model, (..), by its layers."""
    return {depth: loops / depth for depth, loops in loops_for_layers(m).items()}


def for_eight(m: Averages) -> Tensor:
    """The loops for each layer of the standard model with 8, or the most that there are: (..)."""
    needed = loops_per_layer(m)
    return needed[min(8, max(needed))]


Choose = Callable[[Iterable[int]], int]


def changed(m: Averages, *, size: str, choose: Choose) -> Tensor:
    """The error (..) at b loops with the least or most of a size."""
    several = by_size(m, f"at b, looped {size} = ")
    return several[choose(several)]


def worse(m: Averages, *, size: str, choose: Choose) -> Tensor:
    """The same over the error of the usual block: (..)."""
    return changed(m, size=size, choose=choose) / m[f"at b, {USUAL}"]


def _learned(size: str, choose: Choose) -> Premise:
    """The usual block and a changed one have learned: one that is stuck says nothing of shapes."""
    return all_learned(
        "both blocks", lambda m: [m[f"at b, {USUAL}"], changed(m, size=size, choose=choose)]
    )


_LAYERS_LEARNED = all_learned(
    "one looped layer, the deepest standard model",
    lambda m: [m[f"at b, {USUAL}"], by_size(m, "standard L = ")[_deepest(m)][..., -1]],
)


def _deepest(m: Averages) -> int:
    return max(by_size(m, "standard L = "))


def _usual_for_changed() -> dict[str, str]:
    """The usual block in the place of each changed one."""
    return {
        f"{name} = {number}": USUAL
        for sizes in SIZES.values()
        for name, numbers in sizes.items()
        if name.startswith("looped")
        for number in numbers
        if f"{name} = {number}" != USUAL
    }


def _draw(tables: Tables) -> Figure:
    table = tables["by-loop"]
    labels = table["label"].astype(str)
    loops, layers = labels.str.startswith("looped"), labels.str.contains("L =")
    order = list(dict.fromkeys(labels[loops]))
    figure, axes = drawing.panels(2, columns=2, size=(4.4, 3.4))
    titles = ("looped (curves) and standard (levels)", "looped: layers L, width D, heads h")
    for panel, rows, title in zip(axes, (loops & layers, loops), titles, strict=True):
        drawing.draw_curves(panel, table.loc[rows], x="loop", order=order)
        drawing.mark(panel, float(tables["sizes"]["trained loops"].iloc[0]))
        drawing.name(panel, title=title, x="loops", y=drawing.ERROR)
    # Levels are named where they are, and need no colours.
    last, stacks = float(table["loop"].to_numpy(float).max()), table.loc[~loops, :]
    for label, mean in zip(stacks["label"], stacks["mean"].to_numpy(float).tolist(), strict=True):
        drawing.level(axes[0], mean, colour="0.3")
        axes[0].annotate(
            str(label), (last, mean), xytext=(0, 2), textcoords="offset points", ha="right",
            fontsize=7, color="0.3",
        )  # fmt: skip
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
            statistic=faster, premise=_learned("L", max),
            criterion=at_least(APART, "a loop of two layers does the work of two: one loop in five "
                               "saved is the least to call it faster"),
            excludes=("untrained", "the usual block", "a step per loop and layer"),
        ),
        Claim(
            name="more-loops-than-layers", ratio=True,
            sentence="To match L layers of a standard model, one looped layer needs more loops.",
            quantity="loops until one looped layer is as good as L standard ones / L; the L where "
            "it is smallest",
            statistic=lambda m: torch.stack([*loops_per_layer(m).values()]).amin(dim=0),
            premise=_LAYERS_LEARNED,
            criterion=at_least(APART, f"{SEEDS}, and the loops that reach an error with it"),
            excludes=("untrained", "a step per loop and layer"),
        ),
        Claim(
            name="twenty-for-eight", ratio=True, paper="20 / 8",
            sentence="It needs about 20 loops to equal 8 layers.",
            quantity="loops until one looped layer is as good as 8 standard ones / 8 (2 at smoke)",
            statistic=for_eight, premise=_LAYERS_LEARNED,
            criterion=between(1.9, 3.1, "20 / 8, and a quarter of it either way"),
            excludes=("untrained", "a step per loop and layer"),
        ),
        *(
            Claim(
                name=name, ratio=True, criterion=HIGHER, sentence=sentence,
                quantity=f"error at b loops, {compared}",
                statistic=partial(worse, size=size, choose=choose),
                premise=_learned(size, choose), excludes=("untrained", "the usual block"),
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
    runs=_runs,
    nulls={
        "untrained": untrained(),
        "the usual block": of_another_seed(_usual_for_changed()),
        "a step per loop and layer": instead(descent),
    },
    draw=_draw, minutes={"smoke": 0.8, "laptop": 20, "paper": 28_000},
    smaller={
        "smoke": "3 dimensions, 7 points, 4 loops, width 16 and 8, heads 2, 1 and 4, 20 steps.",
        "laptop": "5 dimensions, 11 points; b = 20 and T = 10 instead of 30 and 15; loops of 1 and "
        "2 layers, width 64 and 32, heads 4, 2 and 16, stacks of 1, 2, 4 and 8 layers; 1500 steps "
        "(2000 for the stacks) without a curriculum. Whether more width than usual helps is not "
        f"asked. {UNLIKE_THE_PAPER}.",
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
