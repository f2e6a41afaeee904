"""The reference of figure 2c: the best answer on chains of thought, by who knows their form."""

import math
from functools import cached_property

import torch
from pydantic import Field
from pydantic.dataclasses import dataclass
from torch import Tensor
from torch.nn.functional import leaky_relu

from innerloop.core.config import STRICT
from innerloop.core.iterate import predict
from innerloop.core.learner import OneShot, Traits
from innerloop.core.prompt import Prompt
from innerloop.learners import Ridge

ROUNDING = 1e-12
"""The penalty, over the prior variance of a weight: tokens are rounded to float32, 6e-8 of their
size, so that directions a millionth of the others' size are not known."""


@dataclass(frozen=True, config=STRICT)
class LayerByLayer(OneShot):
    """The mean of the next state of a chain, given all tokens before it.

    s^l = leaky(s^{l-1} W_l): with the slope known the activation is inverted, which leaves one
    linear regression per layer, without noise. The entries of W_l are normal and independent, so
    that a state before its activation, given the chains before it, is normal too: its mean mu is
    that of least squares of minimum norm, and its deviation sigma is that of a weight times the
    length of what lies outside the span of the states seen so far. The mean of a leaky ReLU of
    such a number is known. So this is Bayes' answer: nothing that sees the same tokens has a lower
    mean squared error, and from d chains on it is right.

    Where a fresh x follows a finished chain the answer is 0, its mean.
    """

    layers: int = Field(ge=1)
    slope: float = Field(gt=0, le=1)

    traits = Traits()

    @cached_property
    def name(self) -> str:
        """What it does."""
        return "least squares per layer"

    def init(self, prompt: Prompt) -> Tensor:
        """The means (B, n, d)."""
        answers = torch.zeros_like(prompt.ys, dtype=torch.float64)  # (B, n, d)
        for level in range(self.layers):
            places = slice(level, None, self.layers + 1)  # c of them
            states, following = (each[:, places].double() for each in (prompt.xs, prompt.ys))
            answers[:, places] = self._means(states, following)
        return answers

    def _means(self, states: Tensor, following: Tensor) -> Tensor:
        """The means (B, c, d) of one layer, given its inputs and outputs (B, c, d) by chain."""
        dims = states.shape[2]
        before = leaky_relu(following, 1 / self.slope)  # (B, c, d)
        # Ridge of the states on themselves gives their part within the span of those before.
        pairs = Prompt(xs=states, ys=torch.cat([before, states], dim=2))
        mean, within = predict(Ridge(ROUNDING), pairs).split(dims, dim=2)  # (B, c, d) each
        outside = (states * (states - within)).sum(dim=2, keepdim=True).clamp(min=0)  # (B, c, 1)
        prior = 2 / ((1 + self.slope**2) * dims)  # the variance of a weight
        return leaky_mean(mean, (prior * outside).sqrt(), self.slope)


def leaky_mean(mean: Tensor, deviation: Tensor, slope: float) -> Tensor:
    """E[leaky_relu(z)] for z ~ N(mean, deviation^2), of the shape of `mean`."""
    ratio = mean / deviation.clamp(min=1e-30)
    positive = torch.special.ndtr(ratio)  # P(z > 0)
    density = (-ratio.square() / 2).exp() / math.sqrt(2 * math.pi)
    return slope * mean + (1 - slope) * (mean * positive + deviation * density)
