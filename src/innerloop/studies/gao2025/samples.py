"""What the figures of Gao et al. share: errors by in-context sample, and the three models."""

import math
from collections.abc import Iterable
from dataclasses import replace
from typing import Any

from innerloop.analysis import Measured, Statistic
from innerloop.analysis.error import squared_errors
from innerloop.analysis.similarity import predict_in_parts
from innerloop.core.learner import Learner, Traits
from innerloop.core.prompt import Prompt
from innerloop.core.task import Task
from innerloop.learners import Ridge
from innerloop.learners.through import Through
from innerloop.studies.claim import Claim, Criterion, at_most
from innerloop.studies.lab import Lab
from innerloop.studies.runs import trained
from innerloop.studies.study import Measures, Runs, Scale

ALGOFORMER, STANDARD, LOOPED = "AlgoFormer", "standard", "looped"
RECIPES = {STANDARD: "standard", LOOPED: "looped", ALGOFORMER: "algoformer"}
"""The three models by what tables call them, with the first word of their recipes."""
REFERENCE, NOISE = "ridge on Φ", "noise"
LABELS = (*RECIPES, REFERENCE, NOISE)
"""In the order of the colours."""

CLEARLY = at_most(0.8, "two seeds of one model differ by about a quarter: less is better by more")
FAR = at_most(0.5, "far ahead is read as a factor of two, several times the seeds'")
SAMPLES, QUARTER = "in-context samples", "over the last quarter of the samples"
ABOVE = " above the noise"


def with_noise(label: str, noise: float) -> str:
    """What runs and measures at a level of noise are called."""
    return f"{label}, sigma {noise:g}"


def over(first: str, second: str) -> Statistic:
    """The average of one measure over that of another."""
    return lambda m: m[first] / m[second]


def better(other: str, *, criterion: Criterion = CLEARLY, above: str = "") -> Claim:
    """The claim that the AlgoFormer is better than another model; `above` says what is left out."""
    return Claim(
        name=f"beats-{other}", ratio=True, criterion=criterion,
        sentence=f"The AlgoFormer is better than the {other} transformer.",
        quantity=f"error{above} {QUARTER}, AlgoFormer / {other}",
        statistic=over(f"{ALGOFORMER}{above}, late", f"{other}{above}, late"),
    )  # fmt: skip


FALLS = Claim(
    name="falls-with-samples", ratio=True,
    sentence="The AlgoFormer's error decreases with the number of in-context samples.",
    quantity="error of the AlgoFormer, last quarter of the samples / first quarter",
    statistic=over(f"{ALGOFORMER}, late", f"{ALGOFORMER}, early"),
    criterion=at_most(1.0, "a decrease, whichever prompts are drawn"),
)  # fmt: skip


def three_models(
    family: str, scale: Scale, *, noise: float | None = None, suffix: str = ""
) -> Runs:
    """The runs of the three models on a family, all of the same number of steps."""
    changes = () if noise is None else (f"task.noise={noise:g}",)
    # At laptop scale the recipes give the stack more steps than the loops; the paper does not.
    changes += ("steps=1200",) if scale == "laptop" else ()
    return {
        label + suffix: trained(f"{recipe}-{family}", scale, *changes)
        for label, recipe in RECIPES.items()
    }


def early(errors: Measured) -> Measured:
    """The mean over the first quarter of the samples."""
    return errors.at(examples=slice(math.ceil(errors.values.shape[1] / 4))).mean("examples")


def late(errors: Measured) -> Measured:
    """The mean over the last quarter of the samples."""
    return errors.at(examples=slice(-math.ceil(errors.values.shape[1] / 4), None)).mean("examples")


def quarters(errors: Measures, above: str = "") -> dict[str, Measured]:
    """What `better` and `FALLS` compare, of errors by sample by label."""
    return {
        f"{ALGOFORMER}{above}, early": early(errors[ALGOFORMER]),
        **{f"{label}{above}, late": late(errors[label]) for label in RECIPES},
    }


def ridge_on_features(noise: float) -> Through:
    """What knows Phi and has only A to find: Bayes' answer, as A is normal and so is the noise."""

    def features(prompt: Prompt) -> Prompt:
        return Prompt(xs=prompt.truth["features"], ys=prompt.ys)

    return Through(features, Ridge(noise**2), traits=Traits(), label="Phi")


def sample_errors(
    lab: Lab, labels: Iterable[str] = RECIPES, *, suffix: str = "", noise: float | None = None
) -> tuple[dict[str, Measured], dict[str, Measured]]:
    """Errors by sample of the runs that labels with a suffix name, and how far they are from A Phi.

    With `noise` also those of ridge on Phi, and the noise as a curve of one place: a level.
    """
    learners: dict[str, Learner[Any]] = {label: lab.learner(label + suffix) for label in labels}
    config = lab.config(next(iter(learners)) + suffix)
    prompt = lab.draw(config.task, config.points)
    if noise is not None:
        learners[REFERENCE] = ridge_on_features(noise)
    errors: dict[str, Measured] = {}
    above: dict[str, Measured] = {}
    for label, learner in learners.items():
        lab.tell(label)
        each = with_and_without_noise(learner, prompt, config.task)
        errors[label], above[label] = (replace(one, label=label) for one in each)
    if noise:
        errors[NOISE] = noise_level(noise, config.task, config.points)
    return errors, above


def with_and_without_noise(
    learner: Learner[Any], prompt: Prompt, task: Task
) -> tuple[Measured, Measured]:
    """Squared errors over the task's scale by sample, from y and from y without noise, A Phi.

    Without Phi there is no noise.
    """
    answers = predict_in_parts(learner, prompt)  # (P, n, k)
    right = prompt
    if "features" in prompt.truth:
        right = replace(prompt, ys=prompt.truth["features"] @ prompt.truth["A"])  # (P, n, k)
    scale = task.scale_at(prompt.points)  # (n,)
    squares = (squared_errors(answers, each) / scale for each in (prompt, right))  # (P, n) each
    whole, above = (
        Measured(values=task.by_sample(each), axes=("examples",), scale="log") for each in squares
    )  # (P, m) each
    return whole, above


def noise_level(noise: float, task: Task, points: int) -> Measured:
    """The noise's variance over the task's scale, at one place, which is drawn as a level."""
    value = noise**2 / task.scale_at(points)[-1:]  # (1,)
    return replace(Measured.exact(value, "examples"), label=NOISE)


def keyed(measures: Measures, suffix: str = "", **keys: object) -> dict[str, Measured]:
    """The measures with further columns in their tables, and with a suffix to their names."""
    return {f"{name}{suffix}": replace(each, keys=keys) for name, each in measures.items()}
