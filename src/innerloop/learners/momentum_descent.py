"""Gradient descent with momentum on the squared error of each prefix."""

from dataclasses import dataclass as plain_dataclass
from dataclasses import replace
from typing import Annotated

import torch
from pydantic import Field, FiniteFloat
from pydantic.dataclasses import dataclass
from torch import Tensor

from innerloop.core.config import STRICT
from innerloop.core.learner import Traits
from innerloop.core.prompt import Prompt
from innerloop.core.state_parts import MovingPart
from innerloop.learners.gradient_descent import DescentState, GradientDescent, from_units
from innerloop.learners.prefix import LinearLearner


@plain_dataclass(frozen=True, slots=True, eq=False)
class MomentumState:
    """The last two iterates of each prefix, and how far a gradient step goes."""

    weights: Tensor
    """(B, n, d, k)."""
    before: Tensor
    """(B, n, d, k): one step earlier."""
    rates: Tensor
    """(B, n): what the gradient of the sum is multiplied by."""
    units: Tensor
    """(B,): what inputs are measured in; all of the above is for inputs in units."""


@dataclass(frozen=True, config=STRICT)
class MomentumDescent(LinearLearner[MomentumState]):
    """Gradient descent with momentum: Polyak's heavy ball.

    From zero: w_k+1 = w_k - step_size X'(X w_k - y) + momentum (w_k - w_k-1), the iterates of
    torch.optim.SGD with momentum (Polyak 1964). `step_size` and `average` are those of
    `GradientDescent`, which it is without momentum.
    """

    steps: int = Field(ge=0, description="steps to take")
    step_size: Annotated[FiniteFloat, Field(gt=0)] | None = Field(
        default=None, description="what the gradient is multiplied by; None: 1/L of each prefix"
    )
    momentum: float = Field(default=0.9, ge=0, lt=1, description="part of the last move added")
    average: bool = Field(default=False, description="divide the loss by the number of examples")

    traits = Traits(order_invariant=True, rotation_equivariant=True, linear_in_y=True)

    @property
    def _descent(self) -> GradientDescent:
        """The same steps without momentum."""
        return GradientDescent(self.steps, self.step_size, self.average)

    def init(self, prompt: Prompt) -> MomentumState:
        """Zero, at rest."""
        start = self._descent.init(prompt)
        return MomentumState(start.weights, start.weights, start.rates, start.units)

    def step(self, prompt: Prompt, state: MomentumState, k: int) -> MomentumState:
        """A gradient step of every prefix, and a part of the last move on top."""
        plain = DescentState(state.weights, state.rates, state.units)
        moved = self._descent.step(prompt, plain, k).weights  # (B, n, d, k)
        moved += self.momentum * (state.weights - state.before)
        return replace(state, weights=moved, before=state.weights)

    def weights_of(self, state: MomentumState) -> Tensor:
        """The last iterate."""
        return from_units(state.weights, state.units)

    def overflow_cause(self, prompt: Prompt) -> str | None:
        """That of gradient descent, which momentum makes more stable by at most a factor 2."""
        return self._descent.overflow_cause(prompt)

    @property
    def moving(self) -> MovingPart[MomentumState]:
        """Both iterates: (B, n, 2 d, k)."""

        def put(state: MomentumState, both: Tensor) -> MomentumState:
            weights, before = both.chunk(2, dim=2)  # (B, n, d, k) each
            return replace(state, weights=weights, before=before)

        def get(state: MomentumState) -> Tensor:
            return torch.cat([state.weights, state.before], dim=2)

        return MovingPart(self.name, get, put)
