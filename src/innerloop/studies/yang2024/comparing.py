"""What comparisons of looped and standard models share: premises of several parts, and nulls."""

from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch import Tensor

from innerloop.analysis import Averages, Statistic
from innerloop.core.learner import Learner
from innerloop.studies.claim import Premise, at_most
from innerloop.studies.lab import Lab, Null


def for_loops(learner: Callable[[Lab], Learner[Any]]) -> Null:
    """One learner in the place of every looped model."""

    def null(lab: Lab) -> dict[str, Learner[Any]]:
        own = learner(lab)
        return {label: own for label in lab.labels if label.startswith("looped")}

    return null


def other_stacks(lab: Lab) -> dict[str, Learner[Any]]:
    """In the place of each looped model the stack of its kind, trained with another seed."""
    loops = [label for label in lab.labels if label.startswith("looped")]
    return {loop: lab.of_another_seed(loop.replace("looped", "standard")) for loop in loops}


def all_within(limits: Mapping[str, tuple[Statistic, float]], reason: str) -> Premise:
    """Several quantities are each at most their limit: the largest quantity / limit counts."""

    def largest(m: Averages) -> Tensor:
        shares = [statistic(m) / limit for statistic, limit in limits.values()]  # (..) each
        return torch.stack(shares).amax(dim=0)

    parts = "; ".join(f"{name}, / {limit:g}" for name, (_, limit) in limits.items())
    quantity = f"the largest of: {parts}" if len(limits) > 1 else parts
    return Premise(quantity=quantity, criterion=at_most(1.0, reason), statistic=largest)
