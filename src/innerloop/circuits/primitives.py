"""The four primitives of Akyurek et al. (2022), lemma 1, by the names of what they read and write.

All tokens do the same at once. A primitive overwrites what it writes to, or adds to it.
"""

from dataclasses import dataclass

import torch
from torch import Tensor


@dataclass(frozen=True, slots=True, kw_only=True)
class Mov:
    """To <- factor * source of another token: of a place, or so many places back.

    A token that cannot see the place, or has none so far back, takes that of the start token.
    """

    source: str
    to: str
    place: int | None = None
    """Counted from the start token, which has place 0; or else `back`."""
    back: int | None = None
    factor: float = 1.0
    add: bool = False

    @property
    def reads(self) -> tuple[str, ...]:
        """What it reads."""
        return (self.source,)


@dataclass(frozen=True, slots=True, kw_only=True)
class Mul:
    """To <- factor * left right: an a x b matrix times a b x c one, row by row, in each token."""

    left: str
    right: str
    to: str
    shape: tuple[int, int, int]
    """(a, b, c)."""
    factor: float = 1.0
    add: bool = False

    @property
    def reads(self) -> tuple[str, ...]:
        """What it reads."""
        return (self.left, self.right)


@dataclass(frozen=True, slots=True, kw_only=True)
class Div:
    """To <- value / |divisor|, in each token; the divisor is one number, and nowhere zero.

    Under a norm before attention the square of the divisor, or a multiple of it, has to stand in a
    register: that is how the division is undone. Without that norm it is not read.
    """

    value: str
    divisor: str
    to: str
    square: str | None = None
    square_factor: float = 1.0
    """The multiple; a small one keeps large numbers out of the norm."""
    add: bool = False

    @property
    def reads(self) -> tuple[str, ...]:
        """What it reads."""
        return (self.value, self.divisor, *([] if self.square is None else [self.square]))


@dataclass(frozen=True, eq=False, kw_only=True)
class Aff:
    """To <- the sum of matrices times registers + constant, in each token; nothing: cleared."""

    to: str
    terms: tuple[tuple[Tensor, str], ...] = ()
    """Matrices (size of to, size of the register)."""
    constant: Tensor | None = None
    """(size of to,)."""
    add: bool = False

    @property
    def reads(self) -> tuple[str, ...]:
        """What it reads."""
        return tuple(name for _, name in self.terms)


Primitive = Mov | Mul | Div | Aff
Group = tuple[Primitive, ...]
"""What one layer does: all moves at once, then all the rest at once, on what was moved."""


def clear(*names: str) -> tuple[Aff, ...]:
    """Zeros to all of these."""
    return tuple(Aff(to=name) for name in names)


def scaled(source: str, to: str, factor: float, size: int, *, add: bool = False) -> Aff:
    """To <- factor * source."""
    eye = torch.eye(size, dtype=torch.float64)  # (size, size)
    return Aff(to=to, terms=((factor * eye, source),), add=add)
