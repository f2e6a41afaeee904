"""The only loop of the library, and what is derived from it."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from innerloop.core.chunks import rows_within_budget
from innerloop.core.errors import ConfigurationError
from innerloop.core.learner import Learner, State
from innerloop.core.prompt import Prompt, expand_prefixes


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class Trajectory:
    """What a learner predicts after each of its steps: never padded, never the best so far."""

    predictions: Tensor
    """(K + 1, B, n, k), or (K + 1, B, n, q, k) with queries; index t is after t steps."""
    states: tuple[Any, ...] | None = None
    """The K + 1 states, where they were asked for."""

    @property
    def steps(self) -> int:
        """K, the number of steps taken."""
        return self.predictions.shape[0] - 1


def iterate(
    learner: Learner[State],
    prompt: Prompt,
    *,
    steps: int | None = None,
    start: tuple[State, int] | None = None,
) -> Iterator[State]:
    """Yield the state before the first step and after each: steps + 1 states.

    `start` is a state to continue from and the number of steps that led to it; that state comes
    first, and `steps` counts those beyond it, by default what is left of the learner's own. So k
    steps and then more are all of them at once.
    """
    taken = 0 if start is None else start[1]
    total = _number_of_steps(learner, max(0, learner.steps - taken) if steps is None else steps)
    if taken < 0:
        raise ConfigurationError(f"start is after {taken} steps, expected 0 or more.")
    return _states(learner, prompt, start, range(taken, taken + total))


def _states(
    learner: Learner[State], prompt: Prompt, start: tuple[State, int] | None, steps: range
) -> Iterator[State]:
    state = learner.init(prompt) if start is None else start[0]
    yield state
    for k in steps:
        state = learner.step(prompt, state, k)
        yield state


@torch.no_grad()
def predict(learner: Learner[Any], prompt: Prompt, *, steps: int | None = None) -> Tensor:
    """Predictions after the last step: (B, n, k), or (B, n, q, k) with queries.

    Without gradients, so that `.numpy()` works; for those, `iterate` and `learner.read`.
    """
    if not learner.traits.causal:
        return _expanded(learner, prompt, steps, every_step=False)[0]
    return _last(learner, prompt, steps)


@torch.no_grad()
def trajectory(
    learner: Learner[Any], prompt: Prompt, *, steps: int | None = None, states: bool = False
) -> Trajectory:
    """Predictions after every step; with `states`, the states as well. Without gradients."""
    if not learner.traits.causal:
        if states:
            raise ConfigurationError(
                f"{learner.name} is not causal: it has one state per prefix. Iterate it on the "
                "prompts of expand_prefixes instead."
            )
        return Trajectory(predictions=_expanded(learner, prompt, steps, every_step=True))
    reads: list[Tensor] = []
    kept: list[Any] = []
    for state in iterate(learner, prompt, steps=steps):
        reads.append(learner.read(prompt, state))
        if states:
            kept.append(state)
    return Trajectory(predictions=torch.stack(reads), states=tuple(kept) if states else None)


def _last(learner: Learner[Any], prompt: Prompt, steps: int | None) -> Tensor:
    states = iterate(learner, prompt, steps=steps)
    state = next(states)
    for following in states:
        state = following
    return learner.read(prompt, state)


def _expanded(
    learner: Learner[Any], prompt: Prompt, steps: int | None, *, every_step: bool
) -> Tensor:
    """Run a learner that is not causal, one prefix at a time: (K + 1 or 1, *prediction_shape)."""
    batch, points, number, _ = prompt.asked.shape
    count = _number_of_steps(learner, steps) + 1 if every_step else 1
    shape = (count, batch * number, points, prompt.outputs)
    answers = torch.empty(shape, dtype=prompt.xs.dtype, device=prompt.xs.device)
    rows = rows_within_budget(learner.bytes_per_prompt(prompt))
    for i, which, part in expand_prefixes(prompt, rows=rows):
        if every_step:
            reads = [learner.read(part, state) for state in iterate(learner, part, steps=steps)]
            answers[:, which, i] = torch.stack(reads)[:, :, i]  # (K + 1, R, k)
        else:
            answers[0, which, i] = _last(learner, part, steps)[:, i]  # (R, k)
    grid = answers.reshape(count, batch, number, points, prompt.outputs).transpose(2, 3)
    return grid.reshape(count, *prompt.prediction_shape)


def _number_of_steps(learner: Learner[Any], steps: int | None) -> int:
    total = learner.steps if steps is None else steps
    if total < 0:
        raise ConfigurationError(f"steps is {total}, expected 0 or more.")
    return total
