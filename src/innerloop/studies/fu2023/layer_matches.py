"""Figures 3, 6, 8, 14, 15: layers match Newton's iterations linearly, and not gradient steps."""

from typing import Any

import torch
from matplotlib.figure import Figure
from torch import Tensor

from innerloop.analysis import drawing
from innerloop.analysis.matching import best_matches, line
from innerloop.core.learner import Learner
from innerloop.learners import GradientDescent
from innerloop.studies.claim import Claim, between
from innerloop.studies.fu2023 import layer_trends, model_layers
from innerloop.studies.fu2023.heatmaps import draw_matches, draw_similarity
from innerloop.studies.fu2023.layer_trends import MEASURES
from innerloop.studies.fu2023.model_layers import (
    DESCENT,
    MODEL,
    NEWTON,
    SMALLER,
    smaller,
)
from innerloop.studies.fu2023.stand_ins import (
    LAST_ERROR,
    LEARNED,
    MANY,
    SLOW_NEWTON,
    UNTRAINED,
    excluded_by,
)
from innerloop.studies.lab import Lab
from innerloop.studies.runs import trained
from innerloop.studies.study import Measures, Tables, declare


def choose_rate(lab: Lab, learner: Learner[Any]) -> GradientDescent:
    """Gradient descent with the rate at which it is most like the layers of a learner.

    1/L of each prefix, or a part of 1 / (sqrt n + sqrt d)^2 for all prefixes; a table has all that
    were tried. On prompts of their own: it is not judged on those it was tuned on.
    """
    layers = model_layers.read_prompts(lab, learner, MODEL, prompts=256, purpose="tune")
    steps = model_layers.algorithms(lab, DESCENT)[DESCENT].steps
    largest = ((layers.prompt.points - 1) ** 0.5 + layers.prompt.dims**0.5) ** 2
    tried = {"1/L of each prefix": GradientDescent(steps)}
    for size in (1 / largest, 0.5 / largest, 0.25 / largest):
        tried[f"{size:.3g}"] = GradientDescent(steps, step_size=size)
    alike: dict[str, float] = {}
    for (_, label), trend in layer_trends.trends_of(lab, layers, tried, "SimE").items():
        means = trend.at_best.values.mean(dim=0)  # (L,)
        alike[label] = float(layer_trends.over_layers(means, layers.compared))
    best = max(alike, key=alike.__getitem__)
    columns = {"rate": list(alike), "similarity": alike.values()}
    lab.table("rates", {**columns, "chosen": [label == best for label in alike]}, by_seed=True)
    if lab.first:
        lab.note(f"Of the rates of gradient descent, {best} is most like the layers.")
    return tried[best]


def _slope(similarity: Tensor, chosen: Tensor) -> Tensor:
    """The slope (..) of the line through the best matches at the middle layers that are chosen.

    The middle half: of 12 layers 3 to 9, between which the paper sees its trend.
    """
    matches = best_matches(similarity).double()  # (.., L)
    layers = matches.shape[-1]
    places = torch.arange(1, layers + 1, dtype=torch.float64)  # (L,)
    middle = (4 * places >= layers) & (4 * places <= 3 * layers)  # (L,)
    return line(places, matches, chosen * middle)[0]


def _draw_fig3(tables: Tables) -> Figure:
    figure, axes = drawing.panels(4, columns=2, size=(4.2, 3.4))
    draw_similarity(axes[0], tables, "SimE", NEWTON)
    draw_similarity(axes[1], tables, "SimE", DESCENT)
    draw_similarity(axes[2], tables, "SimE", DESCENT, logarithmic=True)
    draw_matches(axes[3], tables, "SimE")
    drawing.legend(figure, axes)
    return figure


_FIG3 = (
    *layer_trends.trend_claims("SimE"),
    Claim(
        name="iterations-a-layer",
        sentence="Each middle layer computes roughly three iterations of Newton's method.",
        quantity="slope of the line through the best-matching iterations, over the middle half of "
        "the layers (3 to 9 of 12) as far as the error falls in them",
        statistic=layer_trends.fitted(f"SimE, {NEWTON}", _slope),
        criterion=between(2.0, 4.0, "three, read off a heatmap of whole numbers"),
        paper="3",
        premise=LEARNED,
        excludes=(UNTRAINED, MANY, SLOW_NEWTON),
    ),
)


@declare(
    paper="fu2023",
    id="fig3",
    also=("fig6", "fig8"),
    title="Layers match Newton's iterations linearly and gradient steps exponentially",
    claims=_FIG3,
    nulls=excluded_by(_FIG3),
    draw=_draw_fig3,
    runs=model_layers.standard_runs,
    minutes={"smoke": 0.2, "laptop": 7, "desk": 40, "paper": 2500},
    smaller={
        **SMALLER,
        "desk": "The paper's 20 dimensions, 41 points and 12 layers; width 128 for 256, in 4 "
        "heads that are as wide as the paper's 8; "
        "3000 steps in bfloat16 for 500,000, in which dimensions grow from 4 and points from 9; "
        "256 test prompts. Unlike the paper's recipe: y in a place of its own, not in that of x; "
        "Muon, with a warm-up and rates that fall in the second half of the steps alone; positions "
        "that count by the inverse of their errors; weights that start with a spread by fan-in, "
        "and layers as the identity.",
    },
    notes=(
        "Growth is about rates. Gradient descent whose steps grow by a factor from layer to layer "
        "has the rate of Newton's method, and meets both criteria of growth: figure 9 compares "
        "the methods themselves.",
    ),
)
def fig3(lab: Lab) -> Measures:
    """SimE of every layer with every step of both algorithms, and the trend of the best."""
    layers = model_layers.read_layers(lab, MODEL)
    both = {**model_layers.algorithms(lab, NEWTON), DESCENT: choose_rate(lab, layers.learner)}
    trends = layer_trends.trends_of(lab, layers, both, "SimE")
    return {**layer_trends.measures_of(lab, trends), LAST_ERROR: layers.last_error}


def _draw_fig14(tables: Tables) -> Figure:
    figure, axes = drawing.panels(6, columns=3, size=(4.0, 3.3))
    for row, measure in enumerate(MEASURES):
        draw_similarity(axes[3 * row], tables, measure, NEWTON)
        draw_similarity(axes[3 * row + 1], tables, measure, DESCENT)
        draw_matches(axes[3 * row + 2], tables, measure)
    drawing.legend(figure, axes)
    return figure


_FIG14 = (*layer_trends.trend_claims("SimE"), *layer_trends.trend_claims("SimW"))


@declare(
    paper="fu2023",
    id="fig14",
    also=("fig15",),
    title="With one head per layer, layers match Newton's iterations as well",
    claims=_FIG14,
    nulls=excluded_by(_FIG14),
    draw=_draw_fig14,
    runs=lambda scale: {MODEL: trained("one-head-linear", scale)},
    minutes={"smoke": 0.2, "laptop": 9, "paper": 2500},
    smaller=smaller("1 head"),
    notes=(layer_trends.RATE, *fig3.notes),
)
def fig14(lab: Lab) -> Measures:
    """SimE and SimW of every layer of a model with one head per layer."""
    layers = model_layers.read_layers(lab, MODEL)
    both = model_layers.algorithms(lab, NEWTON, DESCENT)
    trends = layer_trends.trends_of(lab, layers, both, *MEASURES)
    return {**layer_trends.measures_of(lab, trends), LAST_ERROR: layers.last_error}
