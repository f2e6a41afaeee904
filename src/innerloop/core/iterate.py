"""The only loop of the library, and what is derived from it."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from innerloop.core.arguments import expect_count
from innerloop.core.chunks import rows_within_budget
from innerloop.core.errors import (
    AnswerShapeError,
    ConfigurationError,
    IgnoredQueriesError,
    NotSupportedError,
)
from innerloop.core.expects import expect_learner, expect_prompt
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
    expect_learner(learner)
    expect_prompt(prompt)
    if prompt.at_end and not learner.answers_at_end:
        raise IgnoredQueriesError(
            f"{learner.name} answers queries at every point only: give queries (B, n, q, d), or "
            "call `predict`, which asks them one by one."
        )
    if start is not None and not (isinstance(start, tuple) and len(start) == 2):
        raise ConfigurationError(
            f"start is a {type(start).__name__}, expected a pair: a state, and the number of steps "
            "that led to it."
        )
    if not learner.differentiable and torch.is_grad_enabled() and _wants_gradients(prompt):
        raise NotSupportedError(
            f"{learner.name} is not differentiable and the prompt requires gradients: detach its "
            "tensors, or call `predict`, which keeps none."
        )
    taken = 0 if start is None else start[1]
    total = _number_of_steps(learner, max(0, learner.steps - taken) if steps is None else steps)
    if taken < 0:
        raise ConfigurationError(f"start is after {taken} steps, expected 0 or more.")
    return _states(learner, prompt, start, range(taken, taken + total))


def _wants_gradients(prompt: Prompt) -> bool:
    return any(values.requires_grad for values in (prompt.xs, prompt.ys, prompt.asked))


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
    expect_learner(learner)
    expect_prompt(prompt)
    if in_one_pass(learner, prompt):
        try:
            return _read_last(learner, prompt, steps)
        except IgnoredQueriesError:
            pass  # as if it were not causal
    return _expanded(learner, prompt, steps, every_step=False)[0]


@torch.no_grad()
def trajectory(
    learner: Learner[Any], prompt: Prompt, *, steps: int | None = None, states: bool = False
) -> Trajectory:
    """Predictions after every step; with `states`, the states as well. Without gradients."""
    if not states:
        return Trajectory(predictions=torch.stack(list(answers_by_step(learner, prompt, steps))))
    expect_learner(learner)
    if not in_one_pass(learner, prompt):
        raise ConfigurationError(
            f"{learner.name} is not causal: it has one state per prefix. Iterate it on the "
            "prompts of expand_prefixes instead."
        )
    kept = tuple(iterate(learner, prompt, steps=steps))
    reads = [read_checked(learner, prompt, state) for state in kept]  # (B, n[, q], k) each
    return Trajectory(predictions=torch.stack(reads), states=kept)


def answers_by_step(
    learner: Learner[Any], prompt: Prompt, steps: int | None = None
) -> Iterator[Tensor]:
    """Yield predictions (B, n[, q], k) before the first step and after each."""
    expect_learner(learner)
    expect_prompt(prompt)
    if in_one_pass(learner, prompt):
        try:
            for state in iterate(learner, prompt, steps=steps):
                yield read_checked(learner, prompt, state)
            return
        except IgnoredQueriesError:
            pass  # at the first of its answers, so that none has been given out
    yield from _expanded(learner, prompt, steps, every_step=True)


def in_one_pass(learner: Learner[Any], prompt: Prompt) -> bool:
    """Whether one run of the learner may answer all questions of the prompt."""
    return learner.answers_at_end if prompt.at_end else learner.traits.causal


def read_checked(learner: Learner[Any], prompt: Prompt, state: Any) -> Tensor:
    """What the learner reads, once it is known to have the shape that the prompt asks for."""
    answer: Any = learner.read(prompt, state)
    shape = tuple(answer.shape) if isinstance(answer, Tensor) else None
    if shape == prompt.prediction_shape:
        return answer
    if shape is not None and prompt.queries is not None and shape == tuple(prompt.ys.shape):
        raise IgnoredQueriesError(
            f"{learner.name} answers at the xs of a prompt with queries: give the prompt without "
            "queries, or have its `read` answer `prompt.asked`."
        )
    given = f"a {type(answer).__name__}" if shape is None else f"shape {shape}"
    raise AnswerShapeError(
        f"{learner.name} answers with {given}, expected a tensor of shape "
        f"{prompt.prediction_shape}: one prediction per output of each question."
    )


def _read_last(learner: Learner[Any], prompt: Prompt, steps: int | None) -> Tensor:
    states = iterate(learner, prompt, steps=steps)
    state = next(states)
    for following in states:
        state = following
    return read_checked(learner, prompt, state)


def _expanded(
    learner: Learner[Any], prompt: Prompt, steps: int | None, *, every_step: bool
) -> Tensor:
    """Run a learner that is not causal, one prefix at a time: (K + 1 or 1, *prediction_shape)."""
    batch, points, number, _ = prompt.asked.shape
    count = _number_of_steps(learner, steps) + 1 if every_step else 1
    shape = (count, batch * number, points, prompt.outputs)
    answers = torch.empty(shape, dtype=prompt.xs.dtype, device=prompt.xs.device)
    rows = rows_within_budget(learner.bytes_per_prompt(prompt.ask(None)))
    first = prompt.points - points  # the first point that is asked at
    for i, which, part in expand_prefixes(prompt, rows=rows):
        if every_step:
            reads = [
                read_checked(learner, part, state) for state in iterate(learner, part, steps=steps)
            ]  # (R, i + 1, k) each
            answers[:, which, i - first] = torch.stack(reads)[:, :, i]  # (K + 1, R, k)
        else:
            answers[0, which, i - first] = _read_last(learner, part, steps)[:, i]  # (R, k)
    grid = answers.reshape(count, batch, number, points, prompt.outputs).transpose(2, 3)
    return grid.reshape(count, *prompt.prediction_shape)


def _number_of_steps(learner: Learner[Any], steps: int | None) -> int:
    total = learner.steps if steps is None else steps
    expect_count("steps", total, least=0)
    return total
