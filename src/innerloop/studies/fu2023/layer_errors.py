"""Figure 1: predictions improve from layer to layer, as Newton's do from iteration to iteration."""

from collections.abc import Mapping, Sequence
from dataclasses import replace

import torch
from matplotlib import colormaps
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from torch import Tensor

from innerloop.analysis import Measured, drawing
from innerloop.analysis.drawing import ERROR, EXAMPLES
from innerloop.studies.claim import Claim, Premise, at_least, at_most
from innerloop.studies.fu2023 import layer_trends, model_layers
from innerloop.studies.fu2023.heatmaps import best_steps
from innerloop.studies.fu2023.model_layers import DESCENT, LSTM, MODEL, NEWTON, SMALLER_BOTH
from innerloop.studies.fu2023.stand_ins import (
    GROWING,
    HALF,
    LAST_ERROR,
    LEARNED,
    MANY,
    NULLS,
    TOO_LONG,
    UNTRAINED,
)
from innerloop.studies.lab import Lab
from innerloop.studies.nulls import swapped, untrained
from innerloop.studies.study import Measures, Tables, declare

IMPROVES = Claim(
    name="layers-improve",
    sentence="The transformer's predictions improve from layer to layer.",
    quantity="error after the last example, last layer / layer in the middle",
    statistic=lambda m: _last(m)[..., -1] / _last(m)[..., (_last(m).shape[-1] - 1) // 2],
    criterion=at_most(0.5, "half is far more than two seeds differ by, a quarter"),
    ratio=True,
    premise=LEARNED,
    excludes=(UNTRAINED, HALF),
)
PROGRESSIVELY = Claim(
    name="progressively",
    sentence="They do so progressively: no layer is worse than the one before.",
    quantity="largest ratio of a layer's error to that of the layer before, after the last example",
    statistic=lambda m: (_last(m)[..., 1:] / _last(m)[..., :-1]).amax(dim=-1),
    criterion=at_most(1.1, "a tenth is less than what separates two seeds of one model"),
    ratio=True,
    premise=LEARNED,
    excludes=(UNTRAINED, TOO_LONG),
)
SOME_LEARNED = Premise(
    quantity="the LSTM's error after the last example",
    criterion=at_most(
        0.5,
        "half of what predicting zero leaves: an LSTM that has learned nothing is as bad after "
        "every layer",
    ),
    statistic=lambda m: _last(m, LSTM)[..., -1],
)
SHADES = colormaps["viridis_r"]
"""Of layers: the later, the darker."""
AS_LSTM = "the transformer in the place of the LSTM"
UNTRAINED_LSTM = "an untrained LSTM"


def _last(m: Mapping[str, Tensor], label: str = MODEL) -> Tensor:
    """The error after the last example, by layer, the embedding's first: (.., A)."""
    return m[label][..., -1]


def matched_errors(
    lab: Lab, layers: model_layers.Layers, best: Tensor, algorithm: str = NEWTON
) -> Measured:
    """An algorithm's errors on the same prompts after the best matches (L,), by layer."""
    (learner,), task = model_layers.algorithms(lab, algorithm).values(), lab.config(MODEL).task
    errors = lab.error(learner, layers.prompt, task, by="both", axis="layer", label=algorithm)
    return replace(errors.at(layer=best.tolist()), ticks={"layer": range(1, len(best) + 1)})


def _away(m: Mapping[str, Tensor], algorithm: str) -> Tensor:
    """The distance (..) of layers' errors by examples from those of an algorithm's best matches."""
    apart = (m[MODEL][..., 1:, :] - m[algorithm]).abs().mean(dim=-1)  # (.., L)
    return layer_trends.over_layers(apart, m["falling"])


def draw_layers(axes: Axes, tables: Tables, label: str) -> list[int]:
    """Error by examples of some layers, from the first, light, to the last, dark; which they are.

    Six at most, at equal distances, with the first and the last.
    """
    rows = drawing.rows_where(tables["by-layer-examples"], {"label": label})
    layers = int(rows["layer"].to_numpy().max())
    shown = [int(layer) for layer in torch.linspace(1, layers, min(6, layers)).round()]
    for place, layer in enumerate(shown):
        own = drawing.rows_where(rows, {"layer": layer})
        examples, mean, low, high = (
            own[key].to_numpy(float) for key in ("examples", "mean", "low", "high")
        )
        colour = SHADES(0.15 + 0.8 * place / max(1, len(shown) - 1))
        marker = drawing.MARKERS[place]
        axes.plot(
            examples, mean, color=colour, linewidth=1.5, marker=marker, markersize=3.5,
            markevery=max(1, len(examples) // 8), label=f"layer {layer}",
        )  # fmt: skip
        axes.fill_between(examples, low, high, color=colour, alpha=0.2, linewidth=0)
    drawing.plain(axes)
    axes.set_ylim(bottom=0)
    axes.legend(fontsize=7, frameon=False)
    drawing.name(axes, title=f"{label}, by layer", x=EXAMPLES, y=ERROR)
    return shown


def draw_progression(axes: Sequence[Axes], tables: Tables) -> None:
    """The transformer by layer, and Newton's method at the best match of each."""
    draw_layers(axes[0], tables, MODEL)
    shown = draw_layers(axes[1], tables, NEWTON)
    best = best_steps(tables, "SimE", NEWTON)
    steps = ", ".join(f"{best[layer]:.3g}" for layer in shown)
    title = f"{NEWTON}, best match (mean): k = {steps}"
    drawing.name(axes[1], title=title, x=EXAMPLES, y=ERROR)


def _draw_fig1(tables: Tables) -> Figure:
    figure, axes = drawing.panels(3, columns=3, size=(4.0, 3.3), legend=0.0)
    draw_progression(axes[:2], tables)
    draw_layers(axes[2], tables, LSTM)
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
            sentence="Newton's errors improve with its iterations in a way that closely resembles "
            "the transformer's layers: more closely than gradient descent's.",
            quantity="difference of a layer's error by examples from that of its best-matching "
            "iteration, less that from its best-matching gradient step; mean size over examples "
            "and the layers in which the error falls",
            statistic=lambda m: _away(m, NEWTON) - _away(m, DESCENT),
            criterion=at_most(
                0.0,
                "a small difference alone says nothing: gradient descent with enough steps is "
                "close to Newton's method as well",
            ),
            premise=LEARNED,
            excludes=(UNTRAINED, MANY, GROWING),
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
            premise=SOME_LEARNED,
            excludes=(UNTRAINED_LSTM, AS_LSTM),
        ),
    ),
    nulls={
        **{name: NULLS[name] for name in (UNTRAINED, MANY, GROWING, HALF, TOO_LONG)},
        UNTRAINED_LSTM: untrained(LSTM),
        AS_LSTM: swapped({LSTM: MODEL}),
    },
    draw=_draw_fig1,
    runs=model_layers.both_runs,
    minutes={"smoke": 0.3, "laptop": 8, "desk": 300, "paper": 3500},
    smaller=SMALLER_BOTH,
    notes=(layer_trends.RATE,),
)
def fig1(lab: Lab) -> Measures:
    """Error by examples after every layer of both models, and after steps of both algorithms."""
    layers, lstm = (model_layers.read_layers(lab, label) for label in (MODEL, LSTM))
    known = model_layers.algorithms(lab, NEWTON, DESCENT)
    trends = layer_trends.trends_of(lab, layers, known, "SimE")
    matched = {
        label: matched_errors(lab, layers, trend.best, label)
        for (_, label), trend in trends.items()
    }
    by_layer = {name: own for trend in trends.values() for name, own in trend.by_layer().items()}
    return {
        MODEL: layers.errors, LSTM: lstm.errors, **matched, **by_layer,
        LAST_ERROR: layers.last_error,
    }  # fmt: skip
