"""Hidden states: those of the prompt's tokens, and those of the queries that look at them."""

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor


@dataclass(frozen=True, slots=True, eq=False)
class Hidden:
    """Tokens, and queries asked beside them; no token sees a query."""

    tokens: Tensor
    """(B, T, D)."""
    asked: Tensor | None = None
    """(B, n, q, D): the queries of each point; None without queries."""

    def map(self, function: Callable[..., Tensor], other: "Hidden | None" = None) -> "Hidden":
        """A function of the tokens and of the queries; of both and of another's, if given."""
        if other is None:
            asked = None if self.asked is None else function(self.asked)
            return Hidden(function(self.tokens), asked)
        asked = None if self.asked is None else function(self.asked, other.asked)
        return Hidden(function(self.tokens, other.tokens), asked)

    def plus(self, other: "Hidden | None") -> "Hidden":
        """The sum of both; itself where there is nothing to add."""
        return self if other is None else self.map(torch.add, other)


@dataclass(frozen=True, slots=True)
class Visible:
    """What is seen: the queries of point i see the first `first + stride * i` tokens."""

    first: int = 0
    stride: int = 1
    padding: Tensor | None = None
    """(B, T) bool: tokens that full attention must not see; None: there are none. At the end of a
    prompt a causal token does not see them anyway."""

    def count(self, point: int) -> int:
        """The tokens that the queries of a point see."""
        return self.first + self.stride * point

    def counts(self, points: range, device: torch.device) -> Tensor:
        """The tokens that the queries of each point see: (points,)."""
        index = torch.arange(points.start, points.stop, device=device)  # (points,)
        return self.first + self.stride * index
