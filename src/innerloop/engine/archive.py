"""The files of a run as bytes, for a machine that does not see its folder, and back.

An archive is a zip file that is not compressed: it needs no more memory than it has bytes, every
file has its checksum, and nothing in it is executed.
"""

import re
from io import BytesIO
from pathlib import Path
from zipfile import ZIP_STORED, BadZipFile, ZipFile

from innerloop.core.errors import InnerloopError
from innerloop.core.files import write_atomically
from innerloop.training.lock import locked
from innerloop.training.run import STATE

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]*(\.[A-Za-z0-9_-]+)+")
"""A plain name with an ending: no folder, no half of a file, not the lock."""


class ArchiveError(InnerloopError):
    """Bytes that are no files of a run."""


def pack_run(folder: Path) -> bytes:
    """The files of a run's folder; nothing where there is no folder."""
    files = [file for file in sorted(folder.glob("*")) if _NAME.fullmatch(file.name)]
    if not files:
        return b""
    packed = BytesIO()
    with ZipFile(packed, "w", ZIP_STORED) as archive:
        for file in files:
            if file.is_file() and not file.is_symlink():
                archive.write(file, file.name)
    return packed.getvalue()


def unpack_run(packed: bytes, folder: Path) -> None:
    """Write the files of an archive into a run's folder; the state, which counts, comes last."""
    files = _read(packed) if packed else {}
    if not files:
        return
    with locked(folder):
        for name in sorted(files, key=lambda name: name == STATE):
            write_atomically(folder / name, lambda file, name=name: file.write_bytes(files[name]))


def _read(packed: bytes) -> dict[str, bytes]:
    """Name -> contents; an ArchiveError where a name or a checksum is wrong."""
    try:
        with ZipFile(BytesIO(packed)) as archive:
            members = archive.infolist()
            for member in members:
                if member.compress_type != ZIP_STORED or not _NAME.fullmatch(member.filename):
                    raise BadZipFile(f"{member.filename!r} is no file of a run")
            return {member.filename: archive.read(member) for member in members}
    except (BadZipFile, EOFError, NotImplementedError, RuntimeError, ValueError) as error:
        raise ArchiveError(
            f"the files of a run came back damaged ({error}): give the same command again."
        ) from error
