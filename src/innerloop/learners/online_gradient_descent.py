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
        rates = self._rates(xs)  # (B, n)
        shape = (prompt.batch, prompt.points, prompt.dims, prompt.outputs)
        weights = torch.zeros(shape, dtype=torch.float64, device=xs.device)
        for i in range(prompt.points - 1):
            w, x = weights[:, i], xs[:, i, :, None]  # (B, d, k), (B, d, 1)
            error = x.mT @ w - ys[:, i, None]  # (B, 1, k)
            gradient = x * error + self.penalty * w  # (B, d, k)
            weights[:, i + 1] = w - rates[:, i, None, None] * gradient
        return weights

    def _rates(self, xs: Tensor) -> Tensor:
        """The step size of each example: (B, n)."""
        if self.step_size is not None:
            return torch.full_like(xs[..., 0], self.step_size)
        squares = xs.square().sum(dim=2)  # (B, n)
        # Below the smallest normal number 1 / |x|^2 is infinite: such inputs count as zero.
        usable = squares >= torch.finfo(torch.float64).tiny  # (B, n)
        return torch.where(usable, 1 / squares, 0.0)
