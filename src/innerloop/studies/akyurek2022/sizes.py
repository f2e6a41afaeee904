"""Figure 3: which algorithm models of several depths and widths agree with.

Shapes: P prompts.
"""

from collections.abc import Mapping, Sequence

import numpy as np
import pandas as pd
import torch
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from torch import Tensor

from innerloop.analysis.drawing import COLOURS
from innerloop.studies.akyurek2022.agreement import (
    ALGORITHMS,
    LEAST_SQUARES,
    RIDGE,
    STEP,
    algorithms,
    nearer,
    prediction_distances,
)
from innerloop.studies.claim import Claim, Criterion
from innerloop.analysis.drawing import draw_curves, legend, name, panels
from innerloop.studies.lab import Lab
from innerloop.studies.quantity import Quantity, estimate
from innerloop.studies.runs import standard, trained
from innerloop.studies.study import Findings, Tables, declare
from innerloop.studies.tables import curve, rows_where, stacked
from innerloop.training.config import RunConfig
from innerloop.training.families import Scale

NEARER = Criterion(at_most=1.0, reason="nearer, however little: which one is best is the claim")
DEPTHS: dict[Scale, tuple[int, ...]] = {
    "smoke": (1, 2),
    "laptop": (1, 2, 4, 8),
    "paper": (1, 2, 4, 8, 12, 16),
}
WIDTHS: dict[Scale, tuple[int, ...]] = {
    "smoke": (8, 16),
    "laptop": (16, 32, 64),
    "paper": (16, 32, 64, 256, 512, 1024),
}
MODEST = 1
"""Which of the widths is a modest one: 32, the second."""
NOTES = (
    "The paper's text defines its step of gradient descent as one step on the batch of all "
    "examples, and that is what is judged. The code that its authors have published makes a step "
    "an example instead; one pass of SGD stands beside it and counts among the others.",
)


def _sized(scale: Scale, *, layers: int | None = None, width: int | None = None) -> RunConfig:
    """The model with another depth or width; of the paper's size, that of its main model."""
    if scale == "paper":
        depth, size = layers or 16, width or 512
        return trained(
            "akyurek-linear",
            scale,
            f"model.backbone.layers={depth}",
            f"model.backbone.width={size}",
        )
    return standard(scale, layers=layers or DEPTHS[scale][-1], width=width)


def _fig3_runs(scale: Scale) -> Mapping[str, RunConfig]:
    depths = {f"layers {layers}": _sized(scale, layers=layers) for layers in DEPTHS[scale]}
    return depths | {f"width {width}": _sized(scale, width=width) for width in WIDTHS[scale]}


def _draw_fig3(tables: Tables) -> Figure:
    figure, (left, right) = panels(2, columns=2, size=(4.4, 3.6))
    for axes, kind, title in (
        (left, "width", "by width, all layers"),
        (right, "layers", "by depth, full width"),
    ):
        rows = rows_where(tables["by-size"], {"kind": kind})
        draw_curves(axes, rows, x="size", order=ALGORITHMS)
        sizes = sorted(set(rows["size"].to_numpy(int).tolist()))
        axes.set_xscale("log", base=2)
        axes.set_xticks(sizes, [str(size) for size in sizes])
        axes.set_xticks([], minor=True)
        _shade_nearest(axes, rows, sizes)
        name(axes, title=title, x=kind, y="SPD / d, mean over prefixes")
    legend(figure, (left, right), columns=3)
    return figure


def _shade_nearest(axes: Axes, rows: pd.DataFrame, sizes: Sequence[int]) -> None:
    """The background in the colour of the algorithm that is nearest at each size."""
    places = np.array(sizes, dtype=float)
    between = np.sqrt(places[1:] * places[:-1])
    edges = [places[0] / 1.1, *between, places[-1] * 1.1]
    for size, left, right in zip(sizes, edges, edges[1:], strict=False):
        own = rows.loc[rows["size"] == size, :]
        nearest = str(own.loc[own["mean"].idxmin(), "label"])
        colour = COLOURS[ALGORITHMS.index(nearest)]
        axes.axvspan(left, right, color=colour, alpha=0.12, linewidth=0, zorder=0)
    axes.set_xlim(edges[0], edges[-1])


@declare(
    paper="akyurek2022",
    id="fig3",
    title="With depth a model passes from gradient descent to ridge to least squares",
    claims=(
        Claim(
            name="shallow",
            sentence="Very shallow models are nearest to one step of gradient descent.",
            quantity="SPD from one step / SPD from the nearest other, one pass of SGD among them, "
            "one layer",
            criterion=NEARER,
            over="prompts",
            ratio=True,
        ),
        Claim(
            name="deeper",
            sentence="Slightly deeper models are nearest to ridge regression.",
            quantity="SPD from ridge 0.1 / SPD from the nearest other, the depth after the first",
            criterion=NEARER,
            over="prompts",
            ratio=True,
        ),
        Claim(
            name="deepest",
            sentence="The deepest models are nearest to least squares.",
            quantity="SPD from least squares / SPD from the nearest other, most layers",
            criterion=NEARER,
            over="prompts",
            ratio=True,
        ),
        Claim(
            name="modest-width",
            sentence="Modest widths of 32 are enough to match least squares.",
            quantity="SPD from least squares / SPD from the nearest other, width 32",
            criterion=NEARER,
            over="prompts",
            ratio=True,
        ),
        Claim(
            name="width-against-depth",
            sentence="Width has no strong effect, beside that of depth.",
            quantity="SPD from least squares, second width / full width, over the same of the "
            "second depth / full depth",
            criterion=Criterion(at_most=1.0, reason="the weaker effect, however little"),
            over="seeds",
            ratio=True,
        ),
    ),
    draw=_draw_fig3,
    runs=_fig3_runs,
    minutes={"smoke": 0.3, "laptop": 22, "paper": 30_000},
    smaller={
        "smoke": "3 dimensions, 1 and 2 layers, widths 8 and 16, 20 steps.",
        "laptop": "5 dimensions instead of 8, 10 examples instead of 40, 1 to 8 layers instead of "
        "16, widths 16 to 64 instead of 1024, 2000 steps of a faster optimiser; heads are not "
        "chosen anew for each size.",
    },
)
def fig3(lab: Lab) -> Findings:
    """SPD over all prefixes, for each depth and each width."""
    depths, widths = DEPTHS[lab.scale], WIDTHS[lab.scale]
    sizes = [("layers", size) for size in depths] + [("width", size) for size in widths]
    spd: dict[tuple[str, int, str], list[Tensor]] = {}
    measured: dict[str, list[Quantity]] = {claim.name: [] for claim in fig3.claims}
    for seed in lab.seeds:
        config = lab.run(f"layers {depths[0]}", seed).config
        others = algorithms(lab, config.task, config.points, seed=seed)
        prompt = lab.draw(config.task, config.points, seed=seed)
        found: dict[tuple[str, int], dict[str, Tensor]] = {}
        for kind, size in sizes:
            model = lab.model(f"{kind} {size}", seed)
            distances = prediction_distances(lab, model, others, prompt, config.task)
            found[kind, size] = distances
            for label, values in distances.items():
                own = values[:, 1:].mean(dim=1, keepdim=True)  # (P, 1)
                spd.setdefault((kind, size, label), []).append(own)
        for claim, quantity in phases(lab, found, seed).items():
            measured[claim].append(quantity)
    curves = [
        curve(lab, values, "size", {"kind": kind, "label": label}, places=[size])
        for (kind, size, label), values in spd.items()
    ]
    return Findings(tables={"by-size": stacked(curves)}, measured=measured, notes=NOTES)


def phases(
    lab: Lab, found: Mapping[tuple[str, int], Mapping[str, Tensor]], seed: int
) -> dict[str, Quantity]:
    """What each claim of figure 3 comes to."""
    depths, widths = DEPTHS[lab.scale], WIDTHS[lab.scale]
    four = [
        ("width", widths[MODEST]), ("width", widths[-1]), ("layers", depths[1]),
        ("layers", depths[-1]),
    ]  # fmt: skip
    values = torch.stack(
        [found[key][LEAST_SQUARES][:, 1:].mean(dim=1) for key in four], dim=1
    )  # (P, 4)
    against = estimate(
        lambda means: means[..., 0] / means[..., 1] / (means[..., 2] / means[..., 3]), values,
        draws=lab.draws, generator=lab.generator("bootstrap", seed),
    )  # fmt: skip
    return {
        "shallow": nearer(lab, found["layers", depths[0]], (STEP,), seed),
        # "Slightly deeper": the next depth, not the one of all that suits best.
        "deeper": nearer(lab, found["layers", depths[1]], (RIDGE,), seed),
        "deepest": nearer(lab, found["layers", depths[-1]], (LEAST_SQUARES,), seed),
        "modest-width": nearer(lab, found["width", widths[MODEST]], (LEAST_SQUARES,), seed),
        "width-against-depth": against,
    }
