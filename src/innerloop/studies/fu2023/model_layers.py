"""A trained model that is read after each of its layers, and the algorithms beside it.

Shapes: P prompts, q queries, d dimensions, L layers (A with the embedding before them).
"""

from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor

from innerloop.analysis import Measured, fit_readouts
from innerloop.analysis.matching import falling_steps
from innerloop.core.learner import Learner
from innerloop.core.prompt import Prompt
from innerloop.learners import OLS, GradientDescent, Newton, OnlineGradientDescent
from innerloop.studies.lab import Lab
from innerloop.studies.runs import trained
from innerloop.studies.study import Runs
from innerloop.training.families import Scale

MODEL, LSTM = "transformer", "LSTM"
"""The labels of the runs."""
NEWTON, DESCENT = "Newton", "gradient descent"
ONLINE, LEAST = "online gradient descent", "least squares"


def standard_runs(scale: Scale) -> Runs:
    """The stack on linear functions."""
    return {MODEL: trained("standard-linear", scale)}


def both_runs(scale: Scale) -> Runs:
    """The stack and the LSTM on linear functions."""
    return {**standard_runs(scale), LSTM: trained("lstm-linear", scale)}


def algorithms(lab: Lab, *names: str) -> dict[str, Learner[Any]]:
    """Some of what layers are compared with, by name; gradient descent at 1/L of each prefix.

    They take as many steps as there are on the figures' axes.
    """
    every = {
        NEWTON: Newton(lab.choose(smoke=6, laptop=20, paper=30)),
        DESCENT: GradientDescent(lab.choose(smoke=20, laptop=400, paper=800)),
        ONLINE: OnlineGradientDescent(), LEAST: OLS(),
    }  # fmt: skip
    return {name: every[name] for name in names}


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class Layers:
    """A model that is read after each layer, on test prompts."""

    learner: Learner[Any]
    prompt: Prompt
    queries: Tensor
    """(P, q, d): inputs of the prompt's own distribution, which induced weights are fitted on."""
    errors: Measured
    """By layer, the embedding's first, and by examples."""

    @property
    def falling(self) -> Tensor:
        """(L,): 1 for the layers in which the error after the last example still falls, else 0."""
        mask = torch.zeros(self.learner.steps + 1, dtype=torch.float64)  # (A,)
        mask[list(falling_steps(self.errors.values[:, :, -1].mean(dim=0)))] = 1
        return mask[1:]

    @property
    def compared(self) -> Tensor:
        """(L,): the same, or the last layer alone where the error falls in none."""
        last = torch.eye(self.learner.steps, dtype=torch.float64)[-1]  # (L,)
        return self.falling if bool(self.falling.any()) else last


def read_layers(lab: Lab, label: str) -> Layers:
    """Fit a readout to every layer of a run on prompts of their own, and read test prompts."""
    config = lab.config(label)
    number = lab.choose(smoke=256, laptop=20_000, paper=50_000)
    lab.tell(f"readouts of {label}")
    many = lab.draw(config.task, config.points, prompts=number, purpose="readouts")
    return read_prompts(lab, fit_readouts(lab.learner(label), many), label)


def read_prompts(
    lab: Lab, learner: Learner[Any], label: str, prompts: int | None = None, purpose: str = "test"
) -> Layers:
    """Read a learner after each layer on prompts of a run's task, with further inputs of each."""
    task, points = lab.config(label).task, lab.config(label).points
    number = lab.choose(smoke=3 * task.dims, laptop=40, paper=200)
    drawn = lab.draw(task, points + number, prompts=prompts, purpose=purpose)
    prompt = Prompt(xs=drawn.xs[:, :points], ys=drawn.ys[:, :points])
    errors = lab.error(learner, prompt, task, by="both", axis="layer", label=label)
    errors = replace(errors, shown={"layer": range(1, learner.steps + 1)})
    return Layers(learner=learner, prompt=prompt, queries=drawn.xs[:, points:], errors=errors)
