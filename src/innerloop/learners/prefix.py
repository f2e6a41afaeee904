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
from innerloop.core.overflow import refuse_overflow
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
    differentiable = False

    def step(self, prompt: Prompt, state: State, k: int) -> State:
        """Nothing is left to do."""
        return state

    def weights_of(self, state: State) -> Tensor:
        """The weights (B, n, d, k), in float64, that a state holds."""
        return cast(Tensor, state)

    def read(self, prompt: Prompt, state: State) -> Tensor:
        """X . w of the prefix, for x_i or for every query of point i."""
        answers = read_linear(prompt, self.weights_of(state))  # (B, n[, q], k)
        return refuse_overflow(self.name, answers, lambda b: self._cause(prompt, b))

    def weights(self, prompt: Prompt, state: State | None = None) -> Tensor:
        """The weights of a state, or of the last one: (B, n, d, k) in float64."""
        if state is None:
            *_, state = iterate(self, prompt)
        weights = self.weights_of(state)  # (B, n, d, k)
        return refuse_overflow(self.name, weights, lambda b: self._cause(prompt, b))

    def overflow_cause(self, prompt: Prompt) -> str | None:
        """Why numbers overflow on a single prompt, and what to do: the end of a sentence.

        None where it is the size of the prompt's numbers alone.
        """
        return None

    def _cause(self, prompt: Prompt, b: int) -> str:
        one = prompt.select(slice(b, b + 1))
        return self.overflow_cause(one) or too_large(one)


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


def require_finite(name: str, prompt: Prompt, answers: Tensor) -> Tensor:
    """Answers (B, ..) of the learner of that name, refused where the prompt's type has no room."""
    cast = answers.to(prompt.xs.dtype)  # (B, ..)
    refuse_overflow(name, cast, lambda b: too_large(prompt.select(slice(b, b + 1))))
    return answers


def too_large(prompt: Prompt) -> str:
    """The end of a sentence: numbers of this prompt (1, n, d) are too large, or too small."""
    inputs, outputs = (float(values.detach().abs().max()) for values in (prompt.asked, prompt.ys))
    return (
        f"with inputs up to {inputs:.1e} and outputs up to {outputs:.1e} its numbers leave the "
        f"range of {str(prompt.xs.dtype).removeprefix('torch.')}; bring both nearer to 1"
    )


def sum_before(values: Tensor) -> Tensor:
    """Entry i is the sum of the entries before i along axis 1: (B, n, ...), zeros first."""
    sums = torch.cumsum(values[:, :-1], dim=1)  # (B, n - 1, ...)
    return torch.cat([torch.zeros_like(values[:, :1]), sums], dim=1)


def moments(prompt: Prompt) -> Tensor:
    """X'y of each prefix: (B, n, d, k) in float64."""
    return products_before(prompt.xs.double(), prompt.ys.double())


def products_before(xs: Tensor, ys: Tensor) -> Tensor:
    """X'y of each prefix of xs (B, n, d) and ys (B, n, k): (B, n, d, k)."""
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


def smaller_grams(xs: Tensor) -> Iterator[tuple[int, Tensor]]:
    """Yield (i, XX') of the prefixes of xs (B, n, d) with i < d examples, then (i, X'X) of others.

    These are (B, i, i) and (B, d, d): they have the same non-zero eigenvalues, and the
    smaller one costs less.
    """
    _, points, dims = xs.shape
    first = xs[:, :dims]  # (B, min(n, d), d)
    kernel = first @ first.mT  # (B, min(n, d), min(n, d))
    for i in range(1, min(points, dims)):
        yield i, kernel[:, :i, :i]
    gram = first.mT @ first  # (B, d, d)
    for i in range(dims, points):
        if i > dims:
            gram = torch.baddbmm(gram, xs[:, i - 1, :, None], xs[:, i - 1, None])  # (B, d, d)
        yield i, gram
