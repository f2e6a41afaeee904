"""Programs of primitives: registers, and groups of primitives of which each becomes one layer."""

from dataclasses import dataclass
from functools import cached_property
from math import ceil, log2, sqrt
from typing import Literal

from torch import Tensor

from innerloop.circuits.blueprint import ErrorBound
from innerloop.circuits.gelu import Form, best_scale, product_error
from innerloop.circuits.primitives import Div, Group

OVER = 2.0**27
"""The norm's number over the bound on all others: what passes a norm is off by 2^-54 / 2 of it.

A larger one would do harm: what rounding leaves of N c, differently in a slot and its mirror, moves
the norm's mean, in units of N.
"""


@dataclass(frozen=True, eq=False, kw_only=True)
class Register:
    """A place for numbers in every token, and what stands in it before the first layer."""

    name: str
    size: int
    largest: float
    """A bound on each of its numbers at all times: what products are scaled by."""
    inputs: Tensor | None = None
    """(size, d): a matrix times x, at x tokens."""
    outputs: Tensor | None = None
    """(size, k): a matrix times y, at y tokens."""
    constant: Tensor | None = None
    """(size,) on every token, the start token included."""
    places: Tensor | None = None
    """(T, size) by the place of a token; the start token has place 0."""


@dataclass(frozen=True, eq=False, kw_only=True)
class Program:
    """Groups of primitives on registers, for the tokens (start) x_0 y_0 x_1 y_1 .. x_{n-1}.

    Of a group all moves read first, then all the rest reads, what was moved included; what is
    written at once may not collide.
    """

    name: str
    dims: int
    outputs: int = 1
    points: int
    registers: tuple[Register, ...]
    groups: tuple[Group, ...]
    norm: Literal["pre", "mlp-only"] = "pre"
    form: Form = "tight"
    """Of products and of what is passed through the MLP."""
    scale: float | None = None
    """S, what operands are divided by beyond their bounds; None: the best of the float type."""
    norm_scale: float | None = None
    """N; None: so large that what the norm takes away is below the float type's spacing."""

    @property
    def tokens(self) -> int:
        """T: the start token and those of the prompt."""
        return 2 * self.points

    @cached_property
    def by_name(self) -> dict[str, Register]:
        """Registers by their names."""
        return {register.name: register for register in self.registers}

    @property
    def product_scale(self) -> float:
        """S."""
        return best_scale(self.form) if self.scale is None else self.scale

    @property
    def norm_number(self) -> float:
        """N."""
        if self.norm_scale is not None:
            return self.norm_scale
        return OVER * 2.0 ** ceil(log2(self.size))

    @property
    def size(self) -> float:
        """A bound on the norm of all numbers of a token but N."""
        # 3: the slots of places, and of the start token, hold at most 1
        return sqrt(3 + sum(register.size * register.largest**2 for register in self.registers))

    @property
    def unit_error(self) -> ErrorBound:
        """How far a product of operands up to 1 may be off, with all that they go through.

        An operand passes up to three norms: where it is moved, where it is multiplied, and where
        what was moved before it was cleared. Each takes size^2 / (2 N^2) of it.
        """
        own = product_error(self.product_scale, self.form)
        passed = 6 * (self.size / self.norm_number) ** 2 / 2
        return ErrorBound(own.truncation + passed, own.rounding)

    def divisions(self, group: Group) -> list[Div]:
        """The divisions of a group."""
        return [part for part in group if isinstance(part, Div)]


def x_place(point: int) -> int:
    """The place of the token x_i."""
    return 1 + 2 * point


def y_place(point: int) -> int:
    """The place of the token y_i."""
    return 2 + 2 * point
