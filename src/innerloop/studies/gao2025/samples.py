"""What the figures of Gao et al. share: errors by in-context sample, and the three models."""

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import pandas as pd
import torch
from torch import Tensor

from innerloop.analysis.error import SLICE, squared_errors
from innerloop.core.iterate import predict
from innerloop.core.learner import Learner, Traits
from innerloop.core.prompt import Prompt
from innerloop.core.task import Task
from innerloop.learners import Ridge
from innerloop.learners.through import Through
from innerloop.studies.claim import Claim, Criterion
from innerloop.studies.gao_representation import features, history_features
from innerloop.studies.lab import Lab
from innerloop.studies.runs import trained
from innerloop.studies.tables import record
from innerloop.tasks import ChainOfThought, RepresentationAR, RepresentationRegression
from innerloop.training.config import RunConfig
from innerloop.training.families import Scale

ALGOFORMER, STANDARD, LOOPED = "AlgoFormer", "standard", "looped"
RECIPES = {STANDARD: "standard", LOOPED: "looped", ALGOFORMER: "algoformer"}
"""The three models by what tables call them, with the first word of their recipes."""
REFERENCE, NOISE = "ridge on Φ", "noise"
LABELS = (*RECIPES, REFERENCE, NOISE)
"""In the order of the colours."""

CLEARLY = Criterion(
    at_most=0.8, reason="two seeds of one model differ by about a quarter: less is better by more"
)
FAR = Criterion(
    at_most=0.5, reason="far ahead is read as a factor of two, several times the seeds'"
)
QUARTER = "over the last quarter of the samples"


def better(other: str, *, criterion: Criterion = CLEARLY, above: str = "") -> Claim:
    """The claim that the AlgoFormer is better than another model; `above` says what is left out."""
    return Claim(
        name=f"beats-{other}",
        sentence=f"The AlgoFormer is better than the {other} transformer.",
        quantity=f"error{above} {QUARTER}, AlgoFormer / {other}",
        criterion=criterion,
        over="seeds",
        ratio=True,
    )


FALLS = Claim(
    name="falls-with-samples",
    sentence="The AlgoFormer's error decreases with the number of in-context samples.",
    quantity="error of the AlgoFormer, last quarter of the samples / first quarter",
    criterion=Criterion(at_most=1.0, reason="a decrease, whichever prompts are drawn"),
    over="prompts",
    ratio=True,
)


def three_models(family: str, scale: Scale, *changes: str) -> dict[str, RunConfig]:
    """The runs of the three models on a family, all of the same number of steps."""
    # At laptop scale the recipes give the stack more steps than the loops; the paper does not.
    steps = ("steps=1200",) if scale == "laptop" else ()
    return {
        label: trained(f"{recipe}-{family}", scale, *changes, *steps)
        for label, recipe in RECIPES.items()
    }


def by_sample(task: Task, values: Tensor) -> Tensor:
    """Values by position (.., n) as values by in-context sample (.., m).

    A series has its first sample once its history is complete; a chain is one sample, of which the
    thoughts are averaged; elsewhere a position is a sample.
    """
    if isinstance(task, RepresentationAR):
        return values[..., task.order - 1 :]  # (.., n - q + 1)
    if isinstance(task, ChainOfThought):
        length = task.layers + 1
        whole = values.shape[-1] // length * length
        chains = values[..., :whole].unflatten(-1, (-1, length))  # (.., m, L + 1)
        return chains[..., : task.layers].mean(dim=-1)  # (.., m)
    return values


def early(errors: Tensor) -> Tensor:
    """The mean over the first quarter of the samples: (P, m) to (P,)."""
    return errors[:, : _quarter(errors)].mean(dim=1)


def late(errors: Tensor) -> Tensor:
    """The mean over the last quarter of the samples: (P, m) to (P,)."""
    return errors[:, -_quarter(errors) :].mean(dim=1)


def _quarter(errors: Tensor) -> int:
    return math.ceil(errors.shape[1] / 4)


def ridge_on_features(task: Task) -> Through:
    """What knows Phi and has only A to find: Bayes' answer, as A is normal and so is the noise."""
    if isinstance(task, RepresentationAR):
        transform, noise = history_features(task.representation, task.order), task.noise
    else:
        assert isinstance(task, RepresentationRegression)
        transform, noise = features(task.representation), task.noise
    return Through(transform, Ridge(noise**2), traits=Traits(), label="Phi")


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class Samples:
    """Errors by sample, (P, m) each, of several learners on the same prompts, by label."""

    errors: dict[str, Tensor]
    above: dict[str, Tensor]
    """The same from the answers without their noise: what a model has above it, on average."""


def sample_errors(
    lab: Lab, runs: Mapping[str, str], seed: int, *, reference: bool = False
) -> Samples:
    """The errors of the models of some runs, by label; with `reference` those of ridge on Phi."""
    config = lab.run(next(iter(runs.values()))).config
    task, points = config.task, config.points
    prompt = lab.draw(task, points, seed=seed)
    learners: dict[str, Learner[Any]] = {label: lab.model(run, seed) for label, run in runs.items()}
    if reference:
        learners[REFERENCE] = ridge_on_features(task)
    errors: dict[str, Tensor] = {}
    above: dict[str, Tensor] = {}
    for label, learner in learners.items():
        lab.tell(label)
        errors[label], above[label] = with_and_without_noise(learner, prompt, task)  # (P, m) each
    return Samples(errors=errors, above=above)


def with_and_without_noise(
    learner: Learner[Any], prompt: Prompt, task: Task
) -> tuple[Tensor, Tensor]:
    """Squared errors over the task's scale by sample, from y and from y without noise: (P, m)."""
    answers = _answers(learner, prompt)  # (P, n, k)
    scale = task.scale_at(prompt.points)  # (n,)
    squares = [squared_errors(answers, right) / scale for right in (prompt, _noiseless(prompt))]
    whole, above = (by_sample(task, found) for found in squares)  # (P, m) each
    return whole, above


def _answers(learner: Learner[Any], prompt: Prompt) -> Tensor:
    """Predictions (P, n, k), some prompts at a time."""
    with torch.no_grad():
        parts = [
            predict(learner, prompt.select(slice(start, start + SLICE)))
            for start in range(0, prompt.batch, SLICE)
        ]
    return torch.cat(parts)


def _noiseless(prompt: Prompt) -> Prompt:
    """The prompt with A Phi for outputs, to score answers by; as it is where there is no Phi."""
    if "features" not in prompt.truth:
        return prompt
    return replace(prompt, ys=prompt.truth["features"] @ prompt.truth["A"])  # (P, n, k)


def noise_level(task: Task, points: int, keys: Mapping[str, object]) -> pd.DataFrame:
    """The noise as a curve of one place, which is drawn as a level; no row without noise."""
    noise = getattr(task, "noise", 0.0)
    value = float(noise**2 / task.scale_at(points)[-1])
    count = 1 if value > 0 else 0
    return record(
        {
            **{key: [told] * count for key, told in keys.items()},
            "examples": [0] * count,
            **{
                column: [value] * count
                for column in ("mean", "median", "low", "high", "seed low", "seed high")
            },
        }
    )
