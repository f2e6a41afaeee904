"""Readouts fitted to every step of a model: what its hidden states know, read linearly.

Fu et al. (2023, section 4.1) train the readout of each layer anew, with all else frozen. Here each
is the ridge solution in closed form, from sums over as many prompts as one likes.

Shapes, beside those of a prompt: K steps, N equations (prompts times points), D width.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import torch
from torch import Tensor

from innerloop.analysis.similarity import counted_positions
from innerloop.core.arguments import expect_count, expect_number
from innerloop.core.chunks import in_parts, rows_within_budget
from innerloop.core.components import Components
from innerloop.core.errors import ConfigurationError, PromptError
from innerloop.core.expects import expect_learner, expect_prompt
from innerloop.core.iterate import iterate
from innerloop.core.learner import Learner, Traits
from innerloop.core.prompt import Prompt, expand_prefixes
from innerloop.core.state_parts import HiddenStates, MovingPart


@dataclass(frozen=True, slots=True, eq=False)
class ReadoutState:
    """A model's state, and how many steps led to it."""

    inner: Any
    """The state of the model."""
    step: Tensor
    """(B,) int64: the steps taken by each prompt."""


@dataclass(frozen=True, eq=False, kw_only=True)
class ReadoutLearner(Learner[ReadoutState]):
    """A model whose own readout is replaced by one for each step.

    Its answers are the model's `readout_inputs` times the weights of the step that it has come to;
    beyond the last step that was fitted, those of the last. It cannot be moved by hand, since what
    it reads depends on the number of its steps.
    """

    learner: Learner[Any]
    """The model."""
    readouts: Tensor
    """(K + 1, D, k) in float64: the weights of each step, from before the first on."""
    biases: Tensor
    """(K + 1, k) in float64."""

    @cached_property
    def name(self) -> str:
        """The model, and that it is read otherwise."""
        return f"{self.learner.name} with fitted readouts"

    @property
    def steps(self) -> int:  # pyright: ignore[reportIncompatibleVariableOverride]
        """As many as there are readouts for."""
        return len(self.readouts) - 1

    @property
    def traits(self) -> Traits:  # pyright: ignore[reportIncompatibleVariableOverride]
        """What other readouts of the same hidden states leave of the model's promises."""
        inner = self.learner.traits
        return Traits(causal=inner.causal, order_invariant=inner.order_invariant)

    def init(self, prompt: Prompt) -> ReadoutState:
        """The model's, at step 0."""
        none = torch.zeros(prompt.batch, dtype=torch.int64, device=prompt.xs.device)  # (B,)
        return ReadoutState(self.learner.init(prompt), none)

    def step(self, prompt: Prompt, state: ReadoutState, k: int) -> ReadoutState:
        """The model's."""
        return ReadoutState(self.learner.step(prompt, state.inner, k), state.step + 1)

    def read(self, prompt: Prompt, state: ReadoutState) -> Tensor:
        """The readout of the step that each prompt has come to, in float64."""
        inputs = self.hidden_states.readout_inputs(prompt, state).flatten(1, -2)  # (B, n q, D)
        step = state.step.clamp(max=self.steps)  # (B,)
        readouts = self.readouts.to(inputs.device)[step]  # (B, D, k)
        biases = self.biases.to(inputs.device)[step][:, None]  # (B, 1, k)
        rows = rows_within_budget(16 * inputs[0].numel())
        parts = [
            (some.double() @ readout + bias).to(prompt.xs.dtype)  # (R, n q, k)
            for some, readout, bias in zip(
                inputs.split(rows), readouts.split(rows), biases.split(rows), strict=True
            )
        ]
        return torch.cat(parts).reshape(prompt.prediction_shape)

    @property
    def hidden_states(self) -> HiddenStates[ReadoutState]:
        """The model's."""
        return self.learner.hidden_states.inside(lambda state: state.inner)

    @property
    def components(self) -> Components:
        """The model's."""
        return self.learner.components

    @property
    def moving(self) -> MovingPart[ReadoutState]:
        """The model's; what is read depends on the number of steps, too."""
        inner = self.learner.moving
        return MovingPart(self.name, lambda state: inner.get(state.inner))

    @property
    def computes_in(self) -> torch.dtype:
        """The model's."""
        return self.learner.computes_in

    def bytes_per_prompt(self, prompt: Prompt) -> int:
        """The model's."""
        return self.learner.bytes_per_prompt(prompt)


@torch.no_grad()
def fit_readouts(
    learner: Learner[Any], prompts: Prompt, *, penalty: float = 1e-6, steps: int | None = None
) -> ReadoutLearner:
    """Fit a linear readout with a bias to the hidden states after every step.

    Each minimises the mean of |y - u h - v|^2 over prompts and scored points, one readout for all
    prefixes, plus `penalty` |u|^2 times the mean variance of h, so that the penalty has no unit. h
    is what the model's own readout reads (`readout_inputs`): after any post-transformer and final
    norm. Without a penalty the solution is that of least norm.

    Evaluate it on other prompts than these, and set it against the model's own `trajectory`, which
    applies the one readout that was trained for the end after every step. Give it several times as
    many equations (prompts times points) as h is wide.
    """
    expect_learner(learner)
    expect_prompt(prompts)
    total = learner.steps if steps is None else steps
    expect_count("steps", total, least=0)
    expect_number("penalty", penalty)
    if not 0 <= penalty < float("inf"):
        raise ConfigurationError(f"penalty is {penalty}, expected a finite number of at least 0.")
    if prompts.queries is not None:
        raise PromptError(
            "readouts are fitted to the ys of a prompt: give prompts without queries."
        )
    if not bool(counted_positions(prompts).any()):
        raise PromptError("the prompts score no position: there is nothing to fit.")
    sums = [_Sums() for _ in range(total + 1)]
    for part, chosen, answers in _parts(learner, prompts):
        for each, state in zip(sums, iterate(learner, part, steps=total), strict=True):
            inputs = learner.hidden_states.readout_inputs(part, state)  # (b, n[, q], D)
            each.add(inputs[chosen], answers)  # (N, D), (N, k)
    weights, biases = zip(*(each.solve(penalty) for each in sums), strict=True)  # (D, k), (k,)
    return ReadoutLearner(
        learner=learner, readouts=torch.stack(weights), biases=torch.stack(biases)
    )


def _parts(learner: Learner[Any], prompt: Prompt) -> Iterator[tuple[Prompt, Tensor, Tensor]]:
    """Prompts that fit into memory, the points (b, n) of each to learn from, their answers (N, k).

    A learner that is not causal meets one prefix at a time, and is read at its last point.
    """
    rows = rows_within_budget(learner.bytes_per_prompt(prompt))
    scored = counted_positions(prompt)  # (B, n)
    if learner.traits.causal:
        for which, part in in_parts(prompt, rows):
            chosen = scored[which]  # (b, n)
            yield part, chosen, part.ys[chosen]
        return
    for i, which, part in expand_prefixes(prompt, rows=rows):
        chosen = torch.zeros_like(scored[which, : i + 1])  # (b, i + 1)
        chosen[:, i] = scored[which, i]
        yield part, chosen, prompt.ys[which, i][chosen[:, i]]


class _Sums:
    """What the least-squares problem of one step needs, added up in float64."""

    def __init__(self) -> None:
        self.count = 0
        self.shift: Tensor | None = None
        """(D + k,): about the mean, so that little cancels when the mean is taken off."""
        self.first: Tensor = torch.zeros(())
        """(D + k,): the sum of [h, y] - shift."""
        self.second: Tensor = torch.zeros(())
        """(D, D + k): the sum of their products with h - shift."""

    def add(self, inputs: Tensor, answers: Tensor) -> None:
        """Take in hidden states (N, D) with their answers (N, k)."""
        if not len(inputs):
            return
        width = inputs.shape[1]
        rows = rows_within_budget(16 * (width + answers.shape[1]))
        for some, wanted in zip(inputs.split(rows), answers.split(rows), strict=True):
            both = torch.cat([some.double(), wanted.double()], dim=1)  # (N, D + k)
            if self.shift is None:
                self.shift = both.mean(dim=0)  # (D + k,)
                self.first = torch.zeros_like(self.shift)
                self.second = both.new_zeros(width, both.shape[1])
            both -= self.shift
            self.count += len(both)
            self.first += both.sum(dim=0)
            self.second += both[:, :width].T @ both

    def solve(self, penalty: float) -> tuple[Tensor, Tensor]:
        """The weights (D, k) and the bias (k,)."""
        assert self.shift is not None
        width = len(self.second)
        mean = self.first / self.count  # (D + k,)
        covariance = self.second / self.count - mean[:width, None] * mean  # (D, D + k)
        values, vectors = torch.linalg.eigh(covariance[:, :width])  # (D,), (D, D)
        # Directions that no prompt varies in, up to rounding, say nothing.
        known = values > width * torch.finfo(torch.float64).eps * values[-1]  # (D,)
        ridge = penalty * values.clamp(min=0).mean()
        inverse = torch.where(known, 1 / torch.where(known, values + ridge, 1.0), 0.0)  # (D,)
        weights = vectors @ (inverse[:, None] * (vectors.T @ covariance[:, width:]))  # (D, k)
        centre = self.shift + mean  # (D + k,)
        return weights, centre[width:] - centre[:width] @ weights
