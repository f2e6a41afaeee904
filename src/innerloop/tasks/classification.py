"""Linear classification."""

from collections.abc import Mapping

import torch
from torch import Tensor

from innerloop.core.task import PromptForm
from innerloop.tasks.function import number
from innerloop.tasks.linear import LinearTask


class LinearClassification(LinearTask):
    """Labels -1 and +1 beside a random hyperplane.

    y = sign(x . w) with w ~ N(0, I) and x ~ N(0, I); the hyperplane itself is labelled +1.
    """

    readout = None

    @property
    def form(self) -> PromptForm:
        """Pairs with one label."""
        return PromptForm(dims=self.dims, labels=True)

    def draw_weights(self, batch: int, generator: torch.Generator) -> Tensor:
        """N(0, I)."""
        return self.normal(generator, batch, self.dims, 1)  # (B, d, 1)

    def evaluate(self, function: Mapping[str, Tensor], inputs: Tensor) -> Tensor:
        """The side of each input, never 0."""
        side = super().evaluate(function, inputs)  # (B, m, 1)
        return torch.where(side >= 0, 1.0, -1.0).to(inputs.dtype)

    def scale(self) -> Tensor:
        """Every label squares to 1."""
        return number(1)
