"""Figure 2: with noise a model agrees with the ridge regression of least Bayes risk.

Shapes: P prompts, n points, c conditions (one model each), L penalties.
"""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd
import torch
from matplotlib.figure import Figure
from torch import Tensor

from innerloop.analysis import Measured, bayes_check, drawing
from innerloop.analysis.bayes_check import nearest
from innerloop.core.learner import Learner
from innerloop.core.prompt import Prompt
from innerloop.studies.akyurek2022.agreement import AGREEMENT
from innerloop.studies.claim import Claim, at_least, at_most
from innerloop.studies.lab import Lab
from innerloop.studies.runs import trained
from innerloop.studies.study import Measures, Runs, Scale, Tables, declare
from innerloop.training.config import RunConfig

PENALTIES = tuple(2.0 ** (exponent / 2) for exponent in range(-16, 13))
"""From 0.004 to 64, two in each octave."""
Condition = tuple[float, float]
"""Noise (sigma) and prior variance (tau^2)."""
CONDITIONS: dict[Scale, tuple[Condition, ...]] = {
    "smoke": ((0.5, 1.0), (1.0, 1.0)),
    "laptop": ((0.5, 1.0), (1.0, 1.0)),
    "paper": ((0.25, 1.0), (0.5, 1.0), (1.0, 1.0), (2.0, 1.0), (0.5, 0.25), (0.5, 4.0)),
}
"""The paper does not print its own."""
COLUMNS = ["model", "expected", "best", "low", "high"]
"""Of the table `nearest`: the penalty of least risk, the nearest one, and its interval."""


def _label(condition: Condition) -> str:
    return f"noise {condition[0]:g}, prior variance {condition[1]:g}"


def _fig2_runs(scale: Scale) -> Runs:
    runs: dict[str, RunConfig] = {}
    for noise, prior in CONDITIONS[scale]:
        recipe, changes = "standard-linear", [f"task.noise={noise:g}"]
        if scale == "paper":
            recipe, changes = "akyurek-noisy", [*changes, f"task.prior_variance={prior:g}"]
        runs[_label((noise, prior))] = trained(recipe, scale, *changes)
    return runs


def _draw_fig2(tables: Tables) -> Figure:
    figure, (left, right) = drawing.panels(2, columns=2, size=(4.4, 3.4))
    drawing.draw_curves(left, tables["by-model-penalty"], x="penalty", label="model")
    left.set_xscale("log")
    table = tables["nearest"]
    models = dict.fromkeys(table["model"])
    styles = dict(zip(models, zip(drawing.COLOURS, drawing.MARKERS, strict=True), strict=False))
    ends = [table["expected"].min() / 2, table["expected"].max() * 2]
    right.loglog(ends, ends, base=2, color="0.5", linestyle=":", label="sigma² / tau²")
    for model, expected, best, low, high in table[COLUMNS].itertuples(index=False):
        colour, marker = styles[model]
        drawing.mark(left, expected, label="least Bayes risk (its colour)", colour=colour)
        right.errorbar(
            expected, best, yerr=np.array([[best - low], [high - best]]), color=colour, capsize=3,
            marker=marker,
        )  # fmt: skip
    drawing.name(left, title="distance from ridge", x="penalty of ridge", y="SPD / d")
    drawing.plain(right)
    least = "penalty of least Bayes risk"
    drawing.name(right, title="nearest penalty", x=least, y="nearest to the model")
    drawing.legend(figure, (left, right), columns=2)
    return figure


def _factor_off(m: Mapping[str, Tensor]) -> Tensor:
    """How many times off the nearest penalty is, up or down, in the worst model: (..)."""
    ratio = nearest(m["SPD / d"], PENALTIES) / m["expected penalty"]  # (.., c)
    return torch.maximum(ratio, 1 / ratio).amax(dim=-1)


def _growth(m: Mapping[str, Tensor]) -> Tensor:
    """The nearest penalty (..) where most is expected over that where least is."""
    best, expected = nearest(m["SPD / d"], PENALTIES), m["expected penalty"]  # (.., c) each
    most, least = expected.argmax(dim=-1, keepdim=True), expected.argmin(dim=-1, keepdim=True)
    return (best.gather(-1, most) / best.gather(-1, least))[..., 0]


@declare(
    paper="akyurek2022",
    id="fig2",
    title="With noise a model predicts as the ridge regression of least Bayes risk",
    claims=(
        Claim(
            name="nearest-penalty",
            sentence="For every noise and prior the ridge penalty that fits the model best is that "
            "of least Bayes risk, sigma^2 / tau^2.",
            quantity="nearest penalty over sigma^2 / tau^2, up or down, the worst of all models",
            statistic=_factor_off,
            criterion=at_most(
                2.0,
                "one octave, two points of the grid: around its minimum SPD is flat, and "
                "half or twice the penalty hardly changes the risk",
            ),
            ratio=True,
            paper="1",
        ),
        Claim(
            name="grows-with-noise",
            sentence="As the noise grows, so does the penalty that fits best.",
            quantity="nearest penalty at the largest sigma^2 / tau^2 over that at the smallest",
            statistic=_growth,
            criterion=at_least(2.0**0.5, "it grows by one point of the grid at least"),
            ratio=True,
        ),
        Claim(
            name="equivalent",
            sentence="The model behaves as the predictor of least Bayes risk.",
            quantity="SPD from ridge at sigma^2 / tau^2, over d, mean over the numbers of examples "
            "from 1 on, the worst of all models",
            statistic=lambda m: m["SPD / d at the expected penalty"].amax(dim=-1),
            criterion=at_most(
                AGREEMENT,
                "the paper's number for what agrees, from its first figure, where it is of "
                "the same measure",
            ),
            ratio=True,
        ),
    ),
    draw=_draw_fig2,
    runs=_fig2_runs,
    minutes={"smoke": 0.2, "laptop": 12, "paper": 30_000},
    smaller={
        "smoke": "3 dimensions, 6 examples, 2 layers of width 16, 20 steps; noise 0.5 and 1.",
        "laptop": "5 dimensions instead of 8, 10 examples instead of 40, 8 layers of width 64, "
        "2000 steps of a faster optimiser; noise 0.5 and 1, and no other prior.",
    },
)
def fig2(lab: Lab) -> Measures:
    """SPD over a grid of penalties for each model."""
    configs = {condition: lab.config(_label(condition)) for condition in CONDITIONS[lab.scale]}
    return checked(lab, {
        own: (lab.learner(_label(own)), lab.draw(config.task, config.points))
        for own, config in configs.items()
    })  # fmt: skip


def checked(lab: Lab, cases: Mapping[Condition, tuple[Learner[Any], Prompt]]) -> Measures:
    """The distances of learners from ridge regression at every penalty, and at the expected one."""
    rows: list[tuple[str, float, float, float, float]] = []
    by_penalty: dict[str, Measured] = {}
    at_expected: dict[str, Measured] = {}
    for (noise, prior), (learner, prompt) in cases.items():
        label = _label((noise, prior))
        lab.tell(label)
        # Without examples all predict nothing: prefix 0 would only make the mean smaller.
        scored = (torch.arange(prompt.points) > 0).expand(prompt.batch, -1)  # (P, n)
        prompt = replace(prompt, scored=scored)
        check = bayes_check(
            learner, prompt, noise=noise, prior_variance=prior, penalties=PENALTIES, seed=lab.seed
        )
        rows.append((label, check.expected, check.best.value, check.best.low, check.best.high))
        by_penalty[label] = check.distances / prompt.dims
        # Variances are powers of four, so that what is expected lies on the grid.
        at_expected[label] = by_penalty[label].at(penalty=PENALTIES.index(check.expected))
    lab.table("nearest", pd.DataFrame(rows, columns=COLUMNS), by_seed=True)
    expected = torch.tensor([row[1] for row in rows], dtype=torch.float64)  # (c,)
    by_model = {
        "SPD / d at the expected penalty": Measured.stack("model", at_expected),
        "expected penalty": Measured.exact(expected, "model", model=list(by_penalty)),
    }
    labelled = {name: replace(one, label=name) for name, one in by_model.items()}
    return {"SPD / d": Measured.stack("model", by_penalty), **labelled}
