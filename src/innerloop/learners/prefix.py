"""What the linear learners share: sums over prefixes, and reading predictions from weights.

Entry i of everything here belongs to prefix i, the examples 0 .. i-1.
"""

from collections.abc import Iterator
from typing import Any, cast

import torch
from torch import Tensor

from innerloop.core.chunks import rows_within_budget, slices
from innerloop.core.iterate import iterate
from innerloop.core.learner import Learner, State
from innerloop.core.prompt import Prompt

CHUNK = 2**21
"""Bytes of one temporary of a step (2 MB): it stays in the cache, where a step is fastest."""


class LinearLearner(Learner[State]):
    """A learner that predicts x . w with weights of its own for each prefix.

    A one-shot learner writes `init`, which returns the weights (B, n, d, k) in float64. An
    iterative one writes `steps`, `step` and `weights_of` as well.
    """

    steps = 0
    answers_at_end = True

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
    """Predictions (B, n, k) or (B, n or 1, q, k) of weights (B, n, d, k), in the prompt's type."""
    if prompt.queries is None:
        answer = (prompt.xs.double()[..., None] * weights).sum(dim=2)  # (B, n, k)
        return answer.to(prompt.xs.dtype)
    weights = weights[:, -prompt.queries.shape[1] :]  # (B, n or 1, d, k)
    rows = rows_within_budget(tensor_bytes(*prompt.queries.shape[1:]))
    parts = [
        (asked.double() @ part).to(asked.dtype)  # (R, n, q, k)
        for asked, part in zip(prompt.queries.split(rows), weights.split(rows), strict=True)
    ]
    return torch.cat(parts)


def sum_before(values: Tensor) -> Tensor:
    """Entry i is the sum of the entries before i along axis 1: (B, n, ...), zeros first."""
    sums = torch.cumsum(values[:, :-1], dim=1)  # (B, n - 1, ...)
    return torch.cat([torch.zeros_like(values[:, :1]), sums], dim=1)


def moments(prompt: Prompt) -> Tensor:
    """X'y of each prefix: (B, n, d, k) in float64."""
    xs, ys = prompt.xs.double(), prompt.ys.double()  # (B, n, d), (B, n, k)
    return sum_before(xs[..., :, None] * ys[..., None, :])


def counts(prompt: Prompt) -> Tensor:
    """The number of examples of each prefix: (n,) in float64."""
    return torch.arange(prompt.points, dtype=torch.float64, device=prompt.xs.device)


def tensor_bytes(*shape: int) -> int:
    """The size of a float64 tensor, for chunking."""
    size: Any = 8
    for length in shape:
        size *= length
    return size


def residuals(xs: Tensor, ys: Tensor, weights: Tensor) -> Tensor:
    """Y - Xw on the examples of each prefix: (B, n, k, n), zero from the i-th example on.

    Takes (B, n, d), (B, n, k) and (B, n, d, k). This form needs no Gram matrices, which are n
    times d by d per prompt, and reads each input once for all prefixes.
    """
    batch, points, dims, outputs = weights.shape
    flat = weights.mT.reshape(batch, points * outputs, dims)  # (B, n k, d)
    fitted = (flat @ xs.mT).reshape(batch, points, outputs, points)  # (B, n, k, n)
    return mask_examples(ys.mT[:, None] - fitted)


def mask_examples(values: Tensor) -> Tensor:
    """Zero where example j does not come before point i: values are (B, i, k, j)."""
    points = values.shape[1]
    later = torch.ones(points, points, dtype=torch.bool, device=values.device).triu()  # (n, n)
    return values.masked_fill(later[:, None], 0.0)


def pull_back(xs: Tensor, values: Tensor) -> Tensor:
    """X'v of each prefix: (B, n, d, k) from v (B, n, k, n), zero from the i-th example on."""
    batch, points, outputs, _ = values.shape
    flat = values.reshape(batch, points * outputs, points) @ xs  # (B, n k, d)
    return flat.reshape(batch, points, outputs, -1).mT


def cached_rows(prompt: Prompt) -> Iterator[slice]:
    """Slices of prompts whose residuals are small enough for the cache."""
    size = tensor_bytes(prompt.points, prompt.outputs, prompt.points)
    return slices(prompt.batch, rows_within_budget(size, at_most=CHUNK))


def smaller_grams(prompt: Prompt) -> Iterator[tuple[int, Tensor]]:
    """Yield (i, XX') of the prefixes with i < d examples, then (i, X'X) of the others.

    These are (B, i, i) and (B, d, d) in float64: they have the same non-zero eigenvalues, and the
    smaller one costs less.
    """
    xs = prompt.xs.double()  # (B, n, d)
    first = xs[:, : prompt.dims]  # (B, min(n, d), d)
    kernel = first @ first.mT  # (B, min(n, d), min(n, d))
    for i in range(1, min(prompt.points, prompt.dims)):
        yield i, kernel[:, :i, :i]
    gram = first.mT @ first  # (B, d, d)
    for i in range(prompt.dims, prompt.points):
        if i > prompt.dims:
            gram = torch.baddbmm(gram, xs[:, i - 1, :, None], xs[:, i - 1, None])  # (B, d, d)
        yield i, gram
