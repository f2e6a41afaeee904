"""Ablation: the errors of a model in which one component says nothing."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal, get_args

import torch
from torch import Tensor

from innerloop.analysis.measured import Measured
from innerloop.analysis.places import (
    Cell,
    Component,
    Span,
    Tokens,
    cut,
    make_grid,
    record,
    rows_at_once,
    run_at_last,
)
from innerloop.core.chunks import in_parts
from innerloop.core.components import Place
from innerloop.core.errors import ConfigurationError, unknown
from innerloop.core.expects import expect_learner, expect_prompt, expect_task
from innerloop.core.learner import Learner
from innerloop.core.prompt import Prompt
from innerloop.core.task import Task


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class Ablation:
    """Squared errors over E[y^2] on every prompt, without one component after the other."""

    errors: Measured
    """`(P, step[, head][, token])`."""
    intact: Measured
    """(P,): those of the whole model."""

    @property
    def change(self) -> Measured:
        """What each ablation adds to the error, on each prompt."""
        several = (1,) * len(self.errors.axes)
        whole = self.intact.values.reshape(-1, *several)  # (P, 1..)
        return replace(self.errors, values=self.errors.values - whole, scale="linear")


@torch.no_grad()
def ablate(
    learner: Learner[Any],
    prompt: Prompt,
    task: Task,
    *,
    component: Component = "head",
    kind: Literal["mean", "zero"] = "mean",
    span: Span = "only",
    at_steps: Sequence[int] | None = None,
    tokens: Tokens = "all",
    prefix: int = -1,
    steps: int | None = None,
) -> Ablation:
    """Errors after `prefix` examples with a component replaced by its mean over prompts, or by 0.

    The mean is taken at each step and token by itself: what a component says whatever the prompt is
    stays, and what it says of this prompt goes. A row is a step (a layer or a loop, from 0); `span`
    ablates it at this step only, at this step and all later ones, or at all steps, in one row.
    """
    expect_learner(learner)
    expect_prompt(prompt)
    expect_task(task)
    if kind not in ("mean", "zero"):
        raise ConfigurationError(unknown("kind of ablation", kind, ("mean", "zero")))
    if span not in get_args(Span):
        raise ConfigurationError(unknown("span", span, get_args(Span)))
    scale = float(task.scale_at(prompt.points)[cut(prompt, prefix)[1]])
    prompt, _ = cut(prompt, prefix)
    grid = make_grid(
        learner, prompt, component, steps=steps, at_steps=at_steps, tokens=tokens, span=span
    )
    rows = rows_at_once(learner, prompt, grid.places)
    sums: dict[Place, Tensor] = {}
    whole: list[Tensor] = []
    for _, part in in_parts(prompt, rows):
        values, predictions = record(learner, part, grid.places, steps)
        whole.append(predictions)  # (b, k)
        for place, value in values.items():
            total = value.double().sum(dim=0)  # (T, ..)
            sums[place] = sums[place] + total if place in sums else total

    def source(place: Place, value: Tensor) -> Tensor:
        if kind == "zero":
            return torch.zeros_like(value)
        return (sums[place] / prompt.batch).to(value)  # (T, ..), the same for all prompts

    def errors(cell: Cell | None) -> Tensor:
        if cell is None:
            return torch.full((prompt.batch,), torch.nan, dtype=torch.float64)
        found = [
            run_at_last(learner, part, cell.edit(source), grid.places[0].kind, steps)
            for _, part in in_parts(prompt, rows)
        ]  # (b, k) each
        return _squared(torch.cat(found), prompt) / scale  # (P,)

    each = torch.stack([errors(cell) for cell in grid.cells()], dim=1)
    values = each.reshape(prompt.batch, *grid.shape)  # (P, ..)
    missing = values.isnan()  # (P, ..)
    return Ablation(
        errors=Measured(
            values=values, axes=grid.axes, ticks=grid.ticks, label=learner.name, scale="log",
            counted=~missing if bool(missing.any()) else None,
        ),
        intact=Measured(
            values=_squared(torch.cat(whole), prompt) / scale, label=learner.name, scale="log"
        ),
    )  # fmt: skip


def _squared(predictions: Tensor, prompt: Prompt) -> Tensor:
    """Squared errors (P,) of predictions (P, k) at the last point, as `error` has them."""
    return (predictions.double() - prompt.ys[:, -1].double()).square().mean(dim=1)
