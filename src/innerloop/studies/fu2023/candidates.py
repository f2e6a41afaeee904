"""Figures 7, 9 and 10: of all candidate algorithms, layers are most like Newton's method.

Figure 7 and 10 by induced weights (SimW), figure 9 by errors (SimE) as well.
"""

from collections.abc import Mapping
from typing import Any

import pandas as pd
from matplotlib.figure import Figure
from torch import Tensor

from innerloop.analysis.drawing import draw_curves, legend, name, panels
from innerloop.analysis.similarity import weight_cosines
from innerloop.core.learner import Learner
from innerloop.learners import OLS, GradientDescent, Newton, OnlineGradientDescent
from innerloop.studies.claim import Claim, Criterion
from innerloop.studies.fu2023.heatmaps import draw_matches, draw_similarity
from innerloop.studies.fu2023.layers import (
    Measure,
    Reading,
    induced_by_layer,
    read_layers,
    similarities,
    weight_directions,
)
from innerloop.studies.fu2023.matching import (
    MODEL,
    SMALLER,
    descent_steps,
    newton,
    standard_runs,
    trends_of,
)
from innerloop.studies.fu2023.trends import (
    DESCENT,
    NEWTON,
    Trend,
    best_table,
    fit_table,
    gathered,
    similarity_table,
    too_few,
    trend_claims,
    trend_of,
    trend_quantities,
)
from innerloop.studies.lab import Lab
from innerloop.studies.quantity import Quantity
from innerloop.studies.study import Findings, Tables, declare
from innerloop.studies.tables import curve, rows_where, stacked

ONLINE, LEAST = "online gradient descent", "least squares"
ALGORITHMS = (NEWTON, DESCENT, ONLINE, LEAST)
EARLY = 2
"""The layer of figure 10 that has learned nothing yet."""


def _draw_fig7(tables: Tables) -> Figure:
    layers = list(dict.fromkeys(tables["by-examples"]["layer"]))
    figure, axes = panels(3 + len(layers), columns=3, size=(4.0, 3.3))
    draw_similarity(axes[0], tables, "SimW", NEWTON)
    draw_similarity(axes[1], tables, "SimW", DESCENT)
    draw_matches(axes[2], tables, "SimW")
    for panel, layer in zip(axes[3:], layers, strict=True):
        rows = rows_where(tables["by-examples"], {"layer": layer})
        draw_curves(panel, rows, x="examples", order=ALGORITHMS, log=False)
        if rows["mean"].to_numpy(float).max() < 0.5:  # like none: not to be seen in close-up
            panel.set_ylim(-0.1, 1.05)
        steps = rows.groupby("label", sort=False)["step"].first()
        told = f"k = {steps[NEWTON]} of Newton, {steps[DESCENT]} of descent"
        name(panel, title=f"layer {layer}: {told}", x="examples in the prompt", y="SimW")
    legend(figure, axes)
    return figure


@declare(
    paper="fu2023",
    id="fig7",
    also=("fig10",),
    title="By induced weights, too, layers match Newton's iterations linearly",
    claims=(
        *trend_claims("SimW"),
        Claim(
            name="layer-2",
            sentence="Layer 2 has learned nothing yet: it has no similarity to any algorithm.",
            quantity=f"SimW of layer {EARLY} with the algorithm that it is most like",
            criterion=Criterion(
                at_most=0.2,
                reason="the paper says zero; at a cosine of 0.2 a twenty-fifth of the square is "
                "shared",
            ),
            over="prompts",
            paper="0",
        ),
        Claim(
            name="last-layer-least-squares",
            sentence="The last layer computes least squares, given more than one example.",
            quantity="SimW of the last layer with least squares, mean over two examples and more",
            criterion=Criterion(
                at_least=0.9, reason="the paper's curve is near 1 but for a dip at d examples"
            ),
            over="prompts",
        ),
        Claim(
            name="dip",
            sentence="At d examples least squares is less like the model than Newton's method.",
            quantity="SimW of the last layer with its best Newton iteration, less that with least "
            "squares, at d examples",
            criterion=Criterion(
                at_least=0.0, reason="the paper sees a dip for least squares alone"
            ),
            over="prompts",
        ),
    ),
    draw=_draw_fig7,
    runs=standard_runs,
    minutes={"smoke": 0.2, "laptop": 6, "paper": 2500},
    smaller=SMALLER,
)
def fig7(lab: Lab) -> Findings:
    """SimW of every layer with every step, and by the number of examples at three layers."""
    measured: list[dict[str, Quantity]] = []
    best: list[pd.DataFrame] = []
    fits: list[pd.DataFrame] = []
    notes: list[str] = []
    trends: list[Trend] = []
    curves: list[pd.DataFrame] = []
    for seed in lab.seeds:
        reading = read_layers(lab, MODEL, seed)
        lab.tell("induced weights")
        weights = induced_by_layer(reading.learner, reading.prompt, reading.queries)
        own = weight_directions(weights)  # (A, P, m)
        found = {
            key: trend_of(
                similarities(own, algorithm, reading.prompt, "SimW"), "SimW", key, reading.falling
            )
            for key, algorithm in _algorithms(lab).items()
        }
        by_examples = {
            layer: _by_examples(reading, weights[layer], found, layer)
            for layer in _shown_layers(reading.layers)
        }
        both = [found[NEWTON], found[DESCENT]]
        best.append(best_table(both, seed))
        fits.append(fit_table(both, seed))
        notes += too_few(both, seed)
        last, dims = by_examples[reading.layers], reading.prompt.dims
        measured.append(
            {
                **trend_quantities(lab, found[NEWTON], found[DESCENT], seed),
                "layer-2": most_like(lab, found, EARLY, seed),
                "last-layer-least-squares": lab.mean(last[LEAST][:, 2:].mean(dim=1), seed=seed),
                "dip": lab.mean(last[NEWTON][:, dims] - last[LEAST][:, dims], seed=seed),
            }
        )
        if not trends:
            trends = both
            curves = _curves_by_examples(lab, by_examples, found)
    return Findings(
        tables={
            "similarities": similarity_table(trends),
            "best": stacked(best),
            "fits": stacked(fits),
            "by-examples": stacked(curves),
        },
        measured=gathered(measured),
        notes=(
            "Gradient descent has the rate 1/L of each prefix.",
            f"The paper's layer 2 is one of 12, here of {len(trends[0].best) - 1}.",
            *notes,
        ),
    )


def _shown_layers(layers: int) -> list[int]:
    """The layers of figure 10: 2, 3 and the last."""
    return sorted({EARLY, min(EARLY + 1, layers), layers})


def _algorithms(lab: Lab) -> dict[str, Learner[Any]]:
    """All that layers are compared with; gradient descent at 1/L of each prefix."""
    return {
        NEWTON: newton(lab),
        DESCENT: GradientDescent(descent_steps(lab)),
        ONLINE: OnlineGradientDescent(),
        LEAST: OLS(),
    }


def _by_examples(
    reading: Reading, weights: Tensor, found: Mapping[str, Trend], layer: int
) -> dict[str, Tensor]:
    """Cosines (P, n) of a layer's weights (P, n, d, k) with those of its best matches."""
    cosines: dict[str, Tensor] = {}
    for key, trend in found.items():
        step = int(trend.best[layer])
        algorithm = {
            NEWTON: Newton(step), DESCENT: GradientDescent(step), ONLINE: OnlineGradientDescent(),
            LEAST: OLS(),
        }[key]  # fmt: skip
        cosines[key] = weight_cosines(weights, algorithm.weights(reading.prompt))  # (P, n)
    return cosines


def _curves_by_examples(
    lab: Lab, found: Mapping[int, Mapping[str, Tensor]], trends: Mapping[str, Trend]
) -> list[pd.DataFrame]:
    """Curves from one example on, a layer and algorithm."""
    curves: list[pd.DataFrame] = []
    for layer, cosines in sorted(found.items()):
        for key, each in cosines.items():
            keys = {"layer": layer, "label": key, "step": int(trends[key].best[layer])}
            places = range(1, each.shape[1])
            curves.append(curve(lab, each[:, 1:], "examples", keys, places=places))
    return curves


def most_like(lab: Lab, found: Mapping[str, Trend], layer: int, seed: int) -> Quantity:
    """The similarity of a layer with the algorithm that it is most like."""
    each = [trend.at_best()[:, layer] for trend in found.values()]  # (P,) each
    return lab.mean(max(each, key=lambda values: float(values.mean())), seed=seed)


def _draw_fig9(tables: Tables) -> Figure:
    figure, axes = panels(2, columns=2, size=(4.4, 3.3))
    for panel, measure in zip(axes, ("SimE", "SimW"), strict=True):
        rows = rows_where(tables["by-layer"], {"measure": measure})
        draw_curves(panel, rows, x="layer", order=ALGORITHMS, log=False)
        name(panel, title=f"{measure} with the best match", x="layer", y=measure)
    legend(figure, axes)
    return figure


def _most_like_newton(other: str, measure: Measure = "SimE") -> Claim:
    """Newton's method is nearer than another."""
    words = other.replace(" ", "-") if measure == "SimE" else f"{other.replace(' ', '-')}-weights"
    return Claim(
        name=f"not-{words}",
        sentence=f"The transformer resembles Newton's method more than {other} ({measure}).",
        quantity=f"{measure} with Newton's method less {measure} with {other}, each at its best "
        "match, mean over the layers in which the error falls",
        criterion=Criterion(
            at_least=0.0, reason="the paper's curve of Newton's method is the uppermost"
        ),
        over="prompts",
    )


@declare(
    paper="fu2023",
    id="fig9",
    title="Of the candidate algorithms, the transformer resembles Newton's method the most",
    claims=(
        _most_like_newton(DESCENT),
        _most_like_newton(ONLINE),
        _most_like_newton(LEAST),
        _most_like_newton(DESCENT, "SimW"),
    ),
    draw=_draw_fig9,
    runs=standard_runs,
    minutes={"smoke": 0.2, "laptop": 6, "paper": 2500},
    smaller=SMALLER,
)
def fig9(lab: Lab) -> Findings:
    """The similarity of each layer with its best match in every candidate algorithm."""
    measured: list[dict[str, Quantity]] = []
    by_layer: dict[tuple[Measure, str], list[Tensor]] = {}
    for seed in lab.seeds:
        reading = read_layers(lab, MODEL, seed)
        layers = list(reading.falling) or [reading.layers]
        differences: dict[str, Quantity] = {}
        for measure in ("SimE", "SimW"):
            found = trends_of(lab, reading, measure, _algorithms(lab))
            for key, trend in found.items():
                by_layer.setdefault((measure, key), []).append(trend.at_best()[:, 1:])  # (P, L)
            own = found[NEWTON].at_best()[:, layers].mean(dim=1)  # (P,)
            for other in (DESCENT, ONLINE, LEAST) if measure == "SimE" else (DESCENT,):
                theirs = found[other].at_best()[:, layers].mean(dim=1)  # (P,)
                claim = _most_like_newton(other, measure).name
                differences[claim] = lab.mean(own - theirs, seed=seed)
        measured.append(differences)
    numbers = range(1, by_layer["SimE", NEWTON][0].shape[1] + 1)
    curves = [
        curve(lab, values, "layer", {"measure": measure, "label": key}, places=numbers)
        for (measure, key), values in by_layer.items()
    ]
    return Findings(
        tables={"by-layer": stacked(curves)},
        measured=gathered(measured),
        notes=(
            "Gradient descent has the rate 1/L of each prefix. It has far more steps to choose a "
            "best match from than Newton's method has, which is in its favour.",
        ),
    )
