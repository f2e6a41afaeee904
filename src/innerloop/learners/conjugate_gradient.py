"""The conjugate gradient method on the normal equations of each prefix."""

from dataclasses import dataclass as plain_dataclass

import torch
from pydantic import Field
from pydantic.dataclasses import dataclass
from torch import Tensor

from innerloop.core.config import STRICT
from innerloop.core.learner import Traits
from innerloop.core.prompt import Prompt
from innerloop.core.state import map_state
from innerloop.core.state_parts import MovingPart
from innerloop.learners.prefix import (
    LinearLearner,
    cached_rows,
    moments,
    pull_back,
    residuals,
    sum_before,
)

EPSILON = torch.finfo(torch.float64).eps


@plain_dataclass(frozen=True, slots=True, eq=False)
class ConjugateState:
    """The iterate of each prefix and output, and where it goes next."""

    weights: Tensor
    """(B, n, d, k): what moves."""
    direction: Tensor
    """(B, n, d, k): conjugate to all directions before; zero once converged."""
    squared: Tensor
    """(B, n, k): |X'(y - Xw)|^2; zero once converged."""


@dataclass(frozen=True, config=STRICT)
class ConjugateGradient(LinearLearner[ConjugateState]):
    """Conjugate gradient on the normal equations.

    After K steps the weights are the best in the span of X'y, S X'y, .., S^(K-1) X'y, with S = X'X.
    This is Hestenes and Stiefel's method for least squares (CGLS), which multiplies by X and X' in
    turn: it never forms S, whose rounding is that of the squared condition number. Residuals are
    computed anew at every step; a recurrence would keep n numbers more per prefix and output.

    In exact arithmetic d steps end at the least squares solution of least norm. In floating point
    that holds for small condition numbers only, see docs/conjugate-gradient.md. The path depends
    on y, so the predictions are not linear in y before the end.
    """

    steps: int = Field(ge=0, description="steps to take")

    traits = Traits(order_invariant=True, rotation_equivariant=True)

    def init(self, prompt: Prompt) -> ConjugateState:
        """Zero, with the gradient as the first direction."""
        direction = moments(prompt)  # (B, n, d, k)
        squared = direction.square().sum(dim=2)  # (B, n, k)
        return ConjugateState(torch.zeros_like(direction), direction, squared)

    def step(self, prompt: Prompt, state: ConjugateState, k: int) -> ConjugateState:
        """One step of every prefix and output, a few prompts at a time."""
        new = map_state(torch.empty_like, state)
        for rows in cached_rows(prompt):
            xs, ys = prompt.xs[rows].double(), prompt.ys[rows].double()  # (R, n, d), (R, n, k)
            part = _step(xs, ys, map_state(lambda whole, rows=rows: whole[rows], state))
            new.weights[rows] = part.weights
            new.direction[rows] = part.direction
            new.squared[rows] = part.squared
        return new

    def weights_of(self, state: ConjugateState) -> Tensor:
        """The iterate."""
        return state.weights

    @property
    def moving(self) -> MovingPart[ConjugateState]:
        """The iterate; the steps depend on the direction as well, so it cannot be replaced."""
        return MovingPart(self.name, lambda state: state.weights)


def _step(xs: Tensor, ys: Tensor, state: ConjugateState) -> ConjugateState:
    """One step on inputs (R, n, d) and outputs (R, n, k)."""
    across = residuals(xs, torch.zeros_like(ys), state.direction)  # (R, n, k, n), -X direction
    curvature = across.square().sum(dim=3)  # (R, n, k)
    length = _divide(state.squared, curvature)  # (R, n, k)
    weights = state.weights + length[:, :, None] * state.direction  # (R, n, d, k)

    gradient = pull_back(xs, residuals(xs, ys, weights))  # (R, n, d, k), downhill
    squared = gradient.square().sum(dim=2)  # (R, n, k)
    done = squared.sqrt() <= _rounding(xs, ys, weights)  # (R, n, k)
    turn = _divide(squared, state.squared)  # (R, n, k)
    direction = gradient + turn[:, :, None] * state.direction  # (R, n, d, k)
    return ConjugateState(
        weights,
        direction.masked_fill(done[:, :, None], 0.0),
        squared.masked_fill(done, 0.0),
    )


def _rounding(xs: Tensor, ys: Tensor, weights: Tensor) -> Tensor:
    """How small a gradient X'(y - Xw) cannot be told from its rounding: (R, n, k)."""
    inputs = sum_before(xs.square().sum(dim=2, keepdim=True)).sqrt()  # (R, n, 1)
    outputs = sum_before(ys.square()).sqrt()  # (R, n, k)
    return EPSILON * inputs * (outputs + inputs * weights.norm(dim=2))


def _divide(one: Tensor, other: Tensor) -> Tensor:
    """One / other, and zero where other is zero."""
    return torch.where(other == 0, 0.0, one / other)
