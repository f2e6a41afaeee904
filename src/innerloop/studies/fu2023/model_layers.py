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

_RECIPE = (
    "Unlike the paper's recipe: y in a place of its own, not in that of x; Muon, with warm-up and "
    "cosine; weights that start with a spread by fan-in"
)


def smaller(heads: str, dims: str = "5 dimensions", steps: int = 2000) -> dict[Scale, str]:
    """What is smaller than in the paper in studies of the transformer, at smoke and laptop."""
    return {
        "smoke": "3 or 4 dimensions, 7 points, width 16, 2 layers, 20 steps; few prompts and steps "
        "of the algorithms.",
        "laptop": f"{dims}, 11 points, width 64, {heads}, 8 layers, {steps} steps; fewer steps of "
        f"the algorithms. {_RECIPE}; no curriculum.",
    }


SMALLER: dict[Scale, str] = {
    **smaller("4 heads"),
    "desk": "The paper's 20 dimensions, 41 points, 12 layers of 8 heads; width 128 for 256, "
    f"thousands of steps for 500 000; 256 test prompts. {_RECIPE}; a faster curriculum.",
}
"""The same in studies that have the scale desk."""
_LSTM: dict[Scale, str] = {
    "smoke": "The LSTM: 2 layers of width 16, 20 steps.",
    "laptop": "The LSTM: 4 layers of width 64, 1500 steps of Adam with warm-up and cosine.",
    "desk": "The LSTM: 10 layers of width 128 for 256, Adam with warm-up and cosine.",
}
SMALLER_BOTH: dict[Scale, str] = {scale: f"{SMALLER[scale]} {_LSTM[scale]}" for scale in _LSTM}
"""The same in studies of both models."""


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
        NEWTON: Newton(lab.choose(smoke=6, laptop=20, desk=30, paper=30)),
        DESCENT: GradientDescent(lab.choose(smoke=20, laptop=400, desk=800, paper=800)),
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
    def last_error(self) -> Measured:
        """Of the last layer, after the last example."""
        return self.errors.at(layer=-1, examples=-1)

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
    """Read test prompts after every layer of a learner, in the place of a run.

    To hidden states readouts are fitted, on prompts of their own; a learner without any is read as
    it is.
    """
    learner, config = lab.learner(label), lab.config(label)
    if learner.has_hidden_states:
        # Forty equations per prompt at desk scale: as many as at laptop, for twice the width.
        number = lab.choose(smoke=256, laptop=20_000, desk=5_000, paper=50_000)
        lab.tell(f"readouts of {label}")
        many = lab.draw(config.task, config.points, prompts=number, purpose="readouts")
        learner = fit_readouts(learner, many)
    return read_prompts(lab, learner, label)


def read_prompts(
    lab: Lab, learner: Learner[Any], label: str, prompts: int | None = None, purpose: str = "test"
) -> Layers:
    """Read a learner after each layer on prompts of a run's task, with further inputs of each."""
    task, points = lab.config(label).task, lab.config(label).points
    queries = asked_queries(lab, task.dims)
    number = prompts or lab.choose(
        smoke=lab.prompts, laptop=lab.prompts, desk=256, paper=lab.prompts
    )  # queries for 40 prefixes of 20 dimensions: a fifth of the prompts takes minutes
    drawn = lab.draw(task, points + queries, prompts=number, purpose=purpose)
    prompt = Prompt(xs=drawn.xs[:, :points], ys=drawn.ys[:, :points])
    errors = lab.error(learner, prompt, task, by="both", axis="layer", label=label)
    errors = replace(errors, shown={"layer": range(1, learner.steps + 1)})
    return Layers(learner=learner, prompt=prompt, queries=drawn.xs[:, points:], errors=errors)


def asked_queries(lab: Lab, dims: int) -> int:
    """How many inputs of each prompt induced weights are fitted on: several per dimension."""
    return lab.choose(smoke=3 * dims, laptop=40, desk=80, paper=200)
