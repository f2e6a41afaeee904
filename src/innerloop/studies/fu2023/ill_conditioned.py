"""Figures 4, 11, 12, 13: on ill-conditioned data, too, layers are like Newton's iterations."""

from collections.abc import Mapping
from dataclasses import replace

import torch
from matplotlib.figure import Figure
from torch import Tensor

from innerloop.analysis import Measured, drawing
from innerloop.analysis.drawing import ERROR, EXAMPLES
from innerloop.learners import OLS, GradientDescent, Newton
from innerloop.studies.claim import Claim, Premise, at_least, at_most
from innerloop.studies.fu2023 import layer_errors, layer_trends, model_layers
from innerloop.studies.fu2023.heatmaps import ORDER, draw_matches, draw_similarity
from innerloop.studies.fu2023.layer_trends import MEASURES
from innerloop.studies.fu2023.model_layers import DESCENT, LEAST, MODEL, NEWTON
from innerloop.studies.fu2023.stand_ins import (
    FIVE,
    LAST_ERROR,
    UNTRAINED,
    excluded_by,
    in_strides,
    on_premise,
)
from innerloop.studies.lab import Lab
from innerloop.studies.runs import trained
from innerloop.studies.study import Measures, Tables, declare
from innerloop.tasks.covariance import ill_conditioned_spectrum

CONDITION = 100.0
"""The condition number of the inputs' covariance."""
MATCHED = "Newton, best match"


def _draw_fig4(tables: Tables) -> Figure:
    figure, axes = drawing.panels(8, columns=4, size=(3.9, 3.2), legend=0.9)
    last = tables["by-examples"]
    # What is in other panels, too, has the same colour there.
    known = {MODEL, MATCHED, LEAST}
    runs = [label for label in dict.fromkeys(last["label"]) if label not in known]
    alike = {NEWTON: MATCHED, DESCENT: runs[-1]}
    order = [*(alike.get(label, label) for label in ORDER), *runs[:-1]]
    drawing.draw_curves(axes[0], last, x="examples", order=order, floor=1e-4)
    drawing.name(axes[0], title="last layer and algorithms", x=EXAMPLES, y=ERROR)
    layer_errors.draw_progression(axes[1:3], tables)
    draw_matches(axes[3], tables, "SimE")
    for place, measure in zip((4, 6), MEASURES, strict=True):
        draw_similarity(axes[place], tables, measure, NEWTON)
        draw_similarity(axes[place + 1], tables, measure, DESCENT, logarithmic=True)
    drawing.legend(figure, axes, columns=5)
    return figure


def steps_to_reach(errors: Tensor, goal: Tensor) -> Tensor:
    """The first step whose error (.., C) is at most the goal (..); infinity where none is."""
    reached = errors <= goal[..., None]  # (.., C)
    first = reached.int().argmax(dim=-1).double()  # (..)
    return torch.where(reached.any(dim=-1), first, torch.inf)


def _steps_per_layer(m: Mapping[str, Tensor]) -> Tensor:
    """Gradient steps (..) to the model's error after the last example, over its layers."""
    own = m[MODEL][..., -1]  # (.., A)
    return steps_to_reach(m["by gradient step"], own[..., -1]) / (own.shape[-1] - 1)


def small_directions(dims: int) -> float:
    """The part of E[y^2] that the small eigenvalues of the inputs' covariance have."""
    spectrum = ill_conditioned_spectrum(dims, CONDITION)  # (d,)
    return float(spectrum[spectrum < CONDITION].sum() / spectrum.sum())


SMALL_LEARNED = Premise(
    quantity="the transformer's error after the last example, over that of a learner that knows "
    "the large directions of the inputs and predicts zero of the small ones",
    criterion=at_most(
        0.5,
        "half: it has learned the small directions, too, without which the data are not "
        "ill-conditioned",
    ),
    statistic=lambda m: m[LAST_ERROR] / m["small directions"],
)
ONE_STEP = "gradient descent, 1 step per layer"

_CLAIMS = on_premise(
    SMALL_LEARNED,
    layer_errors.IMPROVES,
    layer_errors.PROGRESSIVELY,
    *layer_trends.trend_claims("SimE"),
    *layer_trends.trend_claims("SimW"),
    replace(
        layer_trends.nearer_newton(DESCENT),
        name="not-descent",
        sentence="The transformer is more like Newton's method than gradient descent.",
        criterion=at_least(0.0, "it says so of the heatmaps"),
    ),
    Claim(
        name="descent-slow",
        sentence="Gradient descent needs far more steps than the model has layers.",
        quantity="gradient steps until the error after the last example is as low as the "
        "model's, over its layers",
        statistic=_steps_per_layer,
        criterion=at_least(
            10.0,
            "a layer of attention makes one step; the paper's 800 steps for 12 layers are 67",
        ),
        ratio=True,
        paper="800/12",
        excludes=(UNTRAINED, ONE_STEP, FIVE),
    ),
)


@declare(
    paper="fu2023",
    id="fig4",
    also=("fig11", "fig12", "fig13"),
    title="On ill-conditioned data transformers are still like Newton's method",
    claims=_CLAIMS,
    nulls={**excluded_by(_CLAIMS), ONE_STEP: in_strides(lambda _, layers: [1] * layers)},
    draw=_draw_fig4,
    runs=lambda scale: {MODEL: trained("standard-ill-conditioned", scale)},
    minutes={"smoke": 0.3, "laptop": 17, "paper": 2500},
    smaller=model_layers.smaller(
        "4 heads, blocks that begin as the identity",
        dims="5 dimensions (two eigenvalues 100, three 1)",
        steps=6000,
    ),
    notes=(layer_trends.RATE,),
)
def fig4(lab: Lab) -> Measures:
    """Errors by layer and by step, and the similarity of both, at condition number 100."""
    # More than elsewhere: both are slow here, and a match of the last step decides nothing.
    iterations = lab.choose(smoke=6, laptop=30, paper=30)
    steps = lab.choose(smoke=40, laptop=3200, paper=3200)
    both = {NEWTON: Newton(iterations), DESCENT: GradientDescent(steps)}
    layers, task = model_layers.read_layers(lab, MODEL), lab.config(MODEL).task
    trends = layer_trends.trends_of(lab, layers, both, *MEASURES)
    best = trends["SimE", NEWTON].best  # (L,)
    newton = lab.error(both[NEWTON], layers.prompt, task, by="both", axis="layer", label=NEWTON)
    matched = replace(newton.at(layer=best.tolist()), ticks={"layer": range(1, len(best) + 1)})
    by_step = lab.error(both[DESCENT], layers.prompt, task, by="step", label=DESCENT)
    few = (steps // 16, steps // 4, steps)
    others = {f"{DESCENT}, {taken} steps": GradientDescent(taken) for taken in few} | {LEAST: OLS()}
    curves = [
        layers.errors.at(layer=-1),
        replace(matched.at(layer=-1), label=MATCHED),
        *(lab.error(one, layers.prompt, task, label=label) for label, one in others.items()),
    ]
    return {
        MODEL: layers.errors,
        NEWTON: matched,
        **layer_trends.measures_of(lab, trends),
        "compared": layer_trends.by_layer("compared", layers.compared[None]),
        LAST_ERROR: layers.last_error,
        "small directions": Measured.exact(small_directions(task.dims)),
        "by gradient step": replace(by_step, shown={"step": layer_trends.drawn_steps(steps + 1)}),
        **{f"{one.label}, by examples": one for one in curves},
    }
