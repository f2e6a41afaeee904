"""Figures 4, 11, 12, 13: on ill-conditioned data, too, layers are like Newton's iterations."""

from collections.abc import Mapping

import pandas as pd
import torch
from matplotlib.figure import Figure
from torch import Tensor

from innerloop.analysis.drawing import draw_curves, legend, name, panels
from innerloop.learners import OLS, GradientDescent
from innerloop.studies.claim import Claim, Criterion
from innerloop.studies.fu2023.heatmaps import draw_matches, draw_similarity
from innerloop.studies.fu2023.layers import Reading, read_layers
from innerloop.studies.fu2023.matching import MODEL, newton, trends_of
from innerloop.studies.fu2023.progression import (
    IMPROVES,
    PROGRESSIVELY,
    draw_progression,
    largest_rise,
    last_over_middle,
    layer_curves,
    newton_errors,
    shown_layers,
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
    trend_quantities,
)
from innerloop.studies.lab import Lab
from innerloop.studies.quantity import Quantity, estimate
from innerloop.studies.runs import trained
from innerloop.studies.study import Findings, Tables, declare
from innerloop.studies.tables import curve, stacked
from innerloop.training.config import RunConfig
from innerloop.training.families import Scale


def _runs(scale: Scale) -> Mapping[str, RunConfig]:
    return {MODEL: trained("standard-ill-conditioned", scale)}


def _draw_fig4(tables: Tables) -> Figure:
    figure, axes = panels(8, columns=4, size=(3.9, 3.2), legend=0.9)
    layers = shown_layers(tables, MODEL)
    algorithms = list(dict.fromkeys(tables["last"]["label"]))
    draw_curves(
        axes[0], tables["last"], x="examples", order=[*layers, *algorithms], log=True, floor=1e-4
    )
    name(
        axes[0], title="last layer and algorithms", x="examples in the prompt",
        y="squared error / E[y²]",
    )  # fmt: skip
    draw_progression(axes[1:3], tables, layers)
    draw_matches(axes[3], tables, "SimE")
    draw_similarity(axes[4], tables, "SimE", NEWTON)
    draw_similarity(axes[5], tables, "SimE", DESCENT, logarithmic=True)
    draw_similarity(axes[6], tables, "SimW", NEWTON)
    draw_similarity(axes[7], tables, "SimW", DESCENT, logarithmic=True)
    legend(figure, axes, columns=5)
    return figure


def steps_to_reach(errors: Tensor, goal: Tensor) -> Tensor:
    """The first step whose error (.., C) is at most the goal (..); infinity where none is."""
    reached = errors <= goal[..., None]  # (.., C)
    first = reached.int().argmax(dim=-1).double()  # (..)
    return torch.where(reached.any(dim=-1), first, torch.inf)


def _steps_a_layer(lab: Lab, reading: Reading, by_step: Tensor, seed: int) -> Quantity:
    """Gradient steps to the model's error after the last example, over its layers.

    From the errors (P, C) of gradient descent there.
    """
    own = reading.errors[-1, :, -1:]  # (P, 1)
    return estimate(
        lambda means: steps_to_reach(means[..., :-1], means[..., -1]) / reading.layers,
        torch.cat([by_step, own], dim=1),  # (P, C + 1)
        draws=lab.draws,
        generator=lab.generator("bootstrap", seed),
    )


@declare(
    paper="fu2023",
    id="fig4",
    also=("fig11", "fig12", "fig13"),
    title="On ill-conditioned data transformers are still like Newton's method",
    claims=(
        IMPROVES,
        PROGRESSIVELY,
        *trend_claims("SimE"),
        *trend_claims("SimW"),
        Claim(
            name="not-descent",
            sentence="The transformer is more like Newton's method than gradient descent.",
            quantity="SimE with Newton's method less SimE with gradient descent, each at its best "
            "match, mean over the layers in which the error falls",
            criterion=Criterion(at_least=0.0, reason="it says so of the heatmaps"),
            over="prompts",
        ),
        Claim(
            name="descent-slow",
            sentence="Gradient descent needs far more steps than the model has layers.",
            quantity="gradient steps until the error after the last example is as low as the "
            "model's, over its layers",
            criterion=Criterion(
                at_least=10.0,
                reason="a layer of attention makes one step; the paper's 800 steps for 12 layers "
                "are 67",
            ),
            over="prompts",
            ratio=True,
            paper="800/12",
        ),
    ),
    draw=_draw_fig4,
    runs=_runs,
    minutes={"smoke": 0.3, "laptop": 10, "paper": 2500},
    smaller={
        "smoke": "4 dimensions, 7 points, width 16, 2 layers, 20 steps.",
        "laptop": "5 dimensions (two eigenvalues 100, three 1), 11 points, width 64, 8 layers, "
        "3333 steps of a faster optimiser.",
    },
)
def fig4(lab: Lab) -> Findings:
    """Errors by layer and by step, and the similarity of both, at condition number 100."""
    measured: list[dict[str, Quantity]] = []
    best: list[pd.DataFrame] = []
    fits: list[pd.DataFrame] = []
    notes: list[str] = []
    trends: list[Trend] = []
    errors: dict[str, list[Tensor]] = {MODEL: [], NEWTON: []}
    last: dict[str, list[Tensor]] = {}
    steps = lab.choose(smoke=40, laptop=800, paper=3200)
    algorithms = {NEWTON: newton(lab), DESCENT: GradientDescent(steps)}
    for seed in lab.seeds:
        reading = read_layers(lab, MODEL, seed)
        by_errors = trends_of(lab, reading, "SimE", algorithms)
        by_weights = trends_of(lab, reading, "SimW", algorithms)
        every = [*by_errors.values(), *by_weights.values()]
        best.append(best_table(every, seed))
        fits.append(fit_table(every, seed))
        notes += too_few(every, seed)
        trends = trends or every
        task = lab.run(MODEL).config.task
        newtons = newton_errors(lab, reading, task.scale_at(reading.prompt.points))  # (C, P, n)
        errors[MODEL].append(reading.errors)
        errors[NEWTON].append(newtons[by_errors[NEWTON].best])  # (A, P, n)
        descents = {
            taken: lab.errors(GradientDescent(taken), reading.prompt, task)  # (P, n)
            for taken in (steps // 16, steps // 4, steps)
        }
        by_step = lab.errors(GradientDescent(steps), reading.prompt, task, at=-1)  # (P, C)
        for label, each in {
            MODEL: reading.errors[-1],
            "Newton, best match": errors[NEWTON][-1][-1],
            **{f"{DESCENT}, {taken} steps": each for taken, each in descents.items()},
            "least squares": lab.errors(OLS(), reading.prompt, task),
        }.items():
            last.setdefault(label, []).append(each)
        layers = list(reading.falling) or [reading.layers]
        nearer = by_errors[NEWTON].at_best() - by_errors[DESCENT].at_best()  # (P, A)
        measured.append(
            {
                IMPROVES.name: last_over_middle(lab, reading, seed),
                PROGRESSIVELY.name: largest_rise(lab, reading, seed),
                **trend_quantities(lab, by_errors[NEWTON], by_errors[DESCENT], seed),
                **trend_quantities(lab, by_weights[NEWTON], by_weights[DESCENT], seed),
                "not-descent": lab.mean(nearer[:, layers].mean(dim=1), seed=seed),
                "descent-slow": _steps_a_layer(lab, reading, by_step, seed),
            }
        )
    return Findings(
        tables={
            "last": stacked([curve(lab, last[key], "examples", {"label": key}) for key in last]),
            "by-examples": stacked([layer_curves(lab, errors[key], key) for key in errors]),
            "similarities": similarity_table(trends),
            "best": stacked(best),
            "fits": stacked(fits),
        },
        measured=gathered(measured),
        notes=(
            "Gradient descent has the rate 1/L of each prefix. It has far more steps to choose a "
            "best match from than Newton's method has, which is in its favour.",
            *notes,
        ),
    )
