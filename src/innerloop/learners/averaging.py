"""Averaging: the mean of y_j x_j as weights."""

from pydantic.dataclasses import dataclass
from torch import Tensor

from innerloop.core.config import STRICT
from innerloop.core.learner import Traits
from innerloop.core.prompt import Prompt
from innerloop.learners.prefix import LinearLearner, counts, moments


@dataclass(frozen=True, config=STRICT)
class Averaging(LinearLearner[Tensor]):
    """The mean of y_j x_j as weights.

    w = X'y / i. The cheapest estimate that is right on average for whitened inputs: one gradient
    step of size 1 from zero on the averaged loss. A baseline of Garg et al. (2022).
    """

    traits = Traits(order_invariant=True, rotation_equivariant=True, linear_in_y=True)

    def init(self, prompt: Prompt) -> Tensor:
        """The weights of each prefix; zero without examples."""
        number = counts(prompt).clamp(min=1)  # (n,)
        return moments(prompt) / number[:, None, None]  # (B, n, d, k)
