"""Online gradient descent: one step per example, in order."""

from typing import Annotated

import torch
from pydantic import Field, FiniteFloat
from pydantic.dataclasses import dataclass
from torch import Tensor

from innerloop.core.config import STRICT
from innerloop.core.learner import Traits
from innerloop.core.prompt import Prompt
from innerloop.learners.prefix import LinearLearner
from innerloop.learners.units import powers_of_two


@dataclass(frozen=True, config=STRICT)
class OnlineGradientDescent(LinearLearner[Tensor]):
    """Gradient descent, one example after the other.

    From zero: w <- w - step_size (x (x.w - y) + penalty w): the gradient of the example's (x.w -
    y)^2 / 2 + penalty |w|^2 / 2. A step size of None is 1 / |x|^2, which leaves no error on the
    example just seen when there is no penalty (Fu et al. 2023, eq. 7); an input of zero then takes
    no step. Akyurek et al. (2022, eq. 11) state the loss without the halves: their step size is
    half of this one at the same penalty. (Their printed gradient has lost a factor 2 on the error;
    with it, their penalty is half of this one at the same step size.)
    """

    step_size: Annotated[FiniteFloat, Field(gt=0)] | None = Field(
        default=None, description="what the gradient is multiplied by; None: 1 / |x|^2"
    )
    penalty: FiniteFloat = Field(
        default=0.0, ge=0, description="what |w|^2 / 2 is multiplied by, at each example"
    )

    traits = Traits(rotation_equivariant=True, linear_in_y=True)

    def init(self, prompt: Prompt) -> Tensor:
        """The weights before each example: entry i has seen the examples 0 .. i-1."""
        xs, ys = prompt.xs.double(), prompt.ys.double()  # (B, n, d), (B, n, k)
        penalty = torch.full_like(xs[..., 0], self.penalty)  # (B, n)
        if self.step_size is None:
            # Each example in a unit of its own: the square of an extreme input is out of range.
            units = powers_of_two(xs.abs().amax(dim=2))  # (B, n)
            xs, ys = xs / units[..., None], ys / units[..., None]  # (B, n, d), (B, n, k)
            penalty = penalty / units / units  # (B, n)
        rates = self._rates(xs)  # (B, n)
        shape = (prompt.batch, prompt.points, prompt.dims, prompt.outputs)
        weights = torch.zeros(shape, dtype=torch.float64, device=xs.device)
        for i in range(prompt.points - 1):
            w, x = weights[:, i], xs[:, i, :, None]  # (B, d, k), (B, d, 1)
            error = x.mT @ w - ys[:, i, None]  # (B, 1, k)
            gradient = x * error + penalty[:, i, None, None] * w  # (B, d, k)
            weights[:, i + 1] = w - rates[:, i, None, None] * gradient
        return weights

    def _rates(self, xs: Tensor) -> Tensor:
        """The step size of each example: (B, n)."""
        if self.step_size is not None:
            return torch.full_like(xs[..., 0], self.step_size)
        squares = xs.square().sum(dim=2)  # (B, n)
        return torch.where(squares > 0, 1 / squares, 0.0)

    def overflow_cause(self, prompt: Prompt) -> str | None:
        """Whether the step size, or the penalty, is too large."""
        largest = float(prompt.xs.double().square().sum(dim=2)[0, :-1].amax())
        smallest = float(prompt.xs.double().square().sum(dim=2)[0, :-1].amin())
        if self.step_size is None:
            if self.penalty <= smallest:
                return None
            return (
                f"a penalty of {self.penalty:g} makes it diverge where |x|^2 is smaller, here down "
                f"to {smallest:.1e}; take a smaller penalty, or a step size"
            )
        if self.step_size * (largest + self.penalty) <= 2:
            return None
        return (
            f"step_size is {self.step_size:g} and it diverges beyond 2 / (|x|^2 + penalty), here "
            f"{2 / (largest + self.penalty):.1e}; take a smaller one, or None for 1 / |x|^2"
        )
