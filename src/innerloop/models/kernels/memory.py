"""Memory that is used again at every training step: fresh pages cost more than writing to them.

Between forward and backward it belongs to the computation that borrowed it. So two computations
never share it, and one that is dropped half-way takes it along.
"""

from collections.abc import Callable, Hashable
from typing import Any

_idle: dict[str, tuple[Hashable, Any]] = {}
"""For each role the memory that was used last, and what it was made for."""


def borrow(role: str, key: Hashable, make: Callable[[], Any]) -> Any:
    """The memory that was given back for this role and key, or new memory."""
    made_for, memory = _idle.pop(role, (None, None))  # one operation: threads need no lock
    if made_for == key:
        return memory
    del memory  # freed first: sizes that have changed seldom change back
    return make()


def give_back(role: str, key: Hashable, memory: object) -> None:
    """Let the next computation of the role have the memory."""
    _idle[role] = (key, memory)


def release_memory() -> None:
    """Free the memory that is kept for the next training step."""
    _idle.clear()
