"""The posterior mean of noisy linear regression."""

from pydantic import Field, model_validator
from pydantic.dataclasses import dataclass
from torch import Tensor

from innerloop.core.config import STRICT
from innerloop.core.learner import Traits
from innerloop.core.prompt import Prompt
from innerloop.learners.prefix import LinearLearner
from innerloop.learners.ridge import Ridge, require_penalty


@dataclass(frozen=True, config=STRICT)
class Bayes(LinearLearner[Tensor]):
    """The posterior mean of noisy linear regression.

    E[w | X, y] for y = w.x + N(0, noise^2) and w ~ N(0, prior_variance I). It is ridge with penalty
    noise^2 / prior_variance, which no learner beats on average over such problems (Akyurek et al.
    2022, section 4.2); without noise, OLS.
    """

    noise: float = Field(
        ge=0, allow_inf_nan=False, description="standard deviation of the noise on y"
    )
    prior_variance: float = Field(
        default=1.0, gt=0, allow_inf_nan=False, description="variance of each weight"
    )

    traits = Traits(order_invariant=True, rotation_equivariant=True, linear_in_y=True)

    @model_validator(mode="after")
    def _require_penalty(self) -> "Bayes":
        require_penalty(self.noise, self.prior_variance)
        return self

    @property
    def ridge(self) -> Ridge:
        """The same learner as ridge regression."""
        return Ridge(self.noise**2 / self.prior_variance)

    def init(self, prompt: Prompt) -> Tensor:
        """The posterior mean of each prefix: (B, n, d, k)."""
        return self.ridge.init(prompt)
