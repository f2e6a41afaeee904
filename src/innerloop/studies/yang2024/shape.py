"""Figure 7: layers, heads and width of the looped block, and how many loops a layer is worth."""

from collections.abc import Mapping
from dataclasses import dataclass

import torch
from matplotlib.figure import Figure
from torch import Tensor

from innerloop.studies.claim import Claim, Criterion
from innerloop.analysis.drawing import draw_curves, legend, mark, name, panels
from innerloop.studies.lab import Lab
from innerloop.studies.quantity import Quantity
from innerloop.studies.runs import looped, standard
from innerloop.studies.study import Findings, Tables, declare
from innerloop.studies.tables import curve, record, stacked
from innerloop.studies.yang2024.comparing import APART, bootstrapped, shown_loops, times
from innerloop.training.config import RunConfig
from innerloop.training.families import Scale
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
    compared: int
    """The depth that the paper counts the loops for."""


SHAPES: Mapping[Scale, Shapes] = {
    "smoke": Shapes(
        loops=4, window=3, layers=(1, 2), widths=(8,), heads=(1, 4), depths=(1, 2), compared=2
    ),
    "laptop": Shapes(
        loops=20, window=10, layers=(1, 2), widths=(32,), heads=(1, 16), depths=(1, 2, 4, 8),
        compared=8,
    ),
    "paper": Shapes(
        loops=30, window=15, layers=(1, 2, 4), widths=(64, 128, 384, 512), heads=(2, 4, 16, 32),
        depths=(1, 2, 4, 8, 12, 20), compared=8,
    ),
}  # fmt: skip
USUAL = "looped L = 1"
NEAR = 0.05
"""The error until which loops are counted: well above where models end, well below no learning."""


def _runs(scale: Scale) -> Mapping[str, RunConfig]:
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


def _draw(tables: Tables) -> Figure:
    table = tables["by-loop"]
    labels = table["label"].astype(str)
    layers = labels.str.contains("L =")
    # What shares a panel has colours of its own for as long as there are some.
    order = list(dict.fromkeys([*labels[layers], *labels]))
    figure, (left, right) = panels(2, columns=2, size=(4.4, 3.4), legend=0.8)
    for axes, rows, title in (
        (left, table.loc[layers], "looped and standard, by layers L"),
        (
            right,
            table.loc[~labels.str.startswith("standard")],
            "looped: layers L, width D, heads h",
        ),
    ):
        draw_curves(axes, rows, x="loop", order=order)
        mark(axes, float(tables["sizes"]["trained loops"].iloc[0]))
        name(axes, title=title, x="loops", y="squared error / E[y²]")
    legend(figure, (left, right))
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
            criterion=Criterion(
                at_least=APART,
                reason="a loop of two layers does the work of two: one loop in five saved is the "
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
            criterion=Criterion(at_least=1, reason="one loop more is the least that is more"),
            over="seeds",
        ),
        Claim(
            name="twenty-for-eight",
            sentence="It needs about 20 loops to equal 8 layers.",
            quantity="loops until one looped layer is as good as 8 standard ones / 8 (2 at smoke)",
            criterion=Criterion(
                at_least=1.9, at_most=3.1, reason="20 / 8, and a quarter of it either way"
            ),
            over="seeds",
            ratio=True,
            paper="20 / 8",
        ),
        Claim(
            name="width-helps",
            sentence="A wider block comes to a lower error, up to the usual width.",
            quantity="error at b loops, narrowest / usual width",
            criterion=Criterion(
                at_least=APART, reason="two seeds of one model differ by about a quarter"
            ),
            over="seeds",
            ratio=True,
        ),
        Claim(
            name="few-heads-worse",
            sentence="Up to the usual number, more heads lower the error.",
            quantity="error at b loops, fewest heads / usual number",
            criterion=Criterion(
                at_least=APART, reason="two seeds of one model differ by about a quarter"
            ),
            over="seeds",
            ratio=True,
        ),
        Claim(
            name="many-heads-worse",
            sentence="Beyond it, more heads of fewer dimensions raise the error.",
            quantity="error at b loops, most heads / usual number",
            criterion=Criterion(
                at_least=APART, reason="two seeds of one model differ by about a quarter"
            ),
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
def fig7(lab: Lab) -> Findings:
    """Error by loop of blocks of several shapes, and of standard models as levels."""
    shapes, runs = SHAPES[lab.scale], _runs(lab.scale)
    last = lab.choose(smoke=12, laptop=100, paper=100)
    by_loop: dict[str, list[Tensor]] = {label: [] for label in runs}
    measured: dict[str, list[Quantity]] = {
        "layers-faster": [], "more-loops-than-layers": [], "twenty-for-eight": [],
        "width-helps": [], "few-heads-worse": [], "many-heads-worse": [],
    }  # fmt: skip
    for seed in lab.seeds:
        config = lab.run(USUAL, seed).config
        task, points = config.task, config.points
        prompt = lab.draw(task, points, seed=seed)
        for label in runs:
            model = lab.model(label, seed)
            if label.startswith("standard"):
                errors = lab.errors(model, prompt, task)[:, -1:]  # (P, 1)
            else:
                errors = lab.errors(model, prompt, task, steps=last, at=points - 1)  # (P, K + 1)
            by_loop[label].append(errors)
        for claim, quantity in compare_shapes(
            lab, {label: several[-1] for label, several in by_loop.items()}, shapes, seed
        ).items():
            measured[claim].append(quantity)
    return Findings(tables=_tables(lab, by_loop, last, shapes.loops), measured=measured)


def compare_shapes(
    lab: Lab, errors: Mapping[str, Tensor], shapes: Shapes, seed: int
) -> dict[str, Quantity]:
    """What each claim comes to, from errors (P, K + 1) of loops and (P, 1) of stacks."""
    one, most = errors[USUAL], errors[f"looped L = {max(shapes.layers)}"]  # (P, K + 1) each
    length = one.shape[1]

    def faster(means: Tensor) -> Tensor:
        return loops_until(means[..., :length], NEAR) / loops_until(means[..., length:], NEAR)

    stacks = torch.cat([errors[f"standard L = {depth}"] for depth in shapes.depths], dim=1)
    both = torch.cat([one, stacks], dim=1)  # (P, K + 1 + depths)
    depths = torch.tensor(shapes.depths, dtype=torch.float64)  # (depths,)

    def needed(means: Tensor) -> Tensor:
        bars = means[..., length:]  # (.., depths)
        return loops_until(means[..., None, :length].expand(*bars.shape, length), bars)

    compared = shapes.depths.index(shapes.compared)
    found = {
        "layers-faster": bootstrapped(lab, faster, torch.cat([one, most], dim=1), seed=seed),
        "more-loops-than-layers": bootstrapped(
            lab, lambda means: (needed(means) - depths).amin(dim=-1), both, seed=seed
        ),
        "twenty-for-eight": bootstrapped(
            lab, lambda means: needed(means)[..., compared] / shapes.compared, both, seed=seed
        ),
    }
    usual = one[:, shapes.loops]  # (P,)
    for claim, label in (
        ("width-helps", f"looped D = {shapes.widths[0]}"),
        ("few-heads-worse", f"looped h = {shapes.heads[0]}"),
        ("many-heads-worse", f"looped h = {shapes.heads[-1]}"),
    ):
        found[claim] = times(lab, [errors[label][:, shapes.loops]], [usual], seed=seed)
    return found


def _tables(lab: Lab, by_loop: Mapping[str, list[Tensor]], last: int, trained_loops: int) -> Tables:
    shown = shown_loops(last, trained_loops)
    curves = [
        curve(lab, several, "loop", {"label": label}, places=[0])
        if label.startswith("standard")
        else curve(
            lab, [each[:, shown] for each in several], "loop", {"label": label}, places=shown
        )
        for label, several in by_loop.items()
    ]
    return {"by-loop": stacked(curves), "sizes": record({"trained loops": [trained_loops]})}
