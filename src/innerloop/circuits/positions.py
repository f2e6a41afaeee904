"""Places of tokens, and heads that look at a given place.

Place p is written as (p, p^2). The score 2 t p - p^2 of a token at place p is largest where p is t,
by at least 1 over all others, and all of it is integers: two numbers name any number of places
without rounding. (Angles would need no more, but their gap shrinks as 1 / T^2; one-hot places have
a gap of 1 too, but take T numbers.)

Slots scaled down to at most 1 carry the same, where large numbers would disturb a norm.
"""

from dataclasses import dataclass

import torch
from torch import Tensor

from innerloop.circuits.residual import Affine, Residual, Slot, constant, join

SATURATED = 80.0
"""Logits apart at which softmax is a copy in float64: exp(-80) is 2e-35."""


@dataclass(frozen=True, eq=False)
class Places:
    """The slot of places, and how many there are."""

    slot: Slot
    """Two numbers: p / unit and (p / unit)^2."""
    tokens: int
    unit: float

    @classmethod
    def declare(cls, residual: Residual, tokens: int, *, unit: float = 1.0) -> "Places":
        """Declare the slot; a unit of `tokens` keeps its numbers below 1."""
        return cls(residual.slot("place", 2), tokens, unit)

    @property
    def values(self) -> Tensor:
        """What stands in the slot of each token: (T, 2)."""
        place = torch.arange(self.tokens, dtype=torch.float64) / self.unit  # (T,)
        return torch.stack([place, place.square()], dim=1)

    @property
    def index(self) -> Affine:
        """P."""
        return self.unit * self.slot[0]

    @property
    def square(self) -> Affine:
        """p^2."""
        return self.unit**2 * self.slot[1]

    def keys(self) -> Affine:
        """What a token shows of its place: (p, p^2, 1)."""
        return join(self.index, self.square, constant(1.0))

    def looking_back(self, distance: int) -> Affine:
        """A query for the place so far before one's own; a negative distance looks ahead.

        The score is -(p - t)^2, with t = own - distance: 0 there, and at most -1 elsewhere.
        """
        # t^2 = own^2 - 2 distance own + distance^2
        square = self.square - 2.0 * distance * self.index + constant(float(distance**2))
        return join(2.0 * (self.index - constant(float(distance))), constant(-1.0), -square)

    def looking_at(self, place: int) -> Affine:
        """A query for one place, the same for all tokens."""
        return constant(2.0 * place, -1.0, -float(place**2))
