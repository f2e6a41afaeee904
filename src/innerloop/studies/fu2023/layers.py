"""A trained model read after each of its layers, and how like an algorithm's steps they are.

All is kept prompt by prompt, so that intervals can be put around what follows from it.

Shapes: P prompts, n points, q queries, d dimensions, k outputs, A layers with the embedding before
them, C steps of an algorithm with its start.
"""

from dataclasses import dataclass
from typing import Any, Literal

import torch
from torch import Tensor

from innerloop.analysis.error import squared_errors
from innerloop.analysis.induced import prompts_at_once
from innerloop.analysis.readout import fit_readouts
from innerloop.core.iterate import iterate, trajectory
from innerloop.core.learner import Learner
from innerloop.core.prompt import Prompt
from innerloop.studies.lab import Lab

Measure = Literal["SimE", "SimW"]
"""Cosines of errors, and of induced weights: Fu et al. (2023), section 3.4."""

FALLS = 0.9
"""A layer has done something if it leaves less than this part of the error of the one before."""


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class Reading:
    """A model on test prompts, read after every layer."""

    learner: Learner[Any]
    prompt: Prompt
    queries: Tensor
    """(P, q, d): inputs of the prompt's own distribution, which induced weights are fitted on."""
    predictions: Tensor
    """(A, P, n, k) in float64."""
    errors: Tensor
    """(A, P, n): squared errors over the task's scale."""

    @property
    def layers(self) -> int:
        """How many there are, without the embedding."""
        return len(self.predictions) - 1

    @property
    def falling(self) -> range:
        """The layers in which the error after the last example still falls."""
        return falling_layers(self.errors[:, :, -1].mean(dim=1))


def read_layers(lab: Lab, label: str, seed: int = 0) -> Reading:
    """Fit a readout to every layer of a run on prompts of their own, and read test prompts."""
    config = lab.run(label, seed).config
    number = lab.choose(smoke=256, laptop=20_000, paper=50_000)
    lab.tell(f"readouts of {label}")
    many = lab.draw(config.task, config.points, seed=seed, prompts=number, purpose="readouts")
    learner = fit_readouts(lab.model(label, seed), many)
    return read_prompts(lab, learner, label, seed)


def read_prompts(
    lab: Lab,
    learner: Learner[Any],
    label: str,
    seed: int = 0,
    *,
    prompts: int | None = None,
    purpose: str = "test",
) -> Reading:
    """Read a run's model, whose layers have readouts, on prompts of a purpose."""
    lab.tell(f"predictions of {label}")
    prompt, queries = draw_with_queries(lab, label, seed, prompts=prompts, purpose=purpose)
    with torch.no_grad():
        predictions = trajectory(learner, prompt).predictions.double()  # (A, P, n, k)
    scale = lab.run(label, seed).config.task.scale_at(prompt.points)  # (n,)
    return Reading(
        learner=learner,
        prompt=prompt,
        queries=queries,
        predictions=predictions,
        errors=squared_errors(predictions, prompt) / scale,
    )


def draw_with_queries(
    lab: Lab,
    label: str,
    seed: int = 0,
    *,
    prompts: int | None = None,
    purpose: str = "test",
) -> tuple[Prompt, Tensor]:
    """Prompts of a run's task, and further inputs (P, q, d) of each, with its covariance."""
    config = lab.run(label, seed).config
    number = lab.choose(smoke=3 * config.task.dims, laptop=40, paper=200)
    drawn = lab.draw(
        config.task, config.points + number, seed=seed, prompts=prompts, purpose=purpose
    )
    prompt = Prompt(xs=drawn.xs[:, : config.points], ys=drawn.ys[:, : config.points])
    return prompt, drawn.xs[:, config.points :]


def falling_layers(errors: Tensor) -> range:
    """The layers in which errors (A,), the embedding's first, fall.

    From the first that has less than FALLS of the embedding's error on to the last that has less
    than FALLS of the error of the layer before.
    """
    known = (errors < FALLS * errors[0]).nonzero()[:, 0].tolist()
    moved = [layer for layer in range(1, len(errors)) if errors[layer] < FALLS * errors[layer - 1]]
    return range(known[0], moved[-1] + 1) if known and moved else range(0)


def induced_by_layer(learner: Learner[Any], prompt: Prompt, queries: Tensor) -> Tensor:
    """The weights (A, P, n, d, k) that fit the answers of each layer to a prompt's own queries.

    Queries (P, q, d) with the covariance of the prompt's inputs, as in the paper's eq. 11: on
    ill-conditioned inputs, standard normal queries would be unlike all that a model has seen.
    """
    inverse = torch.linalg.pinv(queries.double())[:, None]  # (P, 1, d, q)
    rows = prompts_at_once(learner, prompt, queries.shape[1])
    parts: list[Tensor] = []
    for start in range(0, prompt.batch, rows):
        some = slice(start, start + rows)
        asked = queries[some, None].expand(-1, prompt.points, -1, -1)  # (b, n, q, d)
        part = prompt.select(some).ask(asked)
        with torch.no_grad():
            fitted = [
                inverse[some] @ learner.read(part, state).double()  # (b, n, d, k)
                for state in iterate(learner, part)
            ]
        parts.append(torch.stack(fitted))  # (A, b, n, d, k)
    return torch.cat(parts, dim=1)


def error_directions(predictions: Tensor, prompt: Prompt) -> Tensor:
    """The errors of predictions (.., P, n, k) from one example on, at length 1: (.., P, m)."""
    errors = predictions.double() - prompt.ys.double()  # (.., P, n, k)
    return _unit(errors[..., 1:, :].flatten(-2))


def weight_directions(weights: Tensor) -> Tensor:
    """Weights (.., P, n, d, k) from one example on: (.., P, m), whose products are mean cosines."""
    each = _unit(weights[..., 1:, :, :].mT)  # (.., P, n - 1, k, d)
    return each.flatten(-3) / (each.shape[-3] * each.shape[-2]) ** 0.5


def layer_directions(reading: Reading, measure: Measure) -> Tensor:
    """What of each layer is compared: (A, P, m)."""
    if measure == "SimE":
        return error_directions(reading.predictions, reading.prompt)
    weights = induced_by_layer(reading.learner, reading.prompt, reading.queries)
    return weight_directions(weights)


def similarities(own: Tensor, algorithm: Learner[Any], prompt: Prompt, measure: Measure) -> Tensor:
    """The similarity of directions (A, P, m) with every step of a linear algorithm: (P, A, C).

    Of each prompt; SimE and SimW are the means over prompts.
    """
    found: list[Tensor] = []
    for state in iterate(algorithm, prompt):
        if measure == "SimE":
            other = error_directions(algorithm.read(prompt, state), prompt)  # (P, m)
        else:
            other = weight_directions(algorithm.weights(prompt, state))  # (P, m)
        found.append(torch.einsum("apm,pm->pa", own, other))  # (P, A)
    return torch.stack(found, dim=2)


def _unit(vectors: Tensor) -> Tensor:
    """Vectors (.., m) at length 1; those of length 0, and what is not finite, become zero."""
    length = vectors.norm(dim=-1, keepdim=True)  # (.., 1)
    usable = torch.isfinite(length) & (length > 0)  # (.., 1)
    return torch.where(usable, vectors / length.masked_fill(~usable, 1.0), 0.0)
