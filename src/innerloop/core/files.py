"""Files appear whole or not at all."""

import hashlib
import json
import os
import re
import tempfile
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

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
            with temporary.open("rb+") as file:
                os.fsync(file.fileno())  # or a power cut leaves the new name without its content
            # mkstemp makes private files; a result is as public as any other file of the user's.
            temporary.chmod(0o666 & ~_umask())
            temporary.replace(path)
            _folder_to_disk(path.parent)
        finally:
            temporary.unlink(missing_ok=True)
    except OSError as error:
        raise InnerloopError(
            f"cannot write {path}: {error.strerror or error}. Choose another place."
        ) from error
    return path


def _folder_to_disk(folder: Path) -> None:
    """Let a folder's list of files outlive a power cut, where the system can do that."""
    # Some systems do not open folders, and some file systems do not take them.
    with suppress(OSError):
        handle = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)


def require_folder(path: Path) -> None:
    """Refuse, before the work begins, a folder that cannot be made or written to."""
    place = next(part for part in (path, *path.absolute().parents) if part.exists())
    if not place.is_dir():
        raise InnerloopError(f"cannot write into {path}: {place} is a file, not a folder.")
    if not os.access(place, os.W_OK):
        raise InnerloopError(f"cannot write into {path}: {place} is not yours to write to.")


def require_file_place(path: Path) -> None:
    """Refuse, before the work begins, a place where no file can be written."""
    require_folder(path.parent)
    if path.is_dir():
        raise InnerloopError(f"cannot write {path}, which is a folder: give a file.")


def read_json(path: Path, *, missing: str) -> Any:
    """What a JSON file holds; `missing` says what it means that there is no such file."""
    try:
        return json.loads(path.read_text())
    except FileNotFoundError as error:
        raise InnerloopError(f"{path} is missing: {missing}.") from error
    # ValueError: not JSON, or not text at all; RecursionError: brackets nested too deeply.
    except (OSError, ValueError, RecursionError) as error:
        raise InnerloopError(f"{path} cannot be read as JSON: {error}.") from error


def slug(text: str) -> str:
    """A name of a file from what a user typed: no folders, no punctuation that means something."""
    return re.sub(r"[^a-z0-9.]+", "-", text.lower()).strip("-.")


def shortened(name: str, most: int = 150) -> str:
    """A name that every disk takes; of a long one the end is a hash of all of it."""
    if len(name) <= most:
        return name
    return f"{name[: most - 17]}-{hashlib.sha256(name.encode()).hexdigest()[:16]}"


def _umask() -> int:
    current = os.umask(0)
    os.umask(current)
    return current
