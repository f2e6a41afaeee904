"""Figure 1: predictions improve from layer to layer, as Newton's do from iteration to iteration."""

import math
from collections.abc import Mapping, Sequence

import pandas as pd
import torch
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from torch import Tensor

from innerloop.analysis.drawing import draw_curves, legend, name, panels
from innerloop.analysis.error import squared_errors
from innerloop.core.iterate import trajectory
from innerloop.studies.claim import Claim, Criterion
from innerloop.studies.fu2023.layers import Reading, read_layers
from innerloop.studies.fu2023.matching import MODEL, newton, trends_of
from innerloop.studies.fu2023.trends import (
    NEWTON,
    best_table,
    gathered,
)
from innerloop.studies.lab import Lab
from innerloop.studies.quantity import Quantity, estimate
from innerloop.studies.runs import trained
from innerloop.studies.study import Findings, Tables, declare
from innerloop.studies.tables import curve, rows_where, stacked
from innerloop.training.config import RunConfig
from innerloop.training.families import Scale

SHOWN = 6
"""Layers that are drawn; the tables hold all."""
IMPROVES = Claim(
    name="layers-improve",
    sentence="The transformer's predictions improve from layer to layer.",
    quantity="error after the last example, last layer / layer in the middle",
    criterion=Criterion(at_most=0.5, reason="half is far more than two seeds differ by, a quarter"),
    over="prompts",
    ratio=True,
)
PROGRESSIVELY = Claim(
    name="progressively",
    sentence="They do so progressively: no layer is worse than the one before.",
    quantity="largest ratio of a layer's error to that of the layer before, after the last example",
    criterion=Criterion(
        at_most=1.1, reason="a tenth is less than what separates two seeds of one model"
    ),
    over="prompts",
    ratio=True,
)
LIKE_NEWTON = Claim(
    name="curves-like-newton",
    sentence="Newton's errors improve with its iterations as those of the layers do.",
    quantity="difference of a layer's error by examples from that of its best-matching iteration, "
    "mean size over examples and the layers in which the error falls",
    criterion=Criterion(
        at_most=0.05,
        reason="in units of the error of predicting zero: about what can be told apart in a figure "
        "whose axis goes from 0 to 1",
    ),
    over="prompts",
)


def last_over_middle(lab: Lab, reading: Reading, seed: int) -> Quantity:
    """The error after the last example, last layer over the one in the middle."""
    last = reading.errors[:, :, -1]  # (A, P)
    return lab.ratio(last[-1], last[reading.layers // 2], seed=seed)


def largest_rise(lab: Lab, reading: Reading, seed: int) -> Quantity:
    """The largest ratio of a layer's error to that of the layer before, after the last example."""
    return estimate(
        lambda means: (means[..., 1:] / means[..., :-1]).amax(dim=-1),
        reading.errors[:, :, -1].T,  # (P, A)
        draws=lab.draws,
        generator=lab.generator("bootstrap", seed),
    )


def curves_apart(lab: Lab, reading: Reading, matched: Tensor, seed: int) -> Quantity:
    """The mean distance of the layers' mean errors from matched ones (A, P, n), where they fall."""
    layers = list(reading.falling)
    if not layers:
        return Quantity(math.nan, math.nan, math.nan)
    difference = (reading.errors - matched)[layers]  # (L, P, n)
    return estimate(
        lambda means: means.abs().mean(dim=-1),
        difference.transpose(0, 1).flatten(1),  # (P, L n)
        draws=lab.draws,
        generator=lab.generator("bootstrap", seed),
    )


def newton_errors(lab: Lab, reading: Reading, scale: Tensor) -> Tensor:
    """Newton's errors (C, P, n) on the same prompts, over the task's scale (n,)."""
    lab.tell("errors of Newton's method")
    with torch.no_grad():
        predictions = trajectory(newton(lab), reading.prompt).predictions  # (C, P, n, k)
    return squared_errors(predictions, reading.prompt) / scale


def layer_curves(lab: Lab, errors: Sequence[Tensor], label: str) -> pd.DataFrame:
    """Error by examples (A, P, n) a layer from the first on; one tensor a seed."""
    return stacked(
        [
            curve(
                lab, [each[layer] for each in errors], "examples", {"model": label, "layer": layer}
            )
            for layer in range(1, len(errors[0]))
        ]
    )


def draw_layers(axes: Axes, tables: Tables, label: str, order: Sequence[str]) -> None:
    """Error by examples of the layers in `order`; each has the same colour in every panel."""
    rows = rows_where(tables["by-examples"], {"model": label})
    rows = rows.assign(label=[f"layer {layer}" for layer in rows["layer"]])
    draw_curves(axes, rows.loc[rows["label"].isin(order), :], x="examples", order=order, log=False)
    name(axes, title=f"{label}, by layer", x="examples in the prompt", y="squared error / E[y²]")


def shown_layers(tables: Tables, label: str) -> list[str]:
    """Labels of some layers of a model at equal distances, with the first and the last."""
    rows = rows_where(tables["by-examples"], {"model": label})
    layers = int(rows["layer"].to_numpy().max())
    chosen = torch.linspace(1, layers, min(SHOWN, layers)).round().int().tolist()
    return [f"layer {layer}" for layer in chosen]


def draw_progression(axes: Sequence[Axes], tables: Tables, order: Sequence[str]) -> None:
    """The transformer by layer, and Newton's method at the best match of each."""
    shown = shown_layers(tables, MODEL)
    draw_layers(axes[0], tables, MODEL, order)
    draw_layers(axes[1], tables, NEWTON, order)
    best = rows_where(tables["best"], {"seed": 0, "measure": "SimE", "algorithm": NEWTON})
    steps = dict(zip((f"layer {layer}" for layer in best["layer"]), best["step"], strict=True))
    told = ", ".join(str(steps[label]) for label in shown)
    axes[1].set_title(f"{NEWTON}, best match: k = {told}", loc="left", fontsize=9)


def _fig1_runs(scale: Scale) -> Mapping[str, RunConfig]:
    return {MODEL: trained("standard-linear", scale), "LSTM": trained("lstm-linear", scale)}


def _draw_fig1(tables: Tables) -> Figure:
    figure, axes = panels(3, columns=3, size=(4.0, 3.3))
    order = shown_layers(tables, MODEL)
    draw_progression(axes[:2], tables, order)
    shown = shown_layers(tables, "LSTM")
    # Layers that only this panel shows take the colours after those of the others.
    together = [*order, *(label for label in shown if label not in order)]
    draw_layers(axes[2], tables, "LSTM", together)
    legend(figure, axes, columns=8)
    return figure


@declare(
    paper="fu2023",
    id="fig1",
    title="Predictions improve over a transformer's layers as over Newton's iterations",
    claims=(
        IMPROVES,
        PROGRESSIVELY,
        LIKE_NEWTON,
        Claim(
            name="lstm-flat",
            sentence="An LSTM's predictions do not improve from layer to layer.",
            quantity="error after the last example, last layer of the LSTM / its first",
            criterion=Criterion(
                at_least=0.8,
                reason="the paper finds the first layer equally good; two seeds differ by a "
                "quarter, which is 1/0.8",
            ),
            over="prompts",
            ratio=True,
        ),
    ),
    draw=_draw_fig1,
    runs=_fig1_runs,
    minutes={"smoke": 0.3, "laptop": 6, "paper": 3500},
    smaller={
        "smoke": "3 dimensions, 7 points, width 16, 2 layers, 20 steps.",
        "laptop": "5 dimensions, 11 points, width 64, 8 layers of the transformer and 4 of the "
        "LSTM, 2000 and 1500 steps of faster optimisers.",
    },
)
def fig1(lab: Lab) -> Findings:
    """Error by examples after every layer of both models, and after Newton's iterations."""
    measured: list[dict[str, Quantity]] = []
    best: list[pd.DataFrame] = []
    errors: dict[str, list[Tensor]] = {MODEL: [], NEWTON: [], "LSTM": []}
    for seed in lab.seeds:
        reading, lstm = read_layers(lab, MODEL, seed), read_layers(lab, "LSTM", seed)
        trend = trends_of(lab, reading, "SimE", {NEWTON: newton(lab)})[NEWTON]
        scale = lab.run(MODEL).config.task.scale_at(reading.prompt.points)  # (n,)
        matched = newton_errors(lab, reading, scale)[trend.best]  # (A, P, n)
        for label, each in ((MODEL, reading.errors), (NEWTON, matched), ("LSTM", lstm.errors)):
            errors[label].append(each)
        best.append(best_table([trend], seed))
        last = lstm.errors[:, :, -1]  # (A, P)
        measured.append(
            {
                IMPROVES.name: last_over_middle(lab, reading, seed),
                PROGRESSIVELY.name: largest_rise(lab, reading, seed),
                LIKE_NEWTON.name: curves_apart(lab, reading, matched, seed),
                "lstm-flat": lab.ratio(last[-1], last[1], seed=seed),
            }
        )
    return Findings(
        tables={
            "by-examples": stacked([layer_curves(lab, errors[key], key) for key in errors]),
            "best": stacked(best),
        },
        measured=gathered(measured),
    )
