"""Gradient descent on the squared error of each prefix."""

from collections.abc import Iterator
from dataclasses import dataclass as plain_dataclass
from dataclasses import replace
from typing import Annotated

import torch
from pydantic import Field, FiniteFloat
from pydantic.dataclasses import dataclass
from torch import Tensor

from innerloop.core.config import STRICT
from innerloop.core.errors import ConfigurationError
from innerloop.core.learner import Traits
from innerloop.core.prompt import Prompt
from innerloop.learners.prefix import LinearLearner, counts, tensor_bytes

CHUNK = 2**21
"""Bytes of one temporary of a step (2 MB): it stays in the cache, where a step is fastest."""


@plain_dataclass(frozen=True, slots=True, eq=False)
class DescentState:
    """The iterate of each prefix, and how far it goes at a time."""

    weights: Tensor
    """(B, n, d, k): what moves."""
    rates: Tensor
    """(B, n): what the gradient of the sum is multiplied by."""


@dataclass(frozen=True, config=STRICT)
class GradientDescent(LinearLearner[DescentState]):
    """W <- w - step_size X'(Xw - y), on half the sum of squares; fu2023 eq. 6, chen2025 def. 3.8.

    With `average` the loss, and so the gradient, is divided by the number of examples. A step size
    of None is 1/L of each prefix, L the largest eigenvalue of the loss' Hessian; the iterates are
    then the same with and without `average`. `start` holds the d numbers that all prompts and all
    outputs start at; None starts at zero. Prefixes without inputs stay where they start.
    """

    steps: int = Field(ge=0)
    step_size: Annotated[FiniteFloat, Field(gt=0)] | None = None
    average: bool = False
    start: tuple[FiniteFloat, ...] | None = None

    @property
    def traits(self) -> Traits:  # pyright: ignore[reportIncompatibleVariableOverride]
        """Only a start at zero has no direction of its own."""
        centred = not any(self.start or ())
        return Traits(order_invariant=True, rotation_equivariant=centred, linear_in_y=centred)

    def init(self, prompt: Prompt) -> DescentState:
        """The start, and the step size of each prefix."""
        shape = (prompt.batch, prompt.points, prompt.dims, prompt.outputs)
        weights = torch.zeros(shape, dtype=torch.float64, device=prompt.xs.device)
        if self.start is not None:
            if len(self.start) != prompt.dims:
                raise ConfigurationError(
                    f"start has {len(self.start)} numbers and the prompt {prompt.dims} dimensions: "
                    "give one number a dimension."
                )
            weights += torch.tensor(self.start, dtype=torch.float64, device=weights.device)[:, None]
        return DescentState(weights, self._rates(prompt))

    def step(self, prompt: Prompt, state: DescentState, k: int) -> DescentState:
        """One gradient step of every prefix, a few prompts at a time."""
        weights = torch.empty_like(state.weights)  # (B, n, d, k)
        for rows in cached_rows(prompt):
            xs, ys = prompt.xs[rows].double(), prompt.ys[rows].double()  # (R, n, d), (R, n, k)
            old = state.weights[rows]  # (R, n, d, k)
            gradient = -pull_back(xs, residuals(xs, ys, old))  # (R, n, d, k)
            weights[rows] = old - state.rates[rows, :, None, None] * gradient
        return replace(state, weights=weights)

    def weights_of(self, state: DescentState) -> Tensor:
        """The iterate."""
        return state.weights

    def moving(self, state: DescentState) -> Tensor:
        """The iterate."""
        return state.weights

    def with_moving(self, state: DescentState, moving: Tensor) -> DescentState:
        """Continue from another iterate."""
        return replace(state, weights=moving)

    def _rates(self, prompt: Prompt) -> Tensor:
        """What the gradient of the sum is multiplied by: (B, n)."""
        if self.step_size is None:
            largest = largest_eigenvalues(prompt)  # (B, n)
            # Below the smallest normal number 1/L is infinite: such inputs count as zero.
            usable = largest >= torch.finfo(torch.float64).tiny  # (B, n)
            return torch.where(usable, 1 / largest, 0.0)
        number = counts(prompt).clamp(min=1)  # (n,)
        rate = self.step_size / number if self.average else torch.full_like(number, self.step_size)
        return rate.expand(prompt.batch, -1)


def residuals(xs: Tensor, ys: Tensor, weights: Tensor) -> Tensor:
    """Y - Xw on the examples of each prefix: (B, n, k, n), zero from the i-th example on.

    Takes (B, n, d), (B, n, k) and (B, n, d, k). This form needs no Gram matrices, which are n
    times d by d a prompt, and reads each input once for all prefixes.
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
    rows = max(1, CHUNK // size)
    for start in range(0, prompt.batch, rows):
        yield slice(start, start + rows)


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


def largest_eigenvalues(prompt: Prompt) -> Tensor:
    """The largest eigenvalue of X'X of each prefix: (B, n), zero without examples."""
    shape = (prompt.batch, prompt.points)
    largest = torch.zeros(shape, dtype=torch.float64, device=prompt.xs.device)
    for i, gram in smaller_grams(prompt):
        largest[:, i] = torch.linalg.eigvalsh(gram)[:, -1].clamp(min=0)
    return largest
