"""What the figures of Gao et al. share: errors by in-context sample, and the three models."""

import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from typing import Any

import torch

from innerloop.analysis import Measured, Statistic
from innerloop.analysis.error import squared_errors
from innerloop.analysis.similarity import predict_in_parts
from innerloop.core.learner import Learner, Traits
from innerloop.core.prompt import Prompt
from innerloop.core.task import Task
from innerloop.learners import Ridge
from innerloop.learners.through import Through
from innerloop.studies import nulls
from innerloop.studies.claim import Claim, Criterion, Premise, at_most
from innerloop.studies.lab import Lab, Null
from innerloop.studies.runs import trained
from innerloop.studies.study import Measures, Runs, Scale

ALGOFORMER, STANDARD, LOOPED = "AlgoFormer", "standard", "looped"
RECIPES = {STANDARD: "standard", LOOPED: "looped", ALGOFORMER: "algoformer"}
"""The three models by what tables call them, with the first word of their recipes."""
REFERENCE, PER_LAYER, NOISE = "ridge on Φ", "least squares per layer", "noise"
LABELS = (*RECIPES, REFERENCE, NOISE, PER_LAYER)
"""In the order of the colours."""

BETTER = at_most(
    0.9,
    "lower by a tenth in the interval over trainings: less could not be seen on the paper's axis "
    "of three decades, and no model is ahead of itself",
)
FAR = at_most(0.5, "far ahead is read as a factor of two")
SAMPLES, QUARTER = "in-context samples", "over the last quarter of the samples"
ERROR, EXCESS = "error", "excess"
"""The parts of a figure: errors, and what they have beyond the reference's."""
LEARNED = at_most(
    0.01,
    "a hundredth of the error of predicting zero: then the best of them has learned the task, and "
    "the others are compared with a model that solves it",
)
RECIPE = (
    "a faster optimiser (Muon), 12 loops of which 6 count and which grow from 4 in training, width "
    "64, 4 heads, all points from the start"
)
"""What differs from the paper's recipe at all scales but its own."""


def with_noise(label: str, noise: float) -> str:
    """What runs and measures at a level of noise are called."""
    return f"{label}, sigma {noise:g}"


def over(first: str, second: str) -> Statistic:
    """The average of one measure over that of another."""
    return lambda m: m[first] / m[second]


def learned(labels: Iterable[str], *, which: str) -> Premise:
    """That the best of some models has learned the task, by its excess over the reference."""
    names = [f"{label}, last" for label in labels]
    return Premise(
        quantity=f"excess over the reference after the last sample, the least of {which}",
        criterion=LEARNED,
        statistic=lambda m: torch.stack([m[name] for name in names]).amin(dim=0),
    )


def another_seed(label: str) -> str:
    """The null of one architecture against itself, trained with another seed."""
    return f"{label} of another seed"


def itself(label: str) -> str:
    """The null of a model against itself."""
    return f"{label} itself"


LINEAR, UNTRAINED = "linear", "untrained"
"""Nulls: a regression that knows no Phi and no networks in the AlgoFormer's place; no training."""


def better(
    other: str, *, own: str = ALGOFORMER, suffix: str = "", criterion: Criterion = BETTER,
    name: str = "", sentence: str = "", linear: bool = True,
) -> Claim:  # fmt: skip
    """The claim that a model, the AlgoFormer, is better than another, by their excesses.

    `suffix` is that of the runs, and names the task where a figure has several.
    """
    return Claim(
        name=name or f"beats-{other}", ratio=True, criterion=criterion,
        sentence=sentence or f"The AlgoFormer is better than the {other} transformer.",
        quantity=f"excess over the reference {QUARTER}, {own} / {other}{suffix}",
        statistic=over(f"{own}{suffix}, late", f"{other}{suffix}, late"),
        premise=learned([label + suffix for label in RECIPES], which="the three models"),
        excludes=(UNTRAINED, another_seed(other), itself(other), *([LINEAR] if linear else [])),
    )  # fmt: skip


def model_nulls(*suffixes: str, linear: Callable[[Lab, str], Learner[Any]]) -> Mapping[str, Null]:
    """The nulls of `better`: what takes the place of the better model on each of the tasks."""
    own: dict[str, Null] = {
        UNTRAINED: nulls.untrained(),
        LINEAR: nulls.instead(linear, *(ALGOFORMER + suffix for suffix in suffixes)),
    }
    for other, places in ((STANDARD, (ALGOFORMER,)), (LOOPED, (ALGOFORMER, STANDARD))):
        labels = {place + suffix: other + suffix for place in places for suffix in suffixes}
        own[another_seed(other)] = nulls.of_another_seed(labels)
        own[itself(other)] = nulls.swapped(labels)
    return own


def three_models(family: str, scale: Scale, *changes: str, suffix: str = "") -> Runs:
    """The runs of the three models on a family, all of the same number of steps."""
    # At laptop scale the recipes give the stack more steps than the loops; the paper does not.
    steps = ("steps=1200",) if scale == "laptop" else ()
    return {
        label + suffix: trained(f"{recipe}-{family}", scale, *changes, *steps)
        for label, recipe in RECIPES.items()
    }


def late(errors: Measured) -> Measured:
    """The mean over the last quarter of the samples."""
    return errors.at(examples=slice(-math.ceil(errors.values.shape[1] / 4), None)).mean("examples")


def ends(excess: Measures, suffix: str = "") -> dict[str, Measured]:
    """What `better` and its premise take, of excesses by label."""
    return {
        **{f"{label}{suffix}, late": late(own) for label, own in excess.items()},
        **{f"{label}{suffix}, last": own.at(examples=-1) for label, own in excess.items()},
    }


def ridge_on_features(noise: float) -> Through:
    """What knows Phi and has only A to find: Bayes' answer, as A is normal and so is the noise."""

    def features(prompt: Prompt) -> Prompt:
        return Prompt(xs=prompt.truth["features"], ys=prompt.ys)

    return Through(features, Ridge(noise**2), traits=Traits(), label="Phi")


def sample_errors(
    lab: Lab,
    reference: Learner[Any],
    labels: Iterable[str] = RECIPES,
    *,
    suffix: str = "",
    name: str = REFERENCE,
) -> tuple[dict[str, Measured], dict[str, Measured]]:
    """Errors by sample of the runs that labels with a suffix name, and their excesses.

    The reference, which is called `name`, has an error as well. It is the mean of what is asked for
    given all that is known, so that on average the error of any other answer is its own and the
    squared distance from it: that is the excess, which is never negative.
    """
    own = {label: lab.learner(label + suffix) for label in labels}
    config = lab.config(next(iter(own)) + suffix)
    prompt = lab.draw(config.task, config.points)
    best = predict_in_parts(reference, prompt)  # (P, n, k)
    answers = {name: best}
    for label, learner in own.items():
        lab.tell(label)
        answers[label] = predict_in_parts(learner, prompt)  # (P, n, k)
    errors = {label: distances(each, prompt, config.task) for label, each in answers.items()}
    right = replace(prompt, ys=best)
    excess = {label: distances(answers[label], right, config.task) for label in own}
    return (
        {label: replace(each, label=label) for label, each in errors.items()},
        {label: replace(each, label=label) for label, each in excess.items()},
    )


def distances(answers: torch.Tensor, prompt: Prompt, task: Task) -> Measured:
    """Squared distances of answers (P, n, k) from y over the task's scale, by sample: (P, m)."""
    squares = squared_errors(answers, prompt) / task.scale_at(prompt.points)  # (P, n)
    return Measured(values=task.by_sample(squares), axes=("examples",), scale="log")


def noise_level(noise: float, task: Task, points: int) -> Measured:
    """The noise's variance over the task's scale, at one place, which is drawn as a level."""
    value = noise**2 / task.scale_at(points)[-1:]  # (1,)
    return replace(Measured.exact(value, "examples"), label=NOISE)


def keyed(measures: Measures, suffix: str = "", **keys: object) -> dict[str, Measured]:
    """The measures with further columns in their tables, and with a suffix to their names."""
    return {f"{name}{suffix}": replace(each, keys=keys) for name, each in measures.items()}
