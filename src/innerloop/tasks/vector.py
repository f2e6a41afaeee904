"""Linear vector generation."""

import torch
from torch import Tensor

from innerloop.tasks.function import number
from innerloop.tasks.linear import LinearTask


class VectorGeneration(LinearTask):
    """Linear functions with weights of length 1.

    theta is uniform on the unit sphere and stands in truth["w"]; x ~ N(0, I). The prompts of Chen
    et al. (2025), who ask for a vector v with <v, theta> = alpha, which a linear looped transformer
    answers with alpha times its weights.
    """

    def draw_weights(self, batch: int, generator: torch.Generator) -> Tensor:
        """A normal vector divided by its length."""
        normal = self.normal(generator, batch, self.dims, 1)  # (B, d, 1)
        return normal / torch.linalg.vector_norm(normal, dim=1, keepdim=True)

    def scale(self) -> Tensor:
        """E[y^2] = |theta|^2 = 1."""
        return number(1)
