"""Figure 1: which algorithm a trained model agrees with, by the number of examples.

Agreement is the squared prediction difference (SPD) over d, and the distance of implicit linear
weights (ILW) over d. Shapes: P prompts, n points, A algorithms.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import torch
from matplotlib.figure import Figure
from torch import Tensor

from innerloop.analysis.induced import induced_weights
from innerloop.analysis.similarity import (
    predict_in_parts,
    prediction_differences,
    weight_differences,
)
from innerloop.core.learner import Learner
from innerloop.core.prompt import Prompt
from innerloop.core.task import Task
from innerloop.learners import (
    OLS,
    GradientDescent,
    NearestNeighbors,
    OnlineGradientDescent,
    Ridge,
)
from innerloop.studies.claim import Claim, Criterion
from innerloop.analysis.drawing import draw_curves, legend, name, panels
from innerloop.studies.lab import Lab
from innerloop.studies.quantity import Quantity, estimate
from innerloop.studies.runs import trained
from innerloop.studies.study import Findings, Tables, declare
from innerloop.studies.tables import curve, rows_where, stacked
from innerloop.training.config import RunConfig
from innerloop.training.families import Scale

LEAST_SQUARES, RIDGE, STEP, PASS, NEAREST, WEIGHTED = (
    "least squares",
    "ridge, 0.1",
    "gradient descent, one step",
    "SGD, one pass",
    "3 nearest neighbours",
    "3 nearest, weighted",
)
ALGORITHMS = (LEAST_SQUARES, RIDGE, STEP, PASS, NEAREST, WEIGHTED)
"""What models are compared with, in this order everywhere."""
AGREEMENT = 0.01
"""The paper's number for what agrees: SPD / d or ILW / d below it."""
AGREES = Criterion(
    at_most=AGREEMENT, reason="the paper's number for what agrees: a squared error below 0.01"
)
ALMOST_ANY = Criterion(at_least=0.9, reason="almost any: nine numbers of examples in ten")


def algorithms(lab: Lab, task: Task, points: int, *, seed: int = 0) -> dict[str, Learner[Any]]:
    """The reference algorithms by name.

    The paper does not print its step sizes. They are those that err least on the task, over all
    prefixes, and so depend on no model: of the sum of squares or of their mean for one step.
    """
    number = lab.choose(smoke=64, laptop=512, paper=512)
    prompt = lab.draw(task, points, seed=seed, prompts=number, purpose="tune")
    sizes = [2.0 ** (-exponent / 2) for exponent in range(17)]  # 1 to 0.004
    steps: list[Learner[Any]] = [
        GradientDescent(1, step_size=size, average=average)
        for size in sizes
        for average in (False, True)
    ]
    passes: list[Learner[Any]] = [OnlineGradientDescent(size) for size in sizes]
    return {
        LEAST_SQUARES: OLS(),
        RIDGE: Ridge(0.1),
        STEP: _of_least_error(lab, steps, prompt, task),
        PASS: _of_least_error(lab, passes, prompt, task),
        NEAREST: NearestNeighbors(3),
        WEIGHTED: NearestNeighbors(3, weights="distance"),
    }


def _of_least_error(
    lab: Lab, learners: Sequence[Learner[Any]], prompt: Prompt, task: Task
) -> Learner[Any]:
    return min(learners, key=lambda learner: float(lab.errors(learner, prompt, task).mean()))


def prediction_distances(
    lab: Lab, model: Learner[Any], others: Mapping[str, Learner[Any]], prompt: Prompt, task: Task
) -> dict[str, Tensor]:
    """SPD of the model from each algorithm, over the task's scale: (P, n) each."""
    scale = task.scale_at(prompt.points)  # (n,)
    lab.tell(model.name)
    own = predict_in_parts(model, prompt)  # (P, n, k)
    found: dict[str, Tensor] = {}
    for label, other in others.items():
        lab.tell(label)
        found[label] = prediction_differences(own, predict_in_parts(other, prompt)) / scale
    return found


def weight_distances(
    lab: Lab, model: Learner[Any], others: Mapping[str, Learner[Any]], prompt: Prompt, seed: int
) -> dict[str, Tensor]:
    """ILW of the model from each algorithm, over d: (P, n) each."""
    queries = lab.choose(smoke=16, laptop=50, paper=100)
    lab.tell(f"implicit weights, {model.name}")
    own = induced_weights(model, prompt, queries=queries, seed=seed)  # (P, n, d, k)
    found: dict[str, Tensor] = {}
    for label, other in others.items():
        lab.tell(f"implicit weights, {label}")
        weights = induced_weights(other, prompt, queries=queries, seed=seed)  # (P, n, d, k)
        found[label] = weight_differences(own, weights) / prompt.dims
    return found


def share_that_agrees(lab: Lab, distances: Tensor, seed: int) -> Quantity:
    """The share of the numbers of examples, from 1 on, at which distances (P, n) average < 0.01."""
    return estimate(
        lambda means: (means < AGREEMENT).double().mean(dim=-1), distances[:, 1:], draws=lab.draws,
        generator=lab.generator("bootstrap", seed),
    )  # fmt: skip


def nearer(lab: Lab, distances: Mapping[str, Tensor], own: Sequence[str], seed: int) -> Quantity:
    """Distance from the nearest of some algorithms over that from the nearest of all others.

    Over all numbers of examples but none, where all predict nothing.
    """
    values = torch.stack([distances[label][:, 1:].mean(dim=1) for label in ALGORITHMS], dim=1)
    chosen = torch.tensor([label in own for label in ALGORITHMS])  # (A,)
    return estimate(
        lambda means: means[..., chosen].amin(dim=-1) / means[..., ~chosen].amin(dim=-1),
        values,  # (P, A)
        draws=lab.draws,
        generator=lab.generator("bootstrap", seed),
    )


def _fig1_runs(scale: Scale) -> Mapping[str, RunConfig]:
    return {"model": trained("akyurek-linear", scale)}


def _draw_fig1(tables: Tables) -> Figure:
    figure, (left, right) = panels(2, columns=2, size=(4.4, 3.4))
    for axes, measure, title in (
        (left, "SPD", "predictions (SPD)"),
        (right, "ILW", "implicit linear weights (ILW)"),
    ):
        rows = rows_where(tables["by-examples"], {"measure": measure})
        draw_curves(axes, rows, x="examples", order=ALGORITHMS)
        name(axes, title=title, x="examples in the prompt", y=f"{measure} / d")
    legend(figure, (left, right), columns=3)
    return figure


@declare(
    paper="akyurek2022",
    id="fig1",
    title="A trained model agrees with least squares, not with other algorithms",
    claims=(
        Claim(
            name="predictions",
            sentence="For almost any number of examples it predicts as least squares does.",
            quantity="share of the numbers of examples, from 1 on, at which SPD from least squares "
            "/ d is below 0.01",
            criterion=ALMOST_ANY,
            over="prompts",
            paper="almost any",
        ),
        Claim(
            name="implicit-weights",
            sentence="For almost any number of examples its implicit linear weights are those of "
            "least squares.",
            quantity="share of the numbers of examples, from 1 on, at which ILW from least squares "
            "/ d is below 0.01",
            criterion=ALMOST_ANY,
            over="prompts",
            paper="almost any",
        ),
        Claim(
            name="minimum-norm",
            sentence="With fewer examples than dimensions it predicts as least squares of minimum "
            "norm does.",
            quantity="SPD from least squares / d, mean over 1 to d - 1 examples",
            criterion=AGREES,
            over="prompts",
            ratio=True,
            paper="< 0.01",
        ),
        Claim(
            name="others-agree-less",
            sentence="Ridge regression with 0.1, one step of gradient descent, one pass of SGD and "
            "nearest neighbours agree considerably less well.",
            quantity="SPD from least squares / SPD from the nearest other, all prefixes",
            criterion=Criterion(
                at_most=0.5, reason="considerably: twice as far, which no change of seed makes"
            ),
            over="prompts",
            ratio=True,
        ),
        Claim(
            name="neighbours",
            sentence="Nearest neighbours agree least of all.",
            quantity="SPD from the farthest other but neighbours / SPD from the nearer neighbours",
            criterion=Criterion(at_most=1.0, reason="farther than all others, however little"),
            over="prompts",
            ratio=True,
        ),
    ),
    draw=_draw_fig1,
    runs=_fig1_runs,
    minutes={"smoke": 0.2, "laptop": 9, "paper": 5000},
    smaller={
        "smoke": "3 dimensions, 6 examples, 2 layers of width 16, 20 steps.",
        "laptop": "5 dimensions instead of 8, 10 examples instead of 40, 8 layers of width 64 "
        "instead of 16 of 512, 2000 steps of a faster optimiser; implicit weights from 50 "
        "queries on 256 prompts.",
    },
)
def fig1(lab: Lab) -> Findings:
    """SPD and ILW by the number of examples."""
    config = lab.run("model").config
    spd: dict[str, list[Tensor]] = {label: [] for label in ALGORITHMS}
    ilw: dict[str, list[Tensor]] = {label: [] for label in ALGORITHMS}
    measured: dict[str, list[Quantity]] = {claim.name: [] for claim in fig1.claims}
    for seed in lab.seeds:
        model = lab.model("model", seed)
        others = algorithms(lab, config.task, config.points, seed=seed)
        prompt = lab.draw(config.task, config.points, seed=seed)
        distances = prediction_distances(lab, model, others, prompt, config.task)
        few = prompt.select(slice(0, lab.choose(smoke=16, laptop=256, paper=1280)))
        weights = weight_distances(lab, model, others, few, seed)
        for label in ALGORITHMS:
            spd[label].append(distances[label])
            ilw[label].append(weights[label])
        under = distances[LEAST_SQUARES][:, 1 : prompt.dims].mean(dim=1)  # (P,)
        measured["predictions"].append(share_that_agrees(lab, distances[LEAST_SQUARES], seed))
        measured["implicit-weights"].append(share_that_agrees(lab, weights[LEAST_SQUARES], seed))
        measured["minimum-norm"].append(lab.mean(under, seed=seed))
        measured["others-agree-less"].append(nearer(lab, distances, (LEAST_SQUARES,), seed))
        measured["neighbours"].append(_farthest(lab, distances, seed))
    curves = [
        curve(lab, found[label], "examples", {"measure": measure, "label": label})
        for measure, found in (("SPD", spd), ("ILW", ilw))
        for label in ALGORITHMS
    ]
    table = stacked(curves)
    # Without examples all predict nothing.
    return Findings(tables={"by-examples": table.loc[table["examples"] > 0, :]}, measured=measured)


def _farthest(lab: Lab, distances: Mapping[str, Tensor], seed: int) -> Quantity:
    """The largest distance of all but neighbours over the smaller one of these."""
    values = torch.stack([distances[label][:, 1:].mean(dim=1) for label in ALGORITHMS], dim=1)
    near = torch.tensor([label in (NEAREST, WEIGHTED) for label in ALGORITHMS])  # (A,)
    return estimate(
        lambda means: means[..., ~near].amax(dim=-1) / means[..., near].amin(dim=-1),
        values,  # (P, A)
        draws=lab.draws,
        generator=lab.generator("bootstrap", seed),
    )
