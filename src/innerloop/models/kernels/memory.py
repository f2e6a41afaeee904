"""Memory that is used again at every training step: fresh pages cost more than writing to them.

Between forward and backward it belongs to the computation that borrowed it. So two computations
never share it, and one that is dropped half-way takes it along.
"""

from collections.abc import Callable, Hashable
from dataclasses import dataclass
from threading import Lock
from typing import Any, TypeVar

from torch import Tensor

Memory = TypeVar("Memory")

_idle: dict[str, tuple[Hashable, Any]] = {}
"""For each role the memory that was used last, and what it was made for."""
_lock = Lock()


def borrow(role: str, key: Hashable, make: Callable[[], Memory]) -> Memory:
    """The memory that was given back for this role and key, or new memory.

    What was kept for another key is freed first: sizes that have changed seldom change back.
    """
    with _lock:
        kept_for, memory = _idle.pop(role, (None, None))
    if memory is not None and kept_for == key:
        return memory
    del memory
    return make()


def give_back(role: str, key: Hashable, memory: object) -> None:
    """Let the next computation of the role have the memory."""
    with _lock:
        _idle[role] = (key, memory)


def release_memory() -> None:
    """Free the memory that is kept for the next training step."""
    with _lock:
        _idle.clear()


@dataclass(frozen=True, slots=True)
class Sizes:
    """B prompts of T tokens of width D; h heads of s numbers; H hidden units."""

    batch: int
    tokens: int
    width: int
    heads: int
    head_size: int
    hidden: int

    @property
    def rows(self) -> int:
        """R = B T: the tokens of all prompts are the rows of one matrix."""
        return self.batch * self.tokens

    @property
    def inner(self) -> int:
        """h s: the numbers of all heads."""
        return self.heads * self.head_size

    def by_prompt(self, rows: Tensor) -> Tensor:
        """A view (B, T, ..) of (R, ..)."""
        return rows.view(self.batch, self.tokens, -1)

    def by_head(self, rows: Tensor) -> Tensor:
        """A view (m, B, h, T, s) of (R, m h s)."""
        parts = rows.view(self.batch, self.tokens, -1, self.heads, self.head_size)
        return parts.permute(2, 0, 3, 1, 4)
