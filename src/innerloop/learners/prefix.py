"""What the linear learners share: sums over prefixes, and reading predictions from weights.

Entry i of everything here belongs to prefix i, the examples 0 .. i-1.
"""

from typing import Any, cast

import torch
from torch import Tensor

from innerloop.core.iterate import iterate
from innerloop.core.learner import Learner, State
from innerloop.core.prompt import Prompt


class LinearLearner(Learner[State]):
    """A learner that predicts x . w with weights of its own for each prefix.

    A one-shot learner writes `init`, which returns the weights (B, n, d, k) in float64. An
    iterative one writes `steps`, `step` and `weights_of` as well.
    """

    steps = 0

    def step(self, prompt: Prompt, state: State, k: int) -> State:
        """Nothing is left to do."""
        return state

    def weights_of(self, state: State) -> Tensor:
        """The weights (B, n, d, k), in float64, that a state holds."""
        return cast(Tensor, state)

    def read(self, prompt: Prompt, state: State) -> Tensor:
        """X . w of the prefix, for x_i or for every query of point i."""
        return read_linear(prompt, self.weights_of(state))

    def weights(self, prompt: Prompt, state: State | None = None) -> Tensor:
        """The weights of a state, or of the last one: (B, n, d, k) in float64."""
        if state is None:
            *_, state = iterate(self, prompt)
        return self.weights_of(state)


def read_linear(prompt: Prompt, weights: Tensor) -> Tensor:
    """Predictions (B, n, k) or (B, n, q, k) of weights (B, n, d, k), in the prompt's type."""
    if prompt.queries is None:
        answer = (prompt.xs.double()[..., None] * weights).sum(dim=2)  # (B, n, k)
    else:
        answer = prompt.queries.double() @ weights  # (B, n, q, k)
    return answer.to(prompt.xs.dtype)


def sum_before(values: Tensor) -> Tensor:
    """Entry i is the sum of the entries before i along axis 1: (B, n, ...), zeros first."""
    total = torch.zeros_like(values)  # (B, n, ...)
    torch.cumsum(values[:, :-1], dim=1, out=total[:, 1:])
    return total


def moments(prompt: Prompt) -> Tensor:
    """X'y of each prefix: (B, n, d, k) in float64."""
    xs, ys = prompt.xs.double(), prompt.ys.double()  # (B, n, d), (B, n, k)
    return sum_before(xs[..., :, None] * ys[..., None, :])


def grams(prompt: Prompt) -> Tensor:
    """X'X of each prefix: (B, n, d, d) in float64.

    For iterations that are defined on it. Solving with it squares the condition number: see
    `ols.py` for how not to.
    """
    xs = prompt.xs.double()  # (B, n, d)
    return sum_before(xs[..., :, None] * xs[..., None, :])


def counts(prompt: Prompt) -> Tensor:
    """The number of examples of each prefix: (n,) in float64."""
    return torch.arange(prompt.points, dtype=torch.float64, device=prompt.xs.device)


def tensor_bytes(*shape: int) -> int:
    """The size of a float64 tensor, for chunking."""
    size: Any = 8
    for length in shape:
        size *= length
    return size
