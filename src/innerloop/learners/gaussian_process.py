"""The posterior mean of a Gaussian process."""

from pydantic import Field, FiniteFloat, model_validator
from pydantic.dataclasses import dataclass
from torch import Tensor

from innerloop.core.config import STRICT
from innerloop.core.learner import OneShot, Traits
from innerloop.core.prompt import Prompt
from innerloop.learners.kernel_ridge import Kernel, KernelRidge
from innerloop.learners.ridge import require_penalty


@dataclass(frozen=True, config=STRICT)
class GaussianProcess(OneShot):
    """The posterior mean of a Gaussian process.

    E[f(x) | X, y] for y = f(x) + N(0, noise^2) and f a Gaussian process of mean 0 with covariance
    prior_variance k(x, x'). It is kernel ridge regression with penalty noise^2 / prior_variance;
    the kernels and their length are those of `KernelRidge`.
    """

    noise: FiniteFloat = Field(gt=0, description="standard deviation of the noise on y")
    prior_variance: FiniteFloat = Field(default=1.0, gt=0, description="variance of f(x)")
    length: FiniteFloat = Field(default=1.0, gt=0, description="distance that counts as one")
    kernel: Kernel = Field(default="rbf", description="how covariance falls with distance")

    traits = Traits(order_invariant=True, rotation_equivariant=True, linear_in_y=True)
    differentiable = False

    @model_validator(mode="after")
    def _require_penalty(self) -> "GaussianProcess":
        require_penalty(self.noise, self.prior_variance)
        return self

    @property
    def kernel_ridge(self) -> KernelRidge:
        """The same learner as kernel ridge regression."""
        return KernelRidge(self.noise**2 / self.prior_variance, self.length, self.kernel)

    def init(self, prompt: Prompt) -> Tensor:
        """The posterior means, in the prompt's shape."""
        return self.kernel_ridge.init(prompt)
