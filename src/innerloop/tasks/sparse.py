"""Sparse linear regression."""

import torch
from pydantic import Field, FiniteFloat, model_validator
from torch import Tensor
from torch.nn import functional

from innerloop.tasks.draws import uniform
from innerloop.tasks.function import number, squared, with_noise
from innerloop.tasks.linear import LinearTask


class SparseLinearRegression(LinearTask):
    """Linear functions with few non-zero weights.

    Exactly `sparsity` weights are N(0, 1), on a uniformly random support; x ~ N(0, I). Garg et al.
    (2022); Yang et al. (2024) vary the sparsity.
    """

    sparsity: int = Field(default=3, ge=1, description="number of weights that are not zero")
    noise: FiniteFloat = Field(
        default=0.0, ge=0, description="standard deviation of the noise on y"
    )

    @model_validator(mode="after")
    def _check_sparsity(self) -> "SparseLinearRegression":
        if self.sparsity > self.dims:
            raise ValueError(
                f"sparsity is {self.sparsity}, expected at most dims, {self.dims}: "
                "no more weights can be non-zero than there are."
            )
        return self

    def draw_weights(self, batch: int, generator: torch.Generator) -> Tensor:
        """Normal weights; those whose random key is not among the largest are set to zero."""
        normal = self.normal(generator, batch, self.dims, 1)  # (B, d, 1)
        keys = uniform(generator, batch, self.dims)  # (B, d)
        support = keys.topk(self.sparsity, dim=1).indices  # (B, s)
        kept = torch.zeros_like(keys, dtype=torch.bool).scatter_(1, support, True)  # (B, d)
        return normal * kept[..., None]

    def draw_function_of_first(
        self, dims: int, batch: int, generator: torch.Generator
    ) -> dict[str, Tensor]:
        """Weights at so many of the first coordinates, or at all of these where they are fewer."""
        smaller = self.model_copy(update={"dims": dims, "sparsity": min(self.sparsity, dims)})
        weights = smaller.draw_weights(batch, generator)  # (B, dims, 1)
        return {"w": functional.pad(weights, (0, 0, 0, self.dims - dims))}  # (B, d, 1)

    def add_noise(self, values: Tensor, generator: torch.Generator) -> Tensor:
        """The values plus N(0, noise^2)."""
        return with_noise(values, self.noise, generator)

    def scale(self) -> Tensor:
        """E[y^2] = sparsity + noise^2."""
        return number(self.sparsity + squared(self.noise))
