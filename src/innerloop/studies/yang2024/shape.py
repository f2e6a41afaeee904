"""Figure 7: layers, heads and width of the looped block, and how many loops a layer is worth."""

from collections.abc import Mapping
from dataclasses import dataclass, replace

import torch
from matplotlib.figure import Figure
from torch import Tensor

from innerloop.analysis import Averages, Measured, drawing
from innerloop.studies.claim import Claim, at_least, between
from innerloop.studies.lab import Lab
from innerloop.studies.runs import looped, standard
from innerloop.studies.study import Measures, Runs, Scale, Tables, declare
from innerloop.studies.yang2024.shared import APART, HIGHER, loop_errors
from innerloop.training.overrides import with_overrides


@dataclass(frozen=True, slots=True, kw_only=True)
class Shapes:
    """What is trained at a scale: the usual block, and what of it is changed, one at a time."""

    loops: int
    window: int
    layers: tuple[int, ...]
    """Of the looped block; the first is the usual one."""
    widths: tuple[int, ...]
    """The others than the usual one, narrowest first."""
    heads: tuple[int, ...]
    """The others than the usual ones, fewest first."""
    depths: tuple[int, ...]
    """Layers of the standard models."""


SHAPES: Mapping[Scale, Shapes] = {
    "smoke": Shapes(loops=4, window=3, layers=(1, 2), widths=(8,), heads=(1, 4), depths=(1, 2)),
    "laptop": Shapes(
        loops=20, window=10, layers=(1, 2), widths=(32,), heads=(1, 16), depths=(1, 2, 4, 8)
    ),
    "paper": Shapes(
        loops=30, window=15, layers=(1, 2, 4), widths=(64, 128, 384, 512), heads=(2, 4, 16, 32),
        depths=(1, 2, 4, 8, 12, 20),
    ),
}  # fmt: skip
USUAL = "looped L = 1"
NEAR = 0.05
"""The error until which loops are counted: well above where models end, well below no learning."""


def _runs(scale: Scale) -> Runs:
    shapes = SHAPES[scale]
    usual = looped(scale, loops=shapes.loops, window=shapes.window)
    changes = {f"looped L = {layers}": f"layers={layers}" for layers in shapes.layers}
    changes |= {f"looped D = {width}": f"width={width}" for width in shapes.widths}
    changes |= {f"looped h = {heads}": f"heads={heads}" for heads in shapes.heads}
    runs = {
        label: with_overrides(usual, [f"model.backbone.{change}"])
        for label, change in changes.items()
    }
    runs |= {f"standard L = {depth}": standard(scale, layers=depth) for depth in shapes.depths}
    return runs


def loops_until(means: Tensor, target: Tensor | float) -> Tensor:
    """The first loop after which mean errors (.., K + 1) are at most a target (..): (..).

    What never comes so far within K loops counts as K + 1.
    """
    bar = torch.as_tensor(target, dtype=means.dtype)[..., None]  # (.., 1)
    there = means <= bar  # (.., K + 1)
    never = means.shape[-1]
    first = there.double().argmax(dim=-1)  # (..)
    return torch.where(there.any(dim=-1), first, never).double()


def loops_for_layers(m: Averages) -> dict[int, Tensor]:
    """The loops (..) until one looped layer is as good as a standard model, by layers of that."""
    return {
        depth: loops_until(m[USUAL], m[f"standard L = {depth}"][..., 0])
        for depth in SHAPES["paper"].depths  # those of other scales are among them
        if f"standard L = {depth}" in m
    }


def loops_beyond_layers(m: Averages) -> Tensor:
    """How many more loops than layers are needed, the fewest over layers: (..)."""
    return torch.stack([loops - depth for depth, loops in loops_for_layers(m).items()]).amin(dim=0)


def loops_per_layer(m: Averages) -> Tensor:
    """The loops that are needed over layers, for 8 layers or the most that there are: (..)."""
    needed = loops_for_layers(m)
    depth = min(8, max(needed))
    return needed[depth] / depth


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
    paper="yang2024",
    id="fig7",
    title="Layers, heads and width of the block; a looped layer needs many loops to equal a stack",
    claims=(
        Claim(
            name="layers-faster",
            sentence="The more layers are in the loop, the fewer loops it needs.",
            quantity=f"loops until the error is below {NEAR:g}, 1 layer / most layers",
            statistic=lambda m: loops_until(m[USUAL], NEAR) / loops_until(m["most layers"], NEAR),
            criterion=at_least(
                APART,
                "a loop of two layers does the work of two: one loop in five saved is the "
                "least to call it faster",
            ),
            over="seeds",
            ratio=True,
        ),
        Claim(
            name="more-loops-than-layers",
            sentence="To match L layers of a standard model, one looped layer needs more loops.",
            quantity="loops until one looped layer is as good as L standard ones, less L; the "
            "smallest over L",
            statistic=loops_beyond_layers,
            criterion=at_least(1, "one loop more is the least that is more"),
            over="seeds",
        ),
        Claim(
            name="twenty-for-eight",
            sentence="It needs about 20 loops to equal 8 layers.",
            quantity="loops until one looped layer is as good as 8 standard ones / 8 (2 at smoke)",
            statistic=loops_per_layer,
            criterion=between(1.9, 3.1, "20 / 8, and a quarter of it either way"),
            over="seeds",
            ratio=True,
            paper="20 / 8",
        ),
        Claim(
            name="width-helps",
            sentence="A wider block comes to a lower error, up to the usual width.",
            quantity="error at b loops, narrowest / usual width",
            statistic=lambda m: m["narrowest"] / m["usual"],
            criterion=HIGHER,
            over="seeds",
            ratio=True,
        ),
        Claim(
            name="few-heads-worse",
            sentence="Up to the usual number, more heads lower the error.",
            quantity="error at b loops, fewest heads / usual number",
            statistic=lambda m: m["fewest heads"] / m["usual"],
            criterion=HIGHER,
            over="seeds",
            ratio=True,
        ),
        Claim(
            name="many-heads-worse",
            sentence="Beyond it, more heads of fewer dimensions raise the error.",
            quantity="error at b loops, most heads / usual number",
            statistic=lambda m: m["most heads"] / m["usual"],
            criterion=HIGHER,
            over="seeds",
            ratio=True,
        ),
    ),
    draw=_draw,
    runs=_runs,
    minutes={"smoke": 0.5, "laptop": 16, "paper": 28_000},
    smaller={
        "smoke": "3 dimensions, 7 points, 4 loops, width 16 and 8, heads 2, 1 and 4, 20 steps.",
        "laptop": "5 dimensions, 11 points; b = 20 and T = 10 instead of 30 and 15; loops of 1 and "
        "2 layers, width 64 and 32, heads 4, 1 and 16, stacks of 1, 2, 4 and 8 layers; 1500 steps "
        "of a faster optimiser (2000 for the stacks). Whether more width than usual helps is not "
        "asked.",
    },
)
def fig7(lab: Lab) -> Measures:
    """Error by loop of blocks of several shapes, and of standard models as levels."""
    shapes, config = SHAPES[lab.scale], lab.config(USUAL)
    last = lab.choose(smoke=12, laptop=100, paper=100)
    prompt = lab.draw(config.task, config.points)
    errors: dict[str, Measured] = {}
    for label in _runs(lab.scale):
        if label.startswith("looped"):
            errors[label] = loop_errors(
                lab, label, prompt, last=last, trained=shapes.loops, label=label
            )
        else:
            by_examples = lab.error(lab.learner(label), prompt, config.task, label=label)
            errors[label] = replace(by_examples.at(examples=[-1]), axes=("loop",), ticks={})
    lab.table("sizes", {"trained loops": [shapes.loops]})
    return shape_measures(errors, shapes)


def shape_measures(errors: Measures, shapes: Shapes) -> Measures:
    """Errors by loop, one of them under the name that claims use, and others at b loops."""
    chosen = {
        "usual": USUAL,
        "narrowest": f"looped D = {shapes.widths[0]}",
        "fewest heads": f"looped h = {shapes.heads[0]}",
        "most heads": f"looped h = {shapes.heads[-1]}",
    }
    most = f"looped L = {shapes.layers[-1]}"
    return {
        **{"most layers" if label == most else label: own for label, own in errors.items()},
        **{name: errors[label].at(loop=shapes.loops) for name, label in chosen.items()},
    }
