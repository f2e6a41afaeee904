"""Tasks that draw a function for each prompt and label inputs with it."""

import math
from abc import abstractmethod
from collections.abc import Mapping
from typing import ClassVar

import torch
from torch import Tensor

from innerloop.core.errors import ConfigurationError
from innerloop.core.prompt import Prompt
from innerloop.core.task import Task
from innerloop.tasks.draws import normal


class FunctionTask(Task):
    """Inputs, a random function of them, and noise on its values, each a piece of its own.

    A subclass writes `draw_function`, `evaluate` and `scale`, and replaces the other pieces where
    it differs. Shifts put the same pieces together in other ways. The random numbers are drawn in
    the order inputs, function, noise.
    """

    readout: ClassVar[str | None] = None
    """The parameter that the values are linear in, so that scaling it scales the function."""

    @property
    def unshiftable(self) -> str | None:
        """Nothing: its pieces can be changed one by one."""
        return None

    @property
    def isotropic(self) -> bool:
        """Whether the inputs are N(0, I)."""
        return True

    def draw_inputs(self, batch: int, points: int, generator: torch.Generator) -> Tensor:
        """Inputs (B, n, d); those of one prompt follow one distribution, however many are asked."""
        return self.normal(generator, batch, points, self.dims)

    @abstractmethod
    def draw_function(self, batch: int, generator: torch.Generator) -> dict[str, Tensor]:
        """The parameters of one function per prompt, batch first: what `prompt.truth` will hold."""

    @abstractmethod
    def evaluate(self, function: Mapping[str, Tensor], inputs: Tensor) -> Tensor:
        """The values (B, m, k), without noise, of each prompt's function at inputs (B, m, d)."""

    def add_noise(self, values: Tensor, generator: torch.Generator) -> Tensor:
        """The labels (B, m, k) that values become; the values themselves by default."""
        return values

    def truth(self, function: Mapping[str, Tensor], inputs: Tensor) -> dict[str, Tensor]:
        """What the analysis may know of a prompt with these inputs (B, n, d)."""
        return dict(function)

    def label(
        self, function: Mapping[str, Tensor], inputs: Tensor, generator: torch.Generator
    ) -> Tensor:
        """Labels (B, m, k): the function's values with noise."""
        return self.add_noise(self.evaluate(function, inputs), generator)

    def draw(self, batch: int, points: int, generator: torch.Generator) -> Prompt:
        """Inputs, a function, and its labels."""
        xs = self.draw_inputs(batch, points, generator)  # (B, n, d)
        function = self.draw_function(batch, generator)
        ys = self.label(function, xs, generator)  # (B, n, k)
        return Prompt(xs=xs, ys=ys, truth=self.truth(function, xs))

    def normal(self, generator: torch.Generator, *shape: int) -> Tensor:
        """Standard normal numbers of the task's type, on the generator's device."""
        return normal(generator, *shape, dtype=self.torch_dtype)


def with_noise(values: Tensor, deviation: float, generator: torch.Generator) -> Tensor:
    """Values plus N(0, deviation^2); nothing is drawn where the deviation is 0."""
    if deviation == 0:
        return values
    noise = normal(generator, *values.shape, dtype=values.dtype)  # (B, m, k)
    return values + deviation * noise


def squared(noise: float) -> float:
    """The variance of noise; infinity where Python would raise an error."""
    try:
        return noise**2
    except OverflowError:
        return math.inf


def number(value: float) -> Tensor:
    """A scale that is the same at every position: () in float64; refused where it is infinite."""
    if not math.isfinite(value):
        raise ConfigurationError(
            "E[y^2] of this task is beyond the range of float64: take a smaller noise or variance."
        )
    return torch.tensor(value, dtype=torch.float64)
