"""Regression on squared inputs."""

from collections.abc import Mapping

import torch
from torch import Tensor

from innerloop.tasks.function import number
from innerloop.tasks.linear import LinearTask


class QuadraticRegression(LinearTask):
    """Linear functions of the squared inputs.

    Functions linear in the squares of the inputs, on the scale of linear ones. y = sum_i w_i x_i^2
    / sqrt(3) with w ~ N(0, I) and x ~ N(0, I). Garg et al. (2022).
    """

    def draw_weights(self, batch: int, generator: torch.Generator) -> Tensor:
        """N(0, I)."""
        return self.normal(generator, batch, self.dims, 1)  # (B, d, 1)

    def evaluate(self, function: Mapping[str, Tensor], inputs: Tensor) -> Tensor:
        """The linear function at the squares, divided by sqrt(3)."""
        return super().evaluate(function, inputs.square()) / 3**0.5  # (B, m, 1)

    def scale(self) -> Tensor:
        """E[y^2] = sum_i E[x_i^4] / 3 = d."""
        return number(self.dims)
