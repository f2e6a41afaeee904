"""Figure 1: which algorithm a trained model agrees with, by the number of examples.

Agreement is the squared prediction difference (SPD) over d, and the distance of implicit linear
weights (ILW) over d. Shapes: P prompts, n points.
"""

from collections.abc import Callable, Iterable, Mapping
from functools import partial
from typing import Any

import torch
from matplotlib.figure import Figure
from torch import Tensor

from innerloop.analysis import Measured, drawing, induced_weights
from innerloop.analysis.similarity import (
    predict_in_parts,
    prediction_differences,
    weight_differences,
)
from innerloop.core.learner import Learner
from innerloop.core.prompt import Prompt
from innerloop.core.task import Task
from innerloop.learners import OLS, GradientDescent, NearestNeighbors, OnlineGradientDescent, Ridge
from innerloop.studies import nulls
from innerloop.studies.claim import Claim, Premise, at_least, at_most
from innerloop.studies.lab import Lab, Null
from innerloop.studies.runs import trained
from innerloop.studies.study import Measures, Runs, Scale, Tables, declare

ALGORITHMS = LEAST_SQUARES, RIDGE, STEP, PASS, NEAREST, WEIGHTED = (
    "least squares",
    "ridge, 0.1",
    "gradient descent, one step",
    "SGD, one pass",
    "3 nearest neighbours",
    "3 nearest, weighted",
)
"""What models are compared with, in this order everywhere."""
Learners = Mapping[str, Learner[Any]]
AGREEMENT = 0.01
"""The paper's number for what agrees: SPD / d or ILW / d below it."""
CONSIDERABLY = 0.5
"""Agreement with others is considerably worse where they are twice as far: no seed makes that."""
UNTRAINED, NEARLY = "untrained", "ridge, 0.03"
"""Nulls beside the algorithms; the second is between least squares and ridge with 0.1."""
_GROW = ("curriculum.points.start=11", "curriculum.points.by=3")
EXAMPLES: dict[Scale, tuple[str, ...]] = {
    "smoke": (),
    # With 41 points from the start (16 prompts per step), or 32 prompts instead of 64, the loss
    # has hardly moved after 400 steps; so, it is at 0.4 after 200, as that of 11 points is.
    "laptop": ("points=41", "steps=2000", *_GROW, "curriculum.points.every=0.08"),
    "desk": ("batch=32", *_GROW, "curriculum.points.every=0.04"),
    "paper": (),
}
"""What makes 40 examples of the recipe's, as the paper has; at smoke scale there are 6."""
_SMALLER = (
    "8 layers of width 64 instead of 16 of 512, {} prompts by Muon instead of 500,000 of 64 by "
    "Adam, prompts that grow from 10 to 40 examples in the first {} of the steps"
)
RECIPE: dict[Scale, str] = {
    "laptop": f"5 dimensions instead of 8, {_SMALLER.format('2000 steps of 64', '80%')}",
    "desk": f"{_SMALLER.format('12,000 steps of 32', '40%')} and from 2 to 8 dimensions",
}
"""What is smaller than in the paper in all studies of models with 40 examples."""


def algorithms(lab: Lab, task: Task, points: int) -> dict[str, Learner[Any]]:
    """The reference algorithms by name.

    The paper does not print its step sizes. They are those that err least on the task, over all
    prefixes, and so depend on no model: of the sum of squares or of their mean for one step.
    """
    number = lab.choose(smoke=64, laptop=512, paper=512)
    prompt = lab.draw(task, points, prompts=number, purpose="tune")

    def of_least_error(learners: Iterable[Learner[Any]]) -> Learner[Any]:
        return min(learners, key=lambda one: float(lab.error(one, prompt, task).values.mean()))

    sizes = [2.0 ** (-exponent / 2) for exponent in range(17)]  # 1 to 0.004
    steps = (GradientDescent(1, step_size=size, average=average)
             for size in sizes for average in (False, True))  # fmt: skip
    return {
        LEAST_SQUARES: OLS(),
        RIDGE: Ridge(0.1),
        STEP: of_least_error(steps),
        PASS: of_least_error(OnlineGradientDescent(size) for size in sizes),
        NEAREST: NearestNeighbors(3),
        WEIGHTED: NearestNeighbors(3, weights="distance"),
    }


def prediction_distances(
    lab: Lab, model: Learner[Any], others: Learners, prompt: Prompt, task: Task
) -> dict[str, Measured]:
    """SPD of the model from each algorithm over the task's scale, from one example on."""
    own, scale = predict_in_parts(model, prompt), task.scale_at(prompt.points)  # (P, n, k), (n,)

    def distances(other: Learner[Any]) -> Tensor:
        return prediction_differences(own, predict_in_parts(other, prompt)) / scale  # (P, n)

    return _by_examples(lab, "SPD", others, distances)


def weight_distances(
    lab: Lab, model: Learner[Any], others: Learners, prompt: Prompt
) -> dict[str, Measured]:
    """ILW of the model from each algorithm over d, from one example on."""
    queries = lab.choose(smoke=16, laptop=50, paper=100)
    weights = partial(induced_weights, prompt=prompt, queries=queries, seed=lab.seed)
    own = weights(model)  # (P, n, d, k)

    def distances(other: Learner[Any]) -> Tensor:
        return weight_differences(own, weights(other)) / prompt.dims  # (P, n)

    return _by_examples(lab, "ILW", others, distances)


def _by_examples(
    lab: Lab, measure: str, others: Learners, distances: Callable[[Learner[Any]], Tensor]
) -> dict[str, Measured]:
    """Distances (P, n) from each algorithm by label; without examples all predict nothing."""
    measures: dict[str, Measured] = {}
    for label, other in others.items():
        lab.tell(f"{measure}, {label}")
        every = Measured(
            values=distances(other), axes=("examples",), label=label, keys={"measure": measure},
            scale="log",
        )  # fmt: skip
        measures[label] = every.at(examples=slice(1, None))
    return measures


def in_the_place_of(label: str, *places: str) -> Null:
    """One of the reference algorithms in the places of models."""

    def stand_in(lab: Lab, place: str) -> Learner[Any]:
        config = lab.config(place)
        return algorithms(lab, config.task, config.points)[label]

    return nulls.instead(stand_in, *places)


def nearer(means: Mapping[str, Tensor], own: str) -> Tensor:
    """The distance (..) from one algorithm over that from the nearest of all others."""
    others = torch.stack([mean for label, mean in means.items() if label != own])  # (A - 1, ..)
    return means[own] / others.amin(dim=0)


def _over_prefixes(m: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """SPD (..) by algorithm, over all numbers of examples."""
    return {label: m[f"SPD, {label}"].mean(dim=-1) for label in ALGORITHMS}


def _minimum_norm(m: Mapping[str, Tensor]) -> Tensor:
    """SPD from least squares over the most that it may be, with few examples: (..)."""
    few = {label: m[f"few examples, {label}"] for label in ALGORITHMS}  # (..) each
    ratio = nearer(few, LEAST_SQUARES) / CONSIDERABLY  # (..)
    return torch.maximum(few[LEAST_SQUARES] / AGREEMENT, ratio)


def _farthest(m: Mapping[str, Tensor]) -> Tensor:
    """The largest distance (..) of all but neighbours over the smaller one of these."""
    *others, nearest, weighted = _over_prefixes(m).values()  # (..) each
    return torch.stack(others).amax(dim=0) / torch.minimum(nearest, weighted)


LEARNED = Premise(
    quantity="error after the last example, over d",
    # Least squares is exact there: the distance from it is the error.
    statistic=lambda m: m[f"SPD, {LEAST_SQUARES}"][..., -1],
    criterion=at_most(
        AGREEMENT,
        "the paper's number for what agrees: above it with the most examples, where least squares "
        "is exact, the model has not learned the task, and its distances are errors of training",
    ),
)


def _agrees(name: str, sentence: str, measure: str) -> Claim:
    """That for almost any number of examples the mean distance from least squares is small."""
    key = f"{measure}, {LEAST_SQUARES}"
    return Claim(
        name=name,
        sentence=f"For almost any number of examples {sentence}.",
        quantity=f"share of the numbers of examples, from 1 on, at which {measure} from least "
        "squares / d is below 0.01",
        statistic=lambda m: (m[key] < AGREEMENT).double().mean(dim=-1),
        criterion=at_least(
            0.95, "almost any: all but one in twenty; ridge with 0.1, which the paper says agrees "
            "considerably less well, has nine in ten"
        ),
        paper="almost any",
        premise=LEARNED,
        excludes=(UNTRAINED, *ALGORITHMS[1:]),
    )  # fmt: skip


def linear_runs(scale: Scale) -> Runs:
    """The paper's main model, with its 40 examples."""
    return {"model": trained("akyurek-linear", scale, *EXAMPLES[scale])}


def _draw_fig1(tables: Tables) -> Figure:
    titles = {"SPD": "predictions (SPD)", "ILW": "implicit linear weights (ILW)"}
    figure, axes = drawing.facets(
        tables["by-examples"], "measure", x="examples", title=titles.__getitem__,
        order=ALGORITHMS, columns=2, size=(4.4, 3.4),
    )  # fmt: skip
    for measure, panel in axes.items():
        panel.set_ylabel(f"{measure} / d")
        drawing.level(panel, AGREEMENT, label=f"small: below {AGREEMENT:g}", colour="0.2")
    drawing.legend(figure, axes.values(), columns=3)
    return figure


@declare(
    paper="akyurek2022",
    id="fig1",
    title="A trained model agrees with least squares, not with other algorithms",
    claims=(
        _agrees("predictions", "it predicts as least squares does", "SPD"),
        _agrees(
            "implicit-weights", "its implicit linear weights are those of least squares", "ILW"
        ),
        Claim(
            name="minimum-norm",
            sentence="With fewer examples than dimensions it predicts as least squares of minimum "
            "norm does.",
            quantity="SPD from least squares, mean over 1 to d - 1 examples, over the smaller of "
            "0.01 d and half of the SPD from the nearest other",
            statistic=_minimum_norm,
            criterion=at_most(
                1.0,
                "the paper's number for what agrees; and others agree considerably less well, "
                "ridge with 0.1 among them, which is itself within 0.01",
            ),
            ratio=True,
            paper="< 1",
            premise=LEARNED,
            excludes=(UNTRAINED, RIDGE, NEARLY, STEP),
        ),
        Claim(
            name="others-agree-less",
            sentence="Ridge regression with 0.1, one step of gradient descent, one pass of SGD and "
            "nearest neighbours agree considerably less well.",
            quantity="SPD from least squares / SPD from the nearest other, all prefixes",
            statistic=lambda m: nearer(_over_prefixes(m), LEAST_SQUARES),
            criterion=at_most(
                CONSIDERABLY, "considerably: twice as far, which no change of seed makes"
            ),
            ratio=True,
            premise=LEARNED,
            excludes=(UNTRAINED, NEARLY, *ALGORITHMS[1:]),
        ),
        Claim(
            name="neighbours",
            sentence="Nearest neighbours agree least of all.",
            quantity="SPD from the farthest other but neighbours / SPD from the nearer neighbours",
            statistic=_farthest,
            criterion=at_most(1.0, "farther than all others, however little"),
            ratio=True,
            # True of other linear algorithms as well: the null is what is none.
            premise=LEARNED,
            excludes=(UNTRAINED, NEAREST, WEIGHTED),
        ),
    ),
    draw=_draw_fig1,
    runs=linear_runs,
    nulls={
        UNTRAINED: nulls.untrained(),
        NEARLY: nulls.instead(lambda lab, label: Ridge(0.03)),
        **{label: in_the_place_of(label) for label in ALGORITHMS[1:]},
    },
    minutes={"smoke": 0.3, "laptop": 15, "desk": 50, "paper": 5000},
    smaller={
        "smoke": "3 dimensions, 6 examples, 2 layers of width 16, 20 steps.",
        "laptop": f"{RECIPE['laptop']}; implicit weights from 50 queries on 256 prompts.",
        "desk": f"{RECIPE['desk']}; implicit weights from 50 queries on 256 prompts.",
    },
    notes=(
        "Of 40 numbers of examples two may be above 0.01. At n = d, where least squares has its "
        "peak, and on both sides of it are three: where models have learned the task, it is this "
        "peak alone that decides.",
    ),
)
def fig1(lab: Lab) -> Measures:
    """SPD and ILW by the number of examples."""
    config, model = lab.config("model"), lab.learner("model")
    others = algorithms(lab, config.task, config.points)
    prompt = lab.draw(config.task, config.points)
    spd = prediction_distances(lab, model, others, prompt, config.task)
    some = prompt.select(slice(0, lab.choose(smoke=16, laptop=256, paper=1280)))
    ilw = weight_distances(lab, model, others, some)
    few = slice(prompt.dims - 1)  # 1 to d - 1
    return {
        **{f"SPD, {label}": distances for label, distances in spd.items()},
        **{f"ILW, {label}": distances for label, distances in ilw.items()},
        **{
            f"few examples, {label}": distances.at(examples=few).mean("examples")
            for label, distances in spd.items()
        },
    }
