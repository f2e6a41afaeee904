"""Figures 4, 11, 12, 13: on ill-conditioned data, too, layers are like Newton's iterations."""

from collections.abc import Mapping
from dataclasses import replace

import torch
from matplotlib.figure import Figure
from torch import Tensor

from innerloop.analysis import drawing
from innerloop.analysis.drawing import ERROR, EXAMPLES
from innerloop.learners import OLS, GradientDescent
from innerloop.studies.claim import Claim, at_least
from innerloop.studies.fu2023 import layer_errors, layer_trends, model_layers
from innerloop.studies.fu2023.heatmaps import draw_matches, draw_similarity
from innerloop.studies.fu2023.layer_trends import MEASURES
from innerloop.studies.fu2023.model_layers import DESCENT, LEAST, MODEL, NEWTON
from innerloop.studies.lab import Lab
from innerloop.studies.runs import trained
from innerloop.studies.study import Measures, Tables, declare


def _draw_fig4(tables: Tables) -> Figure:
    figure, axes = drawing.panels(8, columns=4, size=(3.9, 3.2), legend=0.9)
    last, layers = tables["by-examples"], layer_errors.shown_layers(tables, MODEL)
    order = [*layers, *dict.fromkeys(last["label"])]
    drawing.draw_curves(axes[0], last, x="examples", order=order, floor=1e-4)
    drawing.name(axes[0], title="last layer and algorithms", x=EXAMPLES, y=ERROR)
    layer_errors.draw_progression(axes[1:3], tables, layers)
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


@declare(
    paper="fu2023",
    id="fig4",
    also=("fig11", "fig12", "fig13"),
    title="On ill-conditioned data transformers are still like Newton's method",
    claims=(
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
        ),
    ),
    draw=_draw_fig4,
    runs=lambda scale: {MODEL: trained("standard-ill-conditioned", scale)},
    minutes={"smoke": 0.3, "laptop": 10, "paper": 2500},
    smaller={
        "smoke": "4 dimensions, 7 points, width 16, 2 layers, 20 steps.",
        "laptop": "5 dimensions (two eigenvalues 100, three 1), 11 points, width 64, 8 layers, "
        "3333 steps of a faster optimiser.",
    },
    notes=(layer_trends.MORE_STEPS,),
)
def fig4(lab: Lab) -> Measures:
    """Errors by layer and by step, and the similarity of both, at condition number 100."""
    steps = lab.choose(smoke=40, laptop=800, paper=3200)
    both = {**model_layers.algorithms(lab, NEWTON), DESCENT: GradientDescent(steps)}
    layers, task = model_layers.read_layers(lab, MODEL), lab.config(MODEL).task
    trends = layer_trends.trends_of(lab, layers, both, *MEASURES)
    matched = layer_errors.matched_errors(lab, layers, trends["SimE", NEWTON].best)
    by_step = lab.error(both[DESCENT], layers.prompt, task, by="step", label=DESCENT)
    few = (steps // 16, steps // 4, steps)
    others = {f"{DESCENT}, {taken} steps": GradientDescent(taken) for taken in few} | {LEAST: OLS()}
    curves = [
        layers.errors.at(layer=-1),
        replace(matched.at(layer=-1), label="Newton, best match"),
        *(lab.error(one, layers.prompt, task, label=label) for label, one in others.items()),
    ]
    return {
        MODEL: layers.errors,
        NEWTON: matched,
        **layer_trends.measures_of(lab, trends),
        "compared": layer_trends.by_layer("compared", layers.compared[None]),
        "by gradient step": replace(by_step, shown={"step": layer_trends.drawn_steps(steps + 1)}),
        **{f"{one.label}, by examples": one for one in curves},
    }
