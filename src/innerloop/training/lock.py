"""One process trains a run at a time."""

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from innerloop.core.errors import InnerloopError

LOCK = "lock"


class LockedError(InnerloopError):
    """A run that another process is training."""


@contextmanager
def locked(folder: Path) -> Iterator[None]:
    """Hold a folder's lock; a LockedError if another process has it.

    The lock is the operating system's, so that one whose owner was killed is free again. The file
    stays behind, empty: removing it would let two processes lock two files of the same name.
    """
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / LOCK).open("a+") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            file.seek(0)
            owner = file.read().strip() or "unknown"
            raise LockedError(
                f"{folder.name} is being trained by another process (id {owner}): wait for it, or "
                "stop it first."
            ) from None
        file.truncate(0)
        file.write(f"{os.getpid()}\n")
        file.flush()
        try:
            yield
        finally:
            file.truncate(0)
