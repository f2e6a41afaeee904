"""Files appear whole or not at all."""

import os
import tempfile
from collections.abc import Callable
from pathlib import Path

from innerloop.core.errors import InnerloopError


def write_atomically(path: Path, write: Callable[[Path], object]) -> Path:
    """Let `write` fill a temporary file beside `path`, then put it in place in one move.

    The temporary file keeps the suffix, since many writers choose their format by it. An
    interrupted write leaves the old file as it was.
    """
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        handle, name = tempfile.mkstemp(
            dir=path.parent, prefix=f".{path.stem}-", suffix=path.suffix
        )
        os.close(handle)
        temporary = Path(name)
        try:
            write(temporary)
            _to_disk(temporary)
            # mkstemp makes private files; a result is as public as any other file of the user's.
            temporary.chmod(0o666 & ~_umask())
            temporary.replace(path)
            _to_disk(path.parent)
        finally:
            temporary.unlink(missing_ok=True)
    except OSError as error:
        raise InnerloopError(
            f"cannot write {path}: {error.strerror or error}. Choose another place."
        ) from error
    return path


def _to_disk(path: Path) -> None:
    """Let a file, or a folder's list of files, outlive a power cut, where the system can."""
    try:
        handle = os.open(path, os.O_RDONLY)
    except OSError:
        return  # some systems do not open folders
    try:
        os.fsync(handle)
    except OSError:
        return  # nor does every file system
    finally:
        os.close(handle)


def require_folder(path: Path) -> None:
    """Refuse, before the work begins, a folder that cannot be made or written to."""
    place = next(part for part in (path, *path.absolute().parents) if part.exists())
    if not place.is_dir():
        raise InnerloopError(f"cannot write into {path}: {place} is a file, not a folder.")
    if not os.access(place, os.W_OK):
        raise InnerloopError(f"cannot write into {path}: {place} is not yours to write to.")


def _umask() -> int:
    current = os.umask(0)
    os.umask(current)
    return current
