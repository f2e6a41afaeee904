"""Ridge regression on random features."""

import math
from typing import Literal

import torch
from pydantic import Field, FiniteFloat
from pydantic.dataclasses import dataclass
from torch import Tensor

from innerloop.core.config import STRICT
from innerloop.core.errors import RangeError
from innerloop.core.learner import OneShot, Traits
from innerloop.core.prompt import Prompt
from innerloop.learners.kernel_ridge import answers_by_kernel
from innerloop.learners.prefix import require_finite

PHASES = 1e8
"""Inputs, in lengths, up to which their cosines are right to 1e-8."""
SQUARES = 1e150
"""Inputs, in lengths, up to which their squares are in the range of float64."""


@dataclass(frozen=True, config=STRICT)
class RandomFeatures(OneShot):
    """Ridge regression on random features: a network whose last layer alone is trained.

    The features are sqrt(2 / features) relu(u . x / length), or the same of cos(u . x / length + b)
    (Rahimi and Recht 2007), with u ~ N(0, I) and b uniform in 0 .. 2 pi. They are drawn once, from
    `seed`, for all prompts. Many cosines approach `KernelRidge` with the kernel rbf; with relu, a
    length is a change of the penalty by its square.
    """

    penalty: FiniteFloat = Field(
        ge=1e-290, description="what the squared weights are multiplied by"
    )
    features: int = Field(default=512, ge=1, description="how many there are")
    kind: Literal["relu", "cosine"] = Field(default="relu", description="function of u . x")
    length: FiniteFloat = Field(default=1.0, gt=0, description="what inputs are divided by")
    seed: int = Field(default=0, ge=0, lt=2**63, description="of the features")

    traits = Traits(order_invariant=True, linear_in_y=True)
    differentiable = False

    def init(self, prompt: Prompt) -> Tensor:
        """The answers: those of kernel ridge, the kernel being the product of two features."""
        generator = torch.Generator().manual_seed(self.seed)
        shape = (prompt.dims, self.features)
        weights = torch.randn(shape, generator=generator, dtype=torch.float64)  # (d, m)
        phases = torch.rand(self.features, generator=generator, dtype=torch.float64)  # (m,)
        weights, phases = (each.to(prompt.xs.device) for each in (weights, 2 * math.pi * phases))

        def phi(points: Tensor) -> Tensor:
            inputs = points @ weights / self.length  # (R, a, m)
            raw = inputs.relu() if self.kind == "relu" else torch.cos(inputs + phases)  # (R, a, m)
            return math.sqrt(2 / self.features) * raw

        self._require_range(prompt)
        answers = answers_by_kernel(
            prompt, lambda first, second: phi(first) @ phi(second).mT, self.penalty
        )
        return require_finite(self.name, prompt, answers)

    def _require_range(self, prompt: Prompt) -> None:
        """Refuse inputs whose features overflow, or are cosines of rounding."""
        limit = SQUARES if self.kind == "relu" else PHASES
        largest = [
            values.double().abs().flatten(1).amax(dim=1) for values in (prompt.xs, prompt.asked)
        ]
        sizes = torch.maximum(*largest) / self.length  # (B,)
        beyond = sizes > limit  # (B,)
        if bool(beyond.any()):
            b = int(torch.nonzero(beyond)[0])
            raise RangeError(
                f"{self.name} is given inputs of {float(sizes[b]):.1e} lengths in prompt {b} of "
                f"{prompt.batch}, and its {self.kind} features have no right digits beyond "
                f"{limit:.0e}: scale the inputs, or take a larger length."
            )
