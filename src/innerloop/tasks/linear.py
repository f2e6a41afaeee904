"""Linear regression: dense weights, with noise, a prior variance and any covariance of inputs."""

from abc import abstractmethod
from collections.abc import Mapping
from typing import Any, get_args

import torch
from pydantic import Field, FiniteFloat, field_validator, model_validator
from torch import Tensor

from innerloop.core.errors import unknown
from innerloop.core.task import PromptForm
from innerloop.tasks.covariance import (
    Covariance,
    CovarianceName,
    covariance_problem,
    ill_conditioned_spectrum,
    is_matrix,
    matrix_root,
    random_bases,
    skewed_spectrum,
    stretch,
)
from innerloop.tasks.function import FunctionTask, number, squared, with_noise


class LinearTask(FunctionTask):
    """What the linear tasks share: y = x . w, with truth["w"] (B, d, k)."""

    readout = "w"

    @abstractmethod
    def draw_weights(self, batch: int, generator: torch.Generator) -> Tensor:
        """The weights (B, d, k) of each prompt."""

    def draw_function(self, batch: int, generator: torch.Generator) -> dict[str, Tensor]:
        """The weights."""
        return {"w": self.draw_weights(batch, generator)}

    def evaluate(self, function: Mapping[str, Tensor], inputs: Tensor) -> Tensor:
        """The products x . w."""
        return inputs @ function["w"]  # (B, m, k)


class LinearRegression(LinearTask):
    """Linear functions with dense normal weights.

    y = x . w + noise with w ~ N(0, prior_variance I), x ~ N(0, covariance), noise ~ N(0, noise^2).
    The setting of Garg et al. (2022); Akyurek et al. (2022) vary noise and prior, Fu et al. (2023)
    the covariance. Where the covariance is given by eigenvalues, its basis is drawn uniformly for
    each prompt.
    """

    noise: FiniteFloat = Field(
        default=0.0, ge=0, description="standard deviation of the noise on y"
    )
    prior_variance: FiniteFloat = Field(default=1.0, gt=0, description="variance of each weight")
    covariance: Covariance = Field(
        default="identity",
        description="of the inputs: identity, ill-conditioned, skewed (1/i^2), eigenvalues, matrix",
    )
    condition_number: FiniteFloat = Field(
        default=100.0,
        ge=1,
        description="of the ill-conditioned covariance; no other covariance reads it",
    )
    outputs: int = Field(
        default=1, ge=1, description="outputs of a point, each with its own weights"
    )

    @field_validator("covariance", mode="before")
    @classmethod
    def _read_text(cls, value: Any) -> Any:
        """Read eigenvalues that come as text, "1,2,3", or as one number, from a command line."""
        names = get_args(CovarianceName)
        if isinstance(value, int | float):
            return (value,)
        if not isinstance(value, str) or value in names:
            return value
        try:
            return tuple(float(part) for part in value.split(","))
        except ValueError:
            raise ValueError(unknown("covariance", value, names)) from None

    @model_validator(mode="after")
    def _check_covariance(self) -> "LinearRegression":
        problem = covariance_problem(self.covariance, self.dims)
        if problem is not None:
            raise ValueError(problem)
        return self

    @property
    def form(self) -> PromptForm:
        """Pairs with as many outputs as were asked for."""
        return PromptForm(dims=self.dims, outputs=self.outputs)

    @property
    def isotropic(self) -> bool:
        """Only the identity counts: a matrix that equals it is not looked at."""
        return self.covariance == "identity"

    def draw_inputs(self, batch: int, points: int, generator: torch.Generator) -> Tensor:
        """N(0, Sigma), with a basis of its own for each prompt unless Sigma is a full matrix."""
        xs = super().draw_inputs(batch, points, generator)  # (B, n, d)
        if self.isotropic:
            return xs
        if is_matrix(self.covariance):
            matrix = torch.tensor(self.covariance, dtype=torch.float64)  # (d, d)
            return xs @ matrix_root(matrix).to(xs)
        bases = random_bases(batch, self.dims, generator)  # (B, d, d)
        return stretch(xs, self._spectrum(), bases)

    def draw_weights(self, batch: int, generator: torch.Generator) -> Tensor:
        """N(0, prior_variance), one column per output."""
        normal = self.normal(generator, batch, self.dims, self.outputs)  # (B, d, k)
        return self.prior_variance**0.5 * normal

    def add_noise(self, values: Tensor, generator: torch.Generator) -> Tensor:
        """The values plus N(0, noise^2)."""
        return with_noise(values, self.noise, generator)

    def scale(self) -> Tensor:
        """E[y^2] = prior_variance * trace(Sigma) + noise^2."""
        if is_matrix(self.covariance):
            trace = float(torch.tensor(self.covariance, dtype=torch.float64).trace())
        else:
            trace = float(self._spectrum().sum())
        return number(self.prior_variance * trace + squared(self.noise))

    def _spectrum(self) -> Tensor:
        """The eigenvalues (d,) of the covariance."""
        if self.covariance == "ill-conditioned":
            return ill_conditioned_spectrum(self.dims, self.condition_number)
        if self.covariance == "skewed":
            return skewed_spectrum(self.dims)
        if self.covariance == "identity":
            return torch.ones(self.dims, dtype=torch.float64)
        return torch.tensor(self.covariance, dtype=torch.float64)
