"""Named slots of the residual stream, and affine functions of what stands in them.

A construction is written in these terms, and knows nothing of where a slot lies in the stream: that
is decided when it is compiled.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import torch
from torch import Tensor

from innerloop.core.errors import ConfigurationError, unknown

Number = int | float


@dataclass(frozen=True, eq=False)
class Affine:
    """An affine function of slots: the sum of a matrix times each, plus a constant."""

    constant: Tensor
    """(rows,) float64."""
    terms: Mapping[str, Tensor] = field(default_factory=dict)
    """(rows, size) float64 for each slot that is read, by its name."""

    @property
    def rows(self) -> int:
        """How many numbers it gives."""
        return self.constant.shape[0]

    def __add__(self, other: "Affine") -> "Affine":
        _require_rows(self, other)
        terms = dict(self.terms)
        for name, matrix in other.terms.items():
            terms[name] = terms[name] + matrix if name in terms else matrix  # (rows, size)
        return Affine(self.constant + other.constant, terms)

    def __sub__(self, other: "Affine") -> "Affine":
        return self + (-other)

    def __neg__(self) -> "Affine":
        return self * -1.0

    def __mul__(self, factor: Number) -> "Affine":
        terms = {name: factor * matrix for name, matrix in self.terms.items()}
        return Affine(factor * self.constant, terms)

    __rmul__ = __mul__

    def __rmatmul__(self, matrix: Tensor) -> "Affine":
        matrix = torch.as_tensor(matrix, dtype=torch.float64)  # (rows', rows)
        terms = {name: matrix @ own for name, own in self.terms.items()}  # (rows', size)
        return Affine(matrix @ self.constant, terms)

    def __getitem__(self, rows: int | slice | Sequence[int]) -> "Affine":
        which = torch.arange(self.rows)[rows].reshape(-1)  # (some,)
        return Affine(self.constant[which], {name: own[which] for name, own in self.terms.items()})


@dataclass(frozen=True, eq=False)
class Slot(Affine):
    """A place of the residual stream, which reads as what stands in it."""

    name: str = ""

    @property
    def size(self) -> int:
        """How many numbers it holds."""
        return self.rows

    def __repr__(self) -> str:
        return f"{self.name} ({self.size})"


def constant(*values: Number) -> Affine:
    """Numbers that depend on no slot."""
    return Affine(torch.tensor(values, dtype=torch.float64))


def zeros(rows: int) -> Affine:
    """So many zeros."""
    return Affine(torch.zeros(rows, dtype=torch.float64))


def join(*parts: Affine) -> Affine:
    """One below the other."""
    total = sum(part.rows for part in parts)
    terms: dict[str, Tensor] = {}
    start = 0
    for part in parts:
        for name, own in part.terms.items():
            matrix = terms.setdefault(name, own.new_zeros(total, own.shape[1]))  # (total, size)
            matrix[start : start + part.rows] = own
        start += part.rows
    return Affine(torch.cat([part.constant for part in parts]), terms)


class Residual:
    """The slots of a circuit's residual stream, in the order of their declaration."""

    def __init__(self) -> None:
        self.slots: dict[str, Slot] = {}

    def slot(self, name: str, size: int) -> Slot:
        """Declare a slot; all tokens have it, and it is zero where nothing is written."""
        if size < 1:
            raise ConfigurationError(f"slot {name!r} has size {size}, expected at least 1.")
        if name in self.slots:
            raise ConfigurationError(f"slot {name!r} is declared twice: choose another name.")
        eye = torch.eye(size, dtype=torch.float64)  # (size, size)
        self.slots[name] = Slot(eye.new_zeros(size), {name: eye}, name)
        return self.slots[name]

    def __getitem__(self, name: str) -> Slot:
        if name not in self.slots:
            raise ConfigurationError(unknown("slot", name, self.slots))
        return self.slots[name]

    def require(self, affine: Affine, where: str) -> None:
        """Refuse an affine function that reads what was not declared, or not in this size."""
        for name, matrix in affine.terms.items():
            if name not in self.slots:
                raise ConfigurationError(
                    f"{where} reads {unknown('slot', name, self.slots)} Declare it first."
                )
            if matrix.shape[1] != self.slots[name].size:
                raise ConfigurationError(
                    f"{where} reads {matrix.shape[1]} numbers of slot {name!r}, which holds "
                    f"{self.slots[name].size}: read the slot of this circuit."
                )

    @property
    def width(self) -> int:
        """The numbers of all slots together."""
        return sum(slot.size for slot in self.slots.values())

    def offsets(self) -> dict[str, int]:
        """Where each slot begins when they lie one behind the other."""
        places: dict[str, int] = {}
        start = 0
        for name, slot in self.slots.items():
            places[name] = start
            start += slot.size
        return places


def _require_rows(one: Affine, other: Affine) -> None:
    if one.rows != other.rows:
        raise ConfigurationError(
            f"{one.rows} numbers and {other.rows} cannot be added: give as many of both."
        )
