"""Memory that is used again at every training step: fresh pages cost more than writing to them.

Between forward and backward it belongs to the computation that borrowed it. So two computations
never share it, and one that is dropped half-way takes it along.
"""

from collections.abc import Callable, Hashable
from threading import Lock
from typing import Any, TypeVar

Memory = TypeVar("Memory")

_idle: dict[str, tuple[Hashable, Any]] = {}
"""For each role the memory that was used last, and what it was made for."""
_lock = Lock()


def borrow(role: str, key: Hashable, make: Callable[[], Memory]) -> Memory:
    """The memory that was given back for this role and key, or new memory.

    What was kept for another key is freed first: sizes that have changed seldom change back.
    """
    with _lock:
        found, memory = _idle.pop(role, (None, None))
    if memory is not None and found == key:
        return memory
    del memory
    return make()


def give_back(role: str, key: Hashable, memory: object) -> None:
    """Let the next computation of the role have the memory."""
    with _lock:
        _idle[role] = (key, memory)


def release_workspaces() -> None:
    """Free the memory that is kept for the next training step."""
    with _lock:
        _idle.clear()
