"""The conjugate gradient method on the normal equations of each prefix."""

from dataclasses import dataclass as plain_dataclass
from dataclasses import replace

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
    products_before,
    pull_back,
    residuals,
    sum_before,
)
from innerloop.learners.units import in_units, input_units, output_units

EPSILON = torch.finfo(torch.float64).eps
SPAN = 2.0**180
"""How much smaller than the unit an input may be: its fourth power is still in range."""


@plain_dataclass(frozen=True, slots=True, eq=False)
class ConjugateState:
    """The iterate of each prefix and output, and where it goes next.

    All of it is for inputs and outputs in units, which are 1 unless these are extreme.
    """

    weights: Tensor
    """(B, n, d, k): what moves."""
    direction: Tensor
    """(B, n, d, k): conjugate to all directions before; zero once converged."""
    squared: Tensor
    """(B, n, k): |X'(y - Xw)|^2; zero once converged."""
    units: Tensor
    """(B,): what inputs are measured in."""
    output_units: Tensor
    """(B, k): what outputs are measured in."""


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
        units = input_units(self.name, prompt, span=SPAN)  # (B,)
        of_outputs = output_units(prompt)  # (B, k)
        ys = prompt.ys.double() / of_outputs[:, None]  # (B, n, k)
        direction = products_before(in_units(prompt.xs.double(), units), ys)  # (B, n, d, k)
        squared = direction.square().sum(dim=2)  # (B, n, k)
        weights = torch.zeros_like(direction)  # (B, n, d, k)
        return ConjugateState(weights, direction, squared, units, of_outputs)

    def step(self, prompt: Prompt, state: ConjugateState, k: int) -> ConjugateState:
        """One step of every prefix and output, a few prompts at a time."""
        new = replace(
            state, weights=torch.empty_like(state.weights),
            direction=torch.empty_like(state.direction), squared=torch.empty_like(state.squared),
        )  # fmt: skip
        for rows in cached_rows(prompt):
            xs = in_units(prompt.xs[rows].double(), state.units[rows])  # (R, n, d)
            ys = prompt.ys[rows].double() / state.output_units[rows, None]  # (R, n, k)
            part = _step(xs, ys, map_state(lambda whole, rows=rows: whole[rows], state))
            new.weights[rows] = part.weights
            new.direction[rows] = part.direction
            new.squared[rows] = part.squared
        return new

    def weights_of(self, state: ConjugateState) -> Tensor:
        """The iterate."""
        factors = state.output_units / state.units[:, None]  # (B, k)
        if bool((factors == 1).all()):
            return state.weights
        return state.weights * factors[:, None, None]

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
    return replace(
        state, weights=weights, direction=direction.masked_fill(done[:, :, None], 0.0),
        squared=squared.masked_fill(done, 0.0),
    )  # fmt: skip


def _rounding(xs: Tensor, ys: Tensor, weights: Tensor) -> Tensor:
    """How small a gradient X'(y - Xw) cannot be told from its rounding: (R, n, k)."""
    inputs = sum_before(xs.square().sum(dim=2, keepdim=True)).sqrt()  # (R, n, 1)
    outputs = sum_before(ys.square()).sqrt()  # (R, n, k)
    return EPSILON * inputs * (outputs + inputs * weights.norm(dim=2))


def _divide(one: Tensor, other: Tensor) -> Tensor:
    """One / other, and zero where other is zero."""
    return torch.where(other == 0, 0.0, one / other)
