"""Figure 1: predictions improve from layer to layer, as Newton's do from iteration to iteration."""

from collections.abc import Mapping, Sequence
from dataclasses import replace

import torch
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from torch import Tensor

from innerloop.analysis import Measured, drawing
from innerloop.analysis.drawing import ERROR, EXAMPLES
from innerloop.studies.claim import Claim, at_least, at_most
from innerloop.studies.fu2023 import layer_trends, model_layers
from innerloop.studies.fu2023.heatmaps import best_steps
from innerloop.studies.fu2023.model_layers import LSTM, MODEL, NEWTON
from innerloop.studies.lab import Lab
from innerloop.studies.study import Measures, Tables, declare

IMPROVES = Claim(
    name="layers-improve",
    sentence="The transformer's predictions improve from layer to layer.",
    quantity="error after the last example, last layer / layer in the middle",
    statistic=lambda m: _last(m)[..., -1] / _last(m)[..., (_last(m).shape[-1] - 1) // 2],
    criterion=at_most(0.5, "half is far more than two seeds differ by, a quarter"),
    ratio=True,
)
PROGRESSIVELY = Claim(
    name="progressively",
    sentence="They do so progressively: no layer is worse than the one before.",
    quantity="largest ratio of a layer's error to that of the layer before, after the last example",
    statistic=lambda m: (_last(m)[..., 1:] / _last(m)[..., :-1]).amax(dim=-1),
    criterion=at_most(1.1, "a tenth is less than what separates two seeds of one model"),
    ratio=True,
)


def _last(m: Mapping[str, Tensor], label: str = MODEL) -> Tensor:
    """The error after the last example, by layer, the embedding's first: (.., A)."""
    return m[label][..., -1]


def matched_errors(lab: Lab, layers: model_layers.Layers, best: Tensor) -> Measured:
    """Newton's errors on the same prompts after the best matches (L,), by layer and examples."""
    (newton,), task = model_layers.algorithms(lab, NEWTON).values(), lab.config(MODEL).task
    errors = lab.error(newton, layers.prompt, task, by="both", axis="layer", label=NEWTON)
    return replace(errors.at(layer=best.tolist()), ticks={"layer": range(1, len(best) + 1)})


def draw_layers(axes: Axes, tables: Tables, label: str, order: Sequence[str]) -> None:
    """Error by examples of the layers in `order`; each has the same colour in every panel."""
    rows = drawing.rows_where(tables["by-layer-examples"], {"label": label})
    rows = rows.assign(label=[f"layer {layer}" for layer in rows["layer"]])
    shown = rows.loc[rows["label"].isin(order), :]
    drawing.draw_curves(axes, shown, x="examples", order=order, log=False)
    drawing.name(axes, title=f"{label}, by layer", x=EXAMPLES, y=ERROR)


def shown_layers(tables: Tables, label: str) -> list[str]:
    """Labels of six layers of a model at equal distances, with the first and the last."""
    rows = drawing.rows_where(tables["by-layer-examples"], {"label": label})
    layers = int(rows["layer"].to_numpy().max())
    chosen = torch.linspace(1, layers, min(6, layers)).round().int().tolist()
    return [f"layer {layer}" for layer in chosen]


def draw_progression(axes: Sequence[Axes], tables: Tables, order: Sequence[str]) -> None:
    """The transformer by layer, and Newton's method at the best match of each."""
    draw_layers(axes[0], tables, MODEL, order)
    draw_layers(axes[1], tables, NEWTON, order)
    best = best_steps(tables, "SimE", NEWTON)
    steps = ", ".join(f"{step:.3g}" for layer, step in best.items() if f"layer {layer}" in order)
    axes[1].set_title(f"{NEWTON}, best match: k = {steps}", loc="left", fontsize=9)


def _draw_fig1(tables: Tables) -> Figure:
    figure, axes = drawing.panels(3, columns=3, size=(4.0, 3.3))
    order = shown_layers(tables, MODEL)
    draw_progression(axes[:2], tables, order)
    # Layers that only this panel shows take the colours after those of the others.
    draw_layers(axes[2], tables, LSTM, list(dict.fromkeys(order + shown_layers(tables, LSTM))))
    drawing.legend(figure, axes, columns=8)
    return figure


@declare(
    paper="fu2023",
    id="fig1",
    title="Predictions improve over a transformer's layers as over Newton's iterations",
    claims=(
        IMPROVES,
        PROGRESSIVELY,
        Claim(
            name="curves-like-newton",
            sentence="Newton's errors improve with its iterations as those of the layers do.",
            quantity="difference of a layer's error by examples from that of its best-matching "
            "iteration, mean size over examples and the layers in which the error falls",
            statistic=lambda m: layer_trends.over_layers(
                (m[MODEL][..., 1:, :] - m[NEWTON]).abs().mean(dim=-1), m["falling"]
            ),
            criterion=at_most(
                0.05,
                "in units of the error of predicting zero: about what can be told apart in a "
                "figure whose axis goes from 0 to 1",
            ),
        ),
        Claim(
            name="lstm-flat",
            sentence="An LSTM's predictions do not improve from layer to layer.",
            quantity="error after the last example, last layer of the LSTM / its first",
            statistic=lambda m: _last(m, LSTM)[..., -1] / _last(m, LSTM)[..., 1],
            criterion=at_least(
                0.8,
                "the paper finds the first layer equally good; two seeds differ by a quarter, "
                "which is 1/0.8",
            ),
            ratio=True,
        ),
    ),
    draw=_draw_fig1,
    runs=model_layers.both_runs,
    minutes={"smoke": 0.3, "laptop": 6, "paper": 3500},
    smaller={
        "smoke": "3 dimensions, 7 points, width 16, 2 layers, 20 steps.",
        "laptop": "5 dimensions, 11 points, width 64, 8 layers of the transformer and 4 of the "
        "LSTM, 2000 and 1500 steps of faster optimisers.",
    },
)
def fig1(lab: Lab) -> Measures:
    """Error by examples after every layer of both models, and after Newton's iterations."""
    layers, lstm = (model_layers.read_layers(lab, label) for label in (MODEL, LSTM))
    newton = model_layers.algorithms(lab, NEWTON)
    (trend,) = layer_trends.trends_of(lab, layers, newton, "SimE").values()
    matched = matched_errors(lab, layers, trend.best)
    return {MODEL: layers.errors, NEWTON: matched, LSTM: lstm.errors, **trend.by_layer()}
