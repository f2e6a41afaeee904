"""Random decision trees."""

from collections.abc import Mapping

import torch
from pydantic import Field
from torch import Tensor

from innerloop.tasks.function import FunctionTask, number


class DecisionTree(FunctionTask):
    """Decision trees on signs of random coordinates.

    A complete binary tree, drawn anew for each prompt: every inner node looks at a uniformly random
    coordinate and goes right where it is positive; the leaves hold N(0, 1); x ~ N(0, I). Garg et
    al. (2022). Node j of truth["coordinates"] (B, 2^depth - 1) has the children 2j + 1 and 2j + 2;
    truth["leaves"] is (B, 2^depth), from left to right.
    """

    depth: int = Field(default=4, ge=1, le=16, description="questions asked on the way to a leaf")

    readout = "leaves"

    def draw_function(self, batch: int, generator: torch.Generator) -> dict[str, Tensor]:
        """The coordinates of the inner nodes, level by level, and the values of the leaves."""
        inner = (batch, 2**self.depth - 1)
        coordinates = torch.randint(
            self.dims, inner, generator=generator, device=generator.device
        )  # (B, 2^depth - 1)
        leaves = self.normal(generator, batch, 2**self.depth)  # (B, 2^depth)
        return {"coordinates": coordinates, "leaves": leaves}

    def evaluate(self, function: Mapping[str, Tensor], inputs: Tensor) -> Tensor:
        """Walk all points of all prompts down their trees at once, one level per step."""
        coordinates, leaves = function["coordinates"], function["leaves"]
        node = coordinates.new_zeros(inputs.shape[:2])  # (B, m)
        for _ in range(self.depth):
            asked = coordinates.gather(1, node)  # (B, m)
            value = inputs.gather(2, asked[..., None])[..., 0]  # (B, m)
            node = 2 * node + 1 + (value > 0)  # (B, m)
        leaf = node - coordinates.shape[1]  # (B, m)
        return leaves.gather(1, leaf)[..., None]  # (B, m, 1)

    def scale(self) -> Tensor:
        """Each leaf has variance 1."""
        return number(1)
