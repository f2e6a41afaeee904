"""Random networks with one hidden layer."""

from collections.abc import Mapping

import torch
from pydantic import Field
from torch import Tensor

from innerloop.core.chunks import rows_within_budget
from innerloop.tasks.function import FunctionTask, number


class TwoLayerNetwork(FunctionTask):
    """Networks with one hidden layer of ReLU units.

    y = sqrt(2 / hidden) sum_j v_j relu(u_j . x), all weights N(0, 1), x ~ N(0, I). Garg et al.
    (2022). The truth holds "u" (B, d, hidden) and "v" (B, hidden, 1).
    """

    hidden: int = Field(default=100, ge=1, description="units of the hidden layer")

    readout = "v"

    def draw_function(self, batch: int, generator: torch.Generator) -> dict[str, Tensor]:
        """The weights of both layers."""
        return {
            "u": self.normal(generator, batch, self.dims, self.hidden),
            "v": self.normal(generator, batch, self.hidden, 1),
        }

    def evaluate(self, function: Mapping[str, Tensor], inputs: Tensor) -> Tensor:
        """Both layers, for as many prompts at a time as memory is granted for."""
        u, v = function["u"], function["v"]  # (B, d, hidden), (B, hidden, 1)
        rows = rows_within_budget(2 * inputs.shape[1] * self.hidden * inputs.element_size())
        chunks = zip(inputs.split(rows), u.split(rows), v.split(rows), strict=True)
        parts = [torch.relu(some @ first) @ second for some, first, second in chunks]
        return (2 / self.hidden) ** 0.5 * torch.cat(parts)  # (B, m, 1)

    def scale(self) -> Tensor:
        """E[relu(u . x)^2] = d / 2, hence E[y^2] = d."""
        return number(self.dims)
