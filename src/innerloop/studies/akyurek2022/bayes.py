"""Figure 2: with noise a model agrees with the ridge regression of least Bayes risk.

Shapes: P prompts, n points, k outputs.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pandas as pd
import torch
from matplotlib.figure import Figure
from torch import Tensor

from innerloop.analysis.bayes_check import BayesCheck, bayes_check
from innerloop.analysis.drawing import COLOURS, MARKERS
from innerloop.analysis.similarity import predict_in_parts, prediction_differences
from innerloop.core.errors import ConfigurationError
from innerloop.core.learner import Learner
from innerloop.core.prompt import Prompt
from innerloop.learners import Ridge
from innerloop.studies.akyurek2022.agreement import AGREEMENT
from innerloop.studies.claim import Claim, Criterion
from innerloop.analysis.drawing import draw_curves, legend, mark, name, panels, plain
from innerloop.studies.lab import Lab
from innerloop.studies.quantity import Quantity
from innerloop.studies.runs import noisy, trained
from innerloop.studies.study import Findings, Tables, declare
from innerloop.studies.tables import record, stacked
from innerloop.tasks import LinearRegression
from innerloop.training.config import RunConfig
from innerloop.training.families import Scale

PENALTIES = tuple(2.0 ** (exponent / 2) for exponent in range(-16, 13))
"""From 0.004 to 64, two in each octave."""
CONDITIONS: dict[Scale, tuple[tuple[float, float], ...]] = {
    "smoke": ((0.5, 1.0), (1.0, 1.0)),
    "laptop": ((0.5, 1.0), (1.0, 1.0)),
    "paper": ((0.25, 1.0), (0.5, 1.0), (1.0, 1.0), (2.0, 1.0), (0.5, 0.25), (0.5, 4.0)),
}
"""Noise (sigma) and prior variance (tau^2); the paper does not print its own."""


@dataclass(frozen=True, slots=True, eq=False)
class Checked:
    """One model: what penalty it is nearest to, and how near it is to that of least risk."""

    check: BayesCheck
    agreement: Quantity
    """SPD from ridge at the expected penalty, over d, prefix 0 left out."""

    @property
    def factor(self) -> Quantity:
        """How many times off the nearest penalty is, up or down."""
        low, high = self.check.low / self.check.expected, self.check.high / self.check.expected
        ends = (max(low, 1 / low), max(high, 1 / high))
        best = self.check.best / self.check.expected
        return Quantity(max(best, 1 / best), 1.0 if low <= 1 <= high else min(ends), max(ends))


def _label(noise: float, prior: float) -> str:
    return f"noise {noise:g}, prior variance {prior:g}"


def _fig2_runs(scale: Scale) -> Mapping[str, RunConfig]:
    found: dict[str, RunConfig] = {}
    for noise, prior in CONDITIONS[scale]:
        if scale == "paper":
            changes = (f"task.noise={noise:g}", f"task.prior_variance={prior:g}")
            found[_label(noise, prior)] = trained("akyurek-noisy", scale, *changes)
        else:
            found[_label(noise, prior)] = noisy("standard-linear", scale, noise)
    return found


def _draw_fig2(tables: Tables) -> Figure:
    figure, (left, right) = panels(2, columns=2, size=(4.4, 3.4))
    draw_curves(left, tables["by-penalty"], x="penalty")
    left.set_xscale("log")
    expected, best, low, high = (
        tables["nearest"][key].to_numpy(float) for key in ("expected", "best", "low", "high")
    )
    ends = [expected.min() / 2, expected.max() * 2]
    right.plot(ends, ends, color="0.5", linestyle=":", label="sigma² / tau²")
    for place in range(len(expected)):
        colour = COLOURS[place % len(COLOURS)]
        mark(left, expected[place], label="least Bayes risk (its colour)", colour=colour)
        right.errorbar(
            expected[place], best[place], color=colour, marker=MARKERS[place % len(MARKERS)],
            yerr=np.array([[best[place] - low[place]], [high[place] - best[place]]]), capsize=3,
        )  # fmt: skip
    name(left, title="distance from ridge", x="penalty of ridge", y="SPD / d")
    right.set_xscale("log", base=2)
    right.set_yscale("log", base=2)
    plain(right)
    name(right, title="nearest penalty", x="penalty of least Bayes risk", y="nearest to the model")
    legend(figure, (left, right), columns=2)
    return figure


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
            criterion=Criterion(
                at_most=2.0,
                reason="one octave, two points of the grid: around its minimum SPD is flat, and "
                "half or twice the penalty hardly changes the risk",
            ),
            over="prompts",
            ratio=True,
            paper="1",
        ),
        Claim(
            name="grows-with-noise",
            sentence="As the noise grows, so does the penalty that fits best.",
            quantity="nearest penalty at the largest sigma^2 / tau^2 over that at the smallest",
            criterion=Criterion(
                at_least=2.0**0.5, reason="it grows by one point of the grid at least"
            ),
            over="prompts",
            ratio=True,
        ),
        Claim(
            name="equivalent",
            sentence="The model behaves as the predictor of least Bayes risk.",
            quantity="SPD from ridge at sigma^2 / tau^2, over d, mean over the numbers of examples "
            "from 1 on, the worst of all models",
            criterion=Criterion(
                at_most=AGREEMENT,
                reason="the paper's number for what agrees, from its first figure, where it is of "
                "the same measure",
            ),
            over="prompts",
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
def fig2(lab: Lab) -> Findings:
    """SPD over a grid of penalties for each model."""
    measured: dict[str, list[Quantity]] = {claim.name: [] for claim in fig2.claims}
    first: dict[str, Checked] = {}
    for seed in lab.seeds:
        checked = {label: _check_run(lab, label, seed) for label in _fig2_runs(lab.scale)}
        first = first or checked
        every = list(checked.values())
        measured["nearest-penalty"].append(_worst([one.factor for one in every]))
        measured["grows-with-noise"].append(growth(every))
        measured["equivalent"].append(_worst([one.agreement for one in every]))
    return Findings(
        tables={
            "by-penalty": stacked([_curve(lab, label, one) for label, one in first.items()]),
            "nearest": stacked([_nearest(label, one.check) for label, one in first.items()]),
        },
        measured=measured,
        notes=("The tables are those of the first seed.",) if len(lab.seeds) > 1 else (),
    )


def _check_run(lab: Lab, label: str, seed: int) -> Checked:
    lab.tell(label)
    config = lab.run(label, seed).config
    prompt = lab.draw(config.task, config.points, seed=seed)
    return check(lab, lab.model(label, seed), prompt, _task(config), seed=seed)


def check(
    lab: Lab, learner: Learner[Any], prompt: Prompt, task: LinearRegression, *, seed: int = 0
) -> Checked:
    """Compare a learner with ridge regression at every penalty, and at the expected one."""
    # Without examples all predict nothing: prefix 0 would only make the mean smaller.
    counted = (torch.arange(prompt.points) > 0).expand(prompt.batch, -1)  # (P, n)
    found = bayes_check(
        learner, replace(prompt, scored=counted), noise=task.noise,
        prior_variance=task.prior_variance, penalties=PENALTIES, draws=lab.draws, seed=seed,
    )  # fmt: skip
    answers = predict_in_parts(learner, prompt)  # (P, n, k)
    ridge = predict_in_parts(Ridge(found.expected), prompt)  # (P, n, k)
    return Checked(found, lab.mean(distance(answers, ridge, prompt.dims), seed=seed))


def distance(answers: Tensor, ridge: Tensor, dims: int) -> Tensor:
    """SPD of answers (P, n, k) as figure 1 has it: over d, from one example on. (P,)."""
    return prediction_differences(answers, ridge)[:, 1:].mean(dim=1) / dims


def _task(config: RunConfig) -> LinearRegression:
    if not isinstance(config.task, LinearRegression):
        raise ConfigurationError(f"the task is {config.task_name}, expected linear regression.")
    return config.task


def _worst(several: Sequence[Quantity]) -> Quantity:
    """The largest, with the interval of the largest."""
    return Quantity(
        max(one.value for one in several),
        max(one.low for one in several),
        max(one.high for one in several),
    )


def growth(several: Sequence[Checked]) -> Quantity:
    """The nearest penalty where most is expected over that where least is; ends to ends."""
    ordered = sorted((one.check for one in several), key=lambda check: check.expected)
    least, most = ordered[0], ordered[-1]
    return Quantity(most.best / least.best, most.low / least.high, most.high / least.low)


def _curve(lab: Lab, label: str, one: Checked) -> pd.DataFrame:
    """SPD over d by penalty."""
    dims = _task(lab.run(label).config).dims
    table = one.check.table.assign(label=label)
    for column in ("mean", "median", "low", "high"):
        table[column] = table[column] / dims
    return table


def _nearest(label: str, check: BayesCheck) -> pd.DataFrame:
    values = {"expected": check.expected, "best": check.best, "low": check.low, "high": check.high}
    return record({"label": [label], **{key: [value] for key, value in values.items()}})
