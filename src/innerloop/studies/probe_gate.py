"""When a probe has decoded something that training put there, and nulls of what it would find.

A target that probes leave half unexplained, or find as well in a model that was never trained, says
nothing of where and when a trained model computes it.
"""

from collections.abc import Mapping, Sequence
from copy import deepcopy
from functools import lru_cache
from typing import Any
from weakref import WeakKeyDictionary

import torch
from torch import Tensor

from innerloop.analysis import Averages, Probing, RidgeSettings
from innerloop.analysis.probing import ProbeSettings, Target, probe_several
from innerloop.core.learner import Learner
from innerloop.models.model import AnyModel
from innerloop.studies.claim import Premise, at_most
from innerloop.studies.lab import Lab
from innerloop.training.config import RunConfig
from innerloop.training.trainer import first_model

UNDECODED = 0.25
"""The share of a target's variance above which nothing is decoded that could be located: an error
of half of the target's deviation."""
BY_TRAINING = 0.5
"""Of what is left of an embedding and of an untrained model: with half of it, most of what is known
is the work of the training."""

_REMEMBERED: WeakKeyDictionary[Learner[Any], dict[object, Mapping[str, Probing]]]
_REMEMBERED = WeakKeyDictionary()
"""Probes that were fitted, by learner and by all else that determines them."""


def left(m: Averages, errors: str) -> Tensor:
    """The share of the variance that probes leave at their best step: (..)."""
    return m[errors].amin(dim=-1)


def beside_untrained(m: Averages, errors: str, without: str) -> Tensor:
    """The same over what they leave at step 0, or at the best step of an untrained model: (..)."""
    by_chance = torch.minimum(m[errors][..., 0], m[without].amin(dim=-1))  # (..)
    return left(m, errors) / by_chance


def decoded(errors: str, without: str) -> Premise:
    """Probes decode a target, and by what was trained.

    `errors` and `without` are measures of the trained and of an untrained model along steps from 0
    on: shares of the target's variance.
    """

    def statistic(m: Averages) -> Tensor:
        shares = left(m, errors) / UNDECODED, beside_untrained(m, errors, without) / BY_TRAINING
        return torch.maximum(*shares)

    return Premise(
        quantity="the larger of: share of the target's variance that the probe leaves at the best "
        f"step, / {UNDECODED:g}; that over what it leaves at step 0 or at the best step of an "
        f"untrained model, / {BY_TRAINING:g}",
        criterion=at_most(
            1.0,
            "an error of half of the target's deviation, most of it explained by training: with "
            "more, nothing was decoded that could be located",
        ),
        statistic=statistic,
    )


@torch.no_grad()
def embedding_alone(lab: Lab) -> Mapping[str, AnyModel]:
    """The trained models without what their blocks add: all that is left is the embedding."""
    models = {label: deepcopy(lab.model(label)) for label in lab.labels}
    for model in models.values():
        for name, weights in model.named_parameters():
            if name.startswith("backbone.blocks.") and (".outward." in name or ".down." in name):
                weights.zero_()
    return models


def untrained(lab: Lab) -> Mapping[str, AnyModel]:
    """The models before their first step: for one configuration always the same object."""
    # Configurations are frozen, which pyright does not see.
    return {
        label: _before_training(lab.config(label))  # pyright: ignore[reportArgumentType]
        for label in lab.labels
    }


@lru_cache(maxsize=16)
def _before_training(config: RunConfig) -> AnyModel:
    return first_model(config)


def fit_probes(
    lab: Lab,
    learner: Learner[Any],
    label: str,
    targets: Mapping[str, Target],
    *,
    prompts: int,
    at_steps: Sequence[int],
    at_prefixes: Sequence[int],
    axis: str,
    settings: ProbeSettings | RidgeSettings,
) -> Mapping[str, Probing]:
    """Probes for several targets in a learner, on the task of a label.

    They are remembered as long as the learner is there: those of the untrained models, which stand
    beside the trained ones and beside every null, are fitted once.
    """
    known = _REMEMBERED.setdefault(learner, {})
    key = (
        lab.study, lab.scale, lab.seed, label, *targets.items(), prompts, tuple(at_steps),
        tuple(at_prefixes), axis, settings,
    )  # fmt: skip
    if key not in known:
        task, points = lab.config(label).task, lab.config(label).points
        known[key] = probe_several(
            learner, lab.draw(task, points, prompts=prompts, purpose="probes"), targets,
            held_out=lab.draw(task, points), at_steps=at_steps, at_prefixes=at_prefixes, axis=axis,
            settings=settings, seed=lab.seed,
        )  # fmt: skip
    return known[key]
