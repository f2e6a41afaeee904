"""When a probe has decoded something that training put there, and nulls of what it would find.

A target that probes leave half unexplained, or find as well in a model that was never trained, says
nothing of where and when a trained model computes it.
"""

from collections.abc import Mapping
from copy import deepcopy

import torch
from torch import Tensor

from innerloop.analysis import Averages
from innerloop.models.model import AnyModel
from innerloop.studies.claim import Premise, at_most
from innerloop.studies.lab import Lab

UNDECODED = 0.25
"""The share of a target's variance above which nothing is decoded that could be located: an error
of half of the target's deviation."""
BY_TRAINING = 0.5
"""Of what is left of an embedding and of an untrained model: with half of it, most of what is known
is the work of the training."""


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
