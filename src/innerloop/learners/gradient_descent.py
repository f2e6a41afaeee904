"""Gradient descent on the squared error of each prefix."""

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
from innerloop.core.state_parts import MovingPart
from innerloop.learners.prefix import (
    LinearLearner,
    cached_rows,
    counts,
    pull_back,
    residuals,
    smaller_grams,
)
from innerloop.learners.units import in_units, input_units

SPAN = 2.0**500
"""How much smaller than the unit an input may be: its square is still in range."""


@plain_dataclass(frozen=True, slots=True, eq=False)
class DescentState:
    """The iterate of each prefix, and how far it goes at a time."""

    weights: Tensor
    """(B, n, d, k): what moves; for inputs in units."""
    rates: Tensor
    """(B, n): what the gradient of the sum is multiplied by; for inputs in units."""
    units: Tensor
    """(B,): what inputs are measured in; 1 unless they are extreme."""


@dataclass(frozen=True, config=STRICT)
class GradientDescent(LinearLearner[DescentState]):
    """Gradient descent on half the sum of squares.

    Each prefix has its own: w <- w - step_size X'(Xw - y), as in Fu et al. (2023), eq. 6, and Chen
    et al. (2025), def. 3.8. With `average` the loss, and so the gradient, is divided by the number
    of examples. A step size of None is 1/L of each prefix, L the largest eigenvalue of the loss'
    Hessian; the iterates are then the same with and without `average`. `start` holds the d numbers
    that all prompts and all outputs start at; None starts at zero. Prefixes without inputs stay
    where they start.
    """

    steps: int = Field(ge=0, description="steps to take")
    step_size: Annotated[FiniteFloat, Field(gt=0)] | None = Field(
        default=None, description="what the gradient is multiplied by; None: 1/L of each prefix"
    )
    average: bool = Field(default=False, description="divide the loss by the number of examples")
    start: tuple[FiniteFloat, ...] | None = Field(
        default=None, description="the d weights to start at; None: zero"
    )

    @property
    def traits(self) -> Traits:  # pyright: ignore[reportIncompatibleVariableOverride]
        """Only a start at zero has no direction of its own."""
        centred = not any(self.start or ())
        return Traits(order_invariant=True, rotation_equivariant=centred, linear_in_y=centred)

    def init(self, prompt: Prompt) -> DescentState:
        """The start, and the step size of each prefix."""
        shape = (prompt.batch, prompt.points, prompt.dims, prompt.outputs)
        weights = torch.zeros(shape, dtype=torch.float64, device=prompt.xs.device)
        units = self._units(prompt)  # (B,)
        if self.start is not None:
            if len(self.start) != prompt.dims:
                raise ConfigurationError(
                    f"start has {len(self.start)} numbers and the prompt {prompt.dims} dimensions: "
                    "give one number per dimension."
                )
            weights += torch.tensor(self.start, dtype=torch.float64, device=weights.device)[:, None]
            weights *= units[:, None, None, None]
        return DescentState(weights, self._rates(prompt, units), units)

    def step(self, prompt: Prompt, state: DescentState, k: int) -> DescentState:
        """One gradient step of every prefix, a few prompts at a time."""
        weights = torch.empty_like(state.weights)  # (B, n, d, k)
        for rows in cached_rows(prompt):
            xs = in_units(prompt.xs[rows].double(), state.units[rows])  # (R, n, d)
            ys = prompt.ys[rows].double()  # (R, n, k)
            old = state.weights[rows]  # (R, n, d, k)
            gradient = -pull_back(xs, residuals(xs, ys, old))  # (R, n, d, k)
            weights[rows] = old - state.rates[rows, :, None, None] * gradient
        return replace(state, weights=weights)

    def weights_of(self, state: DescentState) -> Tensor:
        """The iterate."""
        return from_units(state.weights, state.units)

    def overflow_cause(self, prompt: Prompt) -> str | None:
        """Whether the step size is too large."""
        if self.step_size is None:
            return None
        units = input_units(self.name, prompt, span=torch.inf)  # (1,)
        largest = squared_norms(in_units(prompt.xs.double(), units))  # (1, n)
        number = counts(prompt).clamp(min=1) if self.average else 1.0  # (n,)
        limit = float((2 * number / largest / units / units).amin())
        if self.step_size <= limit:
            return None
        return (
            f"step_size is {self.step_size:g} and gradient descent diverges beyond 2 / L, here "
            f"{limit:.1e}; take a smaller one, fewer steps, or None for 1 / L"
        )

    @property
    def moving(self) -> MovingPart[DescentState]:
        """The iterate."""
        return MovingPart(
            self.name,
            lambda state: state.weights,
            lambda state, weights: replace(state, weights=weights),
        )

    def _units(self, prompt: Prompt) -> Tensor:
        """What inputs are measured in: (B,). A step size is given for the inputs as they are."""
        if self.step_size is not None:
            return torch.ones(prompt.batch, dtype=torch.float64, device=prompt.xs.device)
        return input_units(self.name, prompt, span=SPAN)

    def _rates(self, prompt: Prompt, units: Tensor) -> Tensor:
        """What the gradient of the sum is multiplied by: (B, n)."""
        if self.step_size is None:
            largest = squared_norms(in_units(prompt.xs.double(), units))  # (B, n)
            return torch.where(largest > 0, 1 / largest, 0.0)
        number = counts(prompt).clamp(min=1)  # (n,)
        rate = self.step_size / number if self.average else torch.full_like(number, self.step_size)
        return rate.expand(prompt.batch, -1)


def from_units(weights: Tensor, units: Tensor) -> Tensor:
    """Weights (B, n, d, k) of inputs in units (B,) as those of the inputs themselves."""
    return weights if bool((units == 1).all()) else weights / units[:, None, None, None]


def largest_eigenvalues(prompt: Prompt) -> Tensor:
    """The largest eigenvalue of X'X of each prefix: (B, n), zero without examples."""
    return squared_norms(prompt.xs.double())


def squared_norms(xs: Tensor) -> Tensor:
    """The same for inputs (B, n, d): |X|^2 of each prefix."""
    largest = xs.new_zeros(xs.shape[:2])  # (B, n)
    for i, gram in smaller_grams(xs):
        largest[:, i] = torch.linalg.eigvalsh(gram)[:, -1].clamp(min=0)
    return largest
