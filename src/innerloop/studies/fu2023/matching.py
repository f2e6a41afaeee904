"""Figures 3, 6, 8, 14, 15: layers match Newton's iterations linearly, and not gradient steps."""

from collections.abc import Mapping
from typing import Any

import pandas as pd
from matplotlib.figure import Figure

from innerloop.analysis.drawing import legend, panels
from innerloop.core.learner import Learner
from innerloop.learners import GradientDescent, Newton
from innerloop.studies.claim import Claim, Criterion
from innerloop.studies.fu2023.heatmaps import draw_matches, draw_similarity
from innerloop.studies.fu2023.layers import (
    Measure,
    Reading,
    layer_directions,
    read_layers,
    read_prompts,
    similarities,
)
from innerloop.studies.fu2023.trends import (
    DESCENT,
    NEWTON,
    Trend,
    best_table,
    fit_table,
    gathered,
    rate,
    similarity_table,
    too_few,
    trend_claims,
    trend_of,
    trend_quantities,
)
from innerloop.studies.lab import Lab
from innerloop.studies.quantity import Quantity
from innerloop.studies.runs import trained
from innerloop.studies.study import Findings, Tables, declare
from innerloop.studies.tables import record, rows_where, stacked
from innerloop.training.config import RunConfig
from innerloop.training.families import Scale

MODEL = "transformer"
"""The label of the run."""
SLOWER = (1.0, 0.5, 0.25)
"""Fixed rates of gradient descent that are tried, in parts of 1 / (sqrt n + sqrt d)^2."""
TUNED_ON = 256
"""Prompts that the rate is chosen on."""
SMALLER: Mapping[Scale, str] = {
    "smoke": "3 dimensions, 7 points, width 16, 2 layers, 20 steps; few prompts and steps of the "
    "algorithms.",
    "laptop": "5 dimensions, 11 points, width 64, 8 layers, 2000 steps of a faster optimiser; 20 "
    "iterations of Newton's method and 400 of gradient descent.",
}


def newton(lab: Lab) -> Newton:
    """As many iterations as there are on the figures' axes."""
    return Newton(steps=lab.choose(smoke=6, laptop=20, paper=30))


def descent_steps(lab: Lab) -> int:
    """Gradient steps on the figures' axes."""
    return lab.choose(smoke=20, laptop=400, paper=800)


def standard_runs(scale: Scale) -> Mapping[str, RunConfig]:
    """The stack on linear functions."""
    return {MODEL: trained("standard-linear", scale)}


def trends_of(
    lab: Lab, reading: Reading, measure: Measure, algorithms: Mapping[str, Learner[Any]]
) -> dict[str, Trend]:
    """How a model's layers match the steps of each algorithm."""
    lab.tell(f"{measure} of {reading.learner.name}")
    own = layer_directions(reading, measure)  # (A, P, m)
    found: dict[str, Trend] = {}
    for key, algorithm in algorithms.items():
        lab.tell(f"{measure} with {algorithm.name}")
        table = similarities(own, algorithm, reading.prompt, measure)  # (P, A, C)
        found[key] = trend_of(table, measure, key, reading.falling)
    return found


def choose_rate(lab: Lab, learner: Learner[Any], seed: int) -> tuple[GradientDescent, pd.DataFrame]:
    """Gradient descent with the rate at which it is most like the layers of a learner.

    1/L of each prefix, or the same for all prefixes; a table of all that were tried. On prompts of
    their own: it is not judged on those it was tuned on.
    """
    reading = read_prompts(lab, learner, MODEL, seed, prompts=TUNED_ON, purpose="tune")
    steps, prompt = descent_steps(lab), reading.prompt
    largest = ((prompt.points - 1) ** 0.5 + prompt.dims**0.5) ** 2
    sizes = (None, *(part / largest for part in SLOWER))
    own = layer_directions(reading, "SimE")  # (A, P, m)
    chosen = list(reading.falling) or [reading.layers]
    found: list[float] = []
    for size in sizes:
        lab.tell(f"rate of gradient descent: {size or '1/L'}")
        algorithm = GradientDescent(steps, step_size=size)
        table = similarities(own, algorithm, prompt, "SimE").mean(dim=0)  # (A, C)
        found.append(float(table[chosen].amax(dim=1).mean()))
    best = max(range(len(sizes)), key=found.__getitem__)
    table = record(
        {
            "rate": ["1/L of each prefix", *(f"{size:.3g}" for size in sizes[1:] if size)],
            "similarity": found,
            "chosen": [index == best for index in range(len(sizes))],
        }
    )
    return GradientDescent(steps, step_size=sizes[best]), table


def _draw_fig3(tables: Tables) -> Figure:
    figure, axes = panels(4, columns=2, size=(4.2, 3.4))
    draw_similarity(axes[0], tables, "SimE", NEWTON)
    draw_similarity(axes[1], tables, "SimE", DESCENT)
    draw_similarity(axes[2], tables, "SimE", DESCENT, logarithmic=True)
    draw_matches(axes[3], tables, "SimE")
    legend(figure, axes)
    return figure


@declare(
    paper="fu2023",
    id="fig3",
    also=("fig6", "fig8"),
    title="Layers match Newton's iterations linearly and gradient steps exponentially",
    claims=(
        *trend_claims("SimE"),
        Claim(
            name="iterations-a-layer",
            sentence="Each layer computes roughly three iterations of Newton's method.",
            quantity="slope of the line through the best-matching iterations",
            criterion=Criterion(
                at_least=2.0, at_most=4.0, reason="three, read off a heatmap of whole numbers"
            ),
            over="prompts",
            paper="3",
        ),
    ),
    draw=_draw_fig3,
    runs=standard_runs,
    minutes={"smoke": 0.2, "laptop": 5, "paper": 2500},
    smaller=SMALLER,
)
def fig3(lab: Lab) -> Findings:
    """SimE of every layer with every step of both algorithms, and the trend of the best."""
    measured: list[dict[str, Quantity]] = []
    best: list[pd.DataFrame] = []
    fits: list[pd.DataFrame] = []
    rates: list[pd.DataFrame] = []
    notes: list[str] = []
    trends: list[Trend] = []
    for seed in lab.seeds:
        reading = read_layers(lab, MODEL, seed)
        descent, tried = choose_rate(lab, reading.learner, seed)
        found = trends_of(lab, reading, "SimE", {NEWTON: newton(lab), DESCENT: descent})
        both = list(found.values())
        best.append(best_table(both, seed))
        fits.append(fit_table(both, seed))
        rates.append(tried.assign(seed=seed))
        notes += too_few(both, seed)
        trends = trends or both
        measured.append(
            {
                **trend_quantities(lab, found[NEWTON], found[DESCENT], seed),
                "iterations-a-layer": rate(lab, found[NEWTON], seed),
            }
        )
    chosen = rows_where(rates[0], {"chosen": True})["rate"].iloc[0]
    return Findings(
        tables={
            "similarities": similarity_table(trends),
            "best": stacked(best),
            "fits": stacked(fits),
            "rates": stacked(rates),
        },
        measured=gathered(measured),
        notes=(f"Of the rates of gradient descent, {chosen} is most like the layers.", *notes),
    )


def _one_head_runs(scale: Scale) -> Mapping[str, RunConfig]:
    return {MODEL: trained("one-head-linear", scale)}


def draw_four(tables: Tables) -> Figure:
    """Heatmaps of both measures with both algorithms, and the best matches by each."""
    figure, axes = panels(6, columns=3, size=(4.0, 3.3))
    measures: tuple[Measure, ...] = ("SimE", "SimW")
    for row, measure in enumerate(measures):
        draw_similarity(axes[3 * row], tables, measure, NEWTON)
        draw_similarity(axes[3 * row + 1], tables, measure, DESCENT)
        draw_matches(axes[3 * row + 2], tables, measure)
    legend(figure, axes)
    return figure


@declare(
    paper="fu2023",
    id="fig14",
    also=("fig15",),
    title="With one head a layer, layers match Newton's iterations as well",
    claims=(*trend_claims("SimE"), *trend_claims("SimW")),
    draw=draw_four,
    runs=_one_head_runs,
    minutes={"smoke": 0.2, "laptop": 7, "paper": 2500},
    smaller=SMALLER,
)
def fig14(lab: Lab) -> Findings:
    """SimE and SimW of every layer of a model with one head a layer."""
    measured: list[dict[str, Quantity]] = []
    best: list[pd.DataFrame] = []
    fits: list[pd.DataFrame] = []
    notes: list[str] = []
    trends: list[Trend] = []
    for seed in lab.seeds:
        reading = read_layers(lab, MODEL, seed)
        both = {NEWTON: newton(lab), DESCENT: GradientDescent(descent_steps(lab))}
        by_errors = trends_of(lab, reading, "SimE", both)
        by_weights = trends_of(lab, reading, "SimW", both)
        every = [*by_errors.values(), *by_weights.values()]
        best.append(best_table(every, seed))
        fits.append(fit_table(every, seed))
        notes += too_few(every, seed)
        trends = trends or every
        measured.append(
            {
                **trend_quantities(lab, by_errors[NEWTON], by_errors[DESCENT], seed),
                **trend_quantities(lab, by_weights[NEWTON], by_weights[DESCENT], seed),
            }
        )
    return Findings(
        tables={
            "similarities": similarity_table(trends),
            "best": stacked(best),
            "fits": stacked(fits),
        },
        measured=gathered(measured),
        notes=("Gradient descent has the rate 1/L of each prefix.", *notes),
    )
