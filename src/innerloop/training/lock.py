"""One process at a time trains a run."""

import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from filelock import FileLock, Timeout

from innerloop.core.errors import InnerloopError
from innerloop.core.files import open_own, writing

LOCK = "lock"


class LockedError(InnerloopError):
    """A run that another process is training."""


@contextmanager
def locked(folder: Path) -> Iterator[None]:
    """Hold a folder's lock; a LockedError if another process has it.

    The lock is the operating system's, so that one whose owner was killed is free again. The file
    stays behind, empty: removing it would let two processes lock two files of the same name.
    """
    file = folder / LOCK
    lock = FileLock(file, preserve_lock_file=True)
    with writing(file):
        folder.mkdir(parents=True, exist_ok=True)
        open_own(file, "a").close()  # which says so if it is a link to somewhere else
        try:
            lock.acquire(blocking=False)
        except Timeout:
            raise LockedError(
                f"{folder.name} is being trained by another process (id {_owner(file)}): wait for "
                "it, or stop it first."
            ) from None
    try:
        _note(file, f"{os.getpid()}\n")
        yield
    finally:
        _note(file, "")
        lock.release()


def _note(file: Path, text: str) -> None:
    """Write who holds the lock into its file, where the system allows that: Windows does not."""
    with suppress(OSError, InnerloopError), open_own(file, "w") as opened:
        opened.write(text.encode())


def _owner(file: Path) -> str:
    try:
        return file.read_text().strip() or "unknown"
    except OSError:
        return "unknown"
