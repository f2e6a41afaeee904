"""Figure 2: with noise a model agrees with the ridge regression of least Bayes risk.

Distances are over d tau^2, the variance of the function: with tau = 1 the paper's SPD / d.

Shapes: P prompts, n points, c conditions (one model each), L penalties.
"""

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd
import torch
from matplotlib.figure import Figure
from torch import Tensor

from innerloop.analysis import Averages, Measured, bayes_check, drawing, spd
from innerloop.analysis.bayes_check import nearest
from innerloop.core.learner import Learner
from innerloop.core.prompt import Prompt
from innerloop.learners import OLS, Ridge
from innerloop.studies import nulls
from innerloop.studies.akyurek2022.agreement import (
    AGREEMENT,
    EXAMPLES,
    LEAST_SQUARES,
    RECIPE,
    UNTRAINED,
)
from innerloop.studies.claim import Claim, Premise, at_least, at_most
from innerloop.studies.lab import Lab, Null
from innerloop.studies.runs import trained
from innerloop.studies.study import Measures, Runs, Scale, Tables, declare

PENALTIES = tuple(2.0 ** (exponent / 2) for exponent in range(-16, 13))
"""From 0.004 to 64, two in each octave."""
Condition = tuple[float, float]
"""Noise (sigma) and prior variance (tau^2)."""
CONDITIONS: dict[Scale, tuple[Condition, ...]] = {
    "smoke": ((0.5, 1.0), (1.0, 1.0), (0.5, 0.25)),
    # Expected penalties are 16 times apart, so that no single one is near all of them, and two
    # of them differ by their priors alone.
    "laptop": ((0.5, 1.0), (1.0, 1.0), (2.0, 1.0), (0.5, 0.25)),
    "desk": ((0.5, 1.0), (1.0, 1.0), (2.0, 1.0), (0.5, 0.25), (0.5, 4.0)),
    "paper": ((0.25, 1.0), (0.5, 1.0), (1.0, 1.0), (2.0, 1.0), (0.5, 0.25), (0.5, 4.0)),
}
"""The paper does not print its own."""
MIDDLE: Condition = (1.0, 1.0)
OCTAVE = 2.0
ONE, WITHOUT_NOISE, WITHOUT_PRIOR, OTHERS = (
    "ridge, one penalty", "ridge that ignores the noise", "ridge that ignores the prior",
    "one model for all",
)  # fmt: skip
"""Nulls: they do not choose the penalty by what they are told of the noise, or of the prior."""
COLUMNS = ["model", "expected", "best", "low", "high"]
"""Of the table `nearest`: the penalty of least risk, the nearest one, and its interval."""


def _label(condition: Condition) -> str:
    return f"noise {condition[0]:g}, prior variance {condition[1]:g}"


def _ridge(penalty: Callable[[float, float], float]) -> Null:
    """Ridge regression whose penalty is another function of noise and prior variance."""
    return lambda lab: {
        _label(condition): Ridge(penalty(*condition)) for condition in CONDITIONS[lab.scale]
    }


def _longer(scale: Scale, noise: float) -> tuple[str, ...]:
    """Twice the steps at laptop scale where almost half of y is noise (docs/LOG.md)."""
    return ("steps=6000",) if scale == "laptop" and noise > 1 else ()


def _fig2_runs(scale: Scale) -> Runs:
    return {
        _label((noise, prior)): trained(
            "akyurek-noisy", scale, f"task.noise={noise:g}", f"task.prior_variance={prior:g}",
            *(EXAMPLES["desk"] if scale == "desk" else ()), *_longer(scale, noise),
        )
        for noise, prior in CONDITIONS[scale]
    }  # fmt: skip


def _draw_fig2(tables: Tables) -> Figure:
    figure, (left, right) = drawing.panels(2, columns=2, size=(4.4, 3.4))
    table = tables["nearest"]
    expected = dict(zip(table["model"], table["expected"], strict=True))
    curves = tables["by-model-penalty"]
    # Over the penalty of least risk: where all curves should have their minimum.
    over = [penalty / expected[model] for model, penalty in
            curves[["model", "penalty"]].itertuples(index=False)]  # fmt: skip
    drawing.draw_curves(left, curves.assign(over=over), x="over", label="model")
    left.set_xscale("log", base=2)
    drawing.mark(left, 1.0, label="least Bayes risk")
    drawing.level(left, AGREEMENT, label="what agrees: 0.01")
    drawing.name(left, title="distance from ridge", x="penalty / that of least Bayes risk",
                 y="SPD / (d tau²)")  # fmt: skip
    for place, model in enumerate(expected):
        own = drawing.rows_where(table, {"model": model})
        ratios = own[["best", "low", "high"]].to_numpy(float) / expected[model]  # (seeds, 3)
        places = place + 0.12 * (np.arange(len(own)) - (len(own) - 1) / 2)
        right.errorbar(
            places, ratios[:, 0], yerr=np.abs(ratios[:, 1:] - ratios[:, :1]).T, capsize=3,
            color=drawing.COLOURS[place], marker=drawing.MARKERS[place], linestyle="none",
        )  # fmt: skip
    right.axhspan(1 / OCTAVE, OCTAVE, color="0.9", zorder=0, label="within an octave")
    right.set_yscale("log", base=2)
    drawing.level(right, 1.0)
    drawing.plain(right)
    right.set_xticks(range(len(expected)), [f"{penalty:g}" for penalty in expected.values()])
    right.set_xlim(-0.5, len(expected) - 0.5)
    drawing.name(right, title="nearest penalty, by model and seed",
                 x="penalty of least Bayes risk", y="nearest / that of least risk")  # fmt: skip
    drawing.legend(figure, (left, right), columns=3)
    return figure


def _factor_off(m: Averages) -> Tensor:
    """How many times off the nearest penalty is, up or down, in the worst model: (..)."""
    ratio = nearest(m["distance"], PENALTIES) / m["expected penalty"]  # (.., c)
    return torch.maximum(ratio, 1 / ratio).amax(dim=-1)


def _growth(m: Averages) -> Tensor:
    """The smallest ratio (..) of the nearest penalties of a noise and of the next lower one."""
    several = nearest(m["distance, by noise"], PENALTIES)  # (.., noises)
    return (several[..., 1:] / several[..., :-1]).amin(dim=-1)


LEARNED = Premise(
    quantity="SPD from ridge at sigma^2 / tau^2 after the last example, over d tau^2, the worst of "
    "all models",
    statistic=lambda m: m["distance after the last example"].amax(dim=-1),
    criterion=at_most(
        AGREEMENT,
        "the excess error with the most examples is below the paper's number for what agrees: a "
        "model above it has not learned the task, and its distances are errors of training",
    ),
)
EVERY = (UNTRAINED, ONE, WITHOUT_NOISE, WITHOUT_PRIOR, LEAST_SQUARES, OTHERS)


@declare(
    paper="akyurek2022",
    id="fig2",
    title="With noise a model predicts as the ridge regression of least Bayes risk",
    claims=(
        Claim(
            name="nearest-penalty",
            sentence="For every noise and prior that was measured the ridge penalty that fits the "
            "model best is that of least Bayes risk, sigma^2 / tau^2.",
            quantity="nearest penalty over sigma^2 / tau^2, up or down, the worst of all models",
            statistic=_factor_off,
            criterion=at_most(
                OCTAVE,
                "one octave, two points of the grid: around its minimum SPD is flat, and "
                "half or twice the penalty hardly changes the risk",
            ),
            ratio=True,
            paper="1",
            premise=LEARNED,
            excludes=EVERY,
        ),
        Claim(
            name="grows-with-noise",
            sentence="As the noise grows, so does the penalty that fits best.",
            quantity="nearest penalty of a noise over that of the next lower one, prior variance "
            "1, the smallest of all such ratios",
            statistic=_growth,
            criterion=at_least(2.0**0.5, "it grows by one point of the grid at least"),
            ratio=True,
            paper="4",
            premise=LEARNED,
            excludes=(UNTRAINED, ONE, WITHOUT_NOISE, LEAST_SQUARES, OTHERS),
        ),
        Claim(
            name="equivalent",
            sentence="The model behaves as the predictor of least Bayes risk.",
            quantity="SPD from ridge at sigma^2 / tau^2, over d tau^2, mean over the numbers of "
            "examples from 1 on, the worst of all models",
            statistic=lambda m: m["distance at the expected penalty"].amax(dim=-1),
            criterion=at_most(
                AGREEMENT,
                "the paper's number for what agrees, from its first figure, where it is of "
                "the same measure",
            ),
            ratio=True,
            premise=LEARNED,
            excludes=EVERY,
        ),
    ),
    draw=_draw_fig2,
    runs=_fig2_runs,
    nulls={
        UNTRAINED: nulls.untrained(),
        ONE: _ridge(lambda noise, prior: 1.0),
        WITHOUT_NOISE: _ridge(lambda noise, prior: MIDDLE[0] ** 2 / prior),
        WITHOUT_PRIOR: _ridge(lambda noise, prior: noise**2),
        LEAST_SQUARES: nulls.instead(lambda lab, label: OLS()),
        OTHERS: lambda lab: dict.fromkeys(lab.labels, lab.learner(_label(MIDDLE))),
    },
    minutes={"smoke": 0.4, "laptop": 20, "desk": 115, "paper": 30_000},
    smaller={
        "smoke": "3 dimensions, 6 examples, 2 layers of width 16, 20 steps; noise 0.5 and 1, and "
        "one other prior.",
        "laptop": "5 dimensions instead of 8, 10 examples instead of 40, 8 layers of width 64 "
        "instead of 16 of 512, blocks that begin as the identity, 3000 steps by Muon (6000 with "
        "noise 2) instead of 500,000 by Adam; noise 0.5, 1 and 2, and one other prior.",
        "desk": f"{RECIPE['desk']}; noise 0.5, 1 and 2, and two other priors.",
    },
)
def fig2(lab: Lab) -> Measures:
    """Distances over a grid of penalties for each model."""
    configs = {condition: lab.config(_label(condition)) for condition in CONDITIONS[lab.scale]}
    return checked(lab, {
        own: (lab.learner(_label(own)), lab.draw(config.task, config.points))
        for own, config in configs.items()
    })  # fmt: skip


def checked(lab: Lab, cases: Mapping[Condition, tuple[Learner[Any], Prompt]]) -> Measures:
    """The distances of learners from ridge regression at every penalty, and at the expected one."""
    rows: list[tuple[str, float, float, float, float]] = []
    distances: dict[Condition, Measured] = {}
    at_expected: dict[str, Measured] = {}
    at_last: dict[str, Measured] = {}
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
        scale = prompt.dims * prior
        own = distances[noise, prior] = check.distances / scale
        # Variances are powers of four, so that what is expected lies on the grid.
        at_expected[label] = own.at(penalty=PENALTIES.index(check.expected))
        at_last[label] = spd(learner, Ridge(check.expected), prompt).at(examples=-1) / scale
    lab.table("nearest", pd.DataFrame(rows, columns=COLUMNS), by_seed=True)
    expected = torch.tensor([row[1] for row in rows], dtype=torch.float64)  # (c,)
    by_noise = {noise: distances[noise, prior] for noise, prior in sorted(cases) if prior == 1}
    every = {_label(condition): own for condition, own in distances.items()}
    measures = {
        "distance": Measured.stack("model", every),
        "distance at the expected penalty": Measured.stack("model", at_expected),
        "distance after the last example": Measured.stack("model", at_last),
        "expected penalty": Measured.exact(expected, "model", model=list(every)),
    }
    measures = {name: replace(one, label=name) for name, one in measures.items()}
    return {**measures, "distance, by noise": Measured.stack("noise", by_noise)}
