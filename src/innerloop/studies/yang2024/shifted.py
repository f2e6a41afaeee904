"""Errors of models on prompts that they were not trained on, and looped beside standard ones."""

from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import Tensor

from innerloop.core.learner import Learner
from innerloop.studies.lab import Lab
from innerloop.studies.quantity import Quantity
from innerloop.studies.yang2024.comparing import bootstrapped, times
from innerloop.tasks.shifts import Shift

Errors = Mapping[str, Mapping[str, Tensor]]
"""Errors (P, n) by shift and label; all labels of a shift are asked about the same prompts."""


def shifted_errors(
    lab: Lab,
    learners: Mapping[str, Learner[Any]],
    shifts: Mapping[str, Shift],
    points: int,
    *,
    seed: int,
) -> Errors:
    """Errors of every learner on every shift; shifts that allow fewer points have fewer."""
    found: dict[str, dict[str, Tensor]] = {}
    for shift, task in shifts.items():
        length = min(points, task.most_points or points)
        prompt = lab.draw(task, length, seed=seed, purpose=shift)
        found[shift] = {
            label: lab.errors(learner, prompt, task) for label, learner in learners.items()
        }  # (P, n) each
    return found


def looped_against(
    lab: Lab, errors: Errors, shifts: Sequence[str], against: str, *, dims: int, seed: int
) -> Quantity:
    """Mean error of the looped models from d examples on, over that of another one.

    A geometric mean over the looped models and the shifts.
    """
    above: list[Tensor] = []
    below: list[Tensor] = []
    for shift in shifts:
        for label, several in errors[shift].items():
            if label.startswith("looped"):
                above.append(several[:, dims:].mean(dim=1))  # (P,)
                below.append(errors[shift][against][:, dims:].mean(dim=1))  # (P,)
    return times(lab, above, below, seed=seed)


def peak_against(
    lab: Lab, errors: Mapping[str, Tensor], against: str, *, dims: int, floor: float, seed: int
) -> Quantity:
    """Error of the looped models after d examples, over that of another one, both above a floor.

    The floor is the noise of the question itself, which nothing can predict. A geometric mean over
    the looped models.
    """
    columns = [several for label, several in errors.items() if label.startswith("looped")]
    values = torch.stack([each[:, dims] for each in (*columns, errors[against])], dim=1)  # (P, m)

    def ratio(means: Tensor) -> Tensor:
        logs = (means - floor).log()  # (.., m)
        return (logs[..., :-1].mean(dim=-1) - logs[..., -1]).exp()  # (..)

    return bootstrapped(lab, ratio, values, seed=seed)


def difference(
    lab: Lab, errors: Errors, shifts: Sequence[str], against: str, *, seed: int
) -> Quantity:
    """How far apart the looped models' mean error over all prefixes and another one's are.

    The looped models are averaged; of several shifts the largest difference counts.
    """
    apart: list[Tensor] = []
    for shift in shifts:
        several = [each for label, each in errors[shift].items() if label.startswith("looped")]
        mean = torch.stack(several).mean(dim=0)  # (P, n)
        apart.append((mean - errors[shift][against]).mean(dim=1))  # (P,)
    values = torch.stack(apart, dim=1)  # (P, shifts)
    return bootstrapped(lab, lambda means: means.abs().amax(dim=-1), values, seed=seed)
