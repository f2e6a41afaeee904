"""Files that hold their own checksum: a bit that has changed is seen whenever one is read.

The writer of a file puts `SEAL` somewhere into it, where its format has room for a text; `sealed`
fills in the SHA-256 of the whole file, with zeros in the place of the digits. One file, one write:
there is no second one that a kill could leave behind. A changed bit of the words before the digits
leaves those after them, so that the file still counts as sealed, and is refused.
"""

import hashlib
import json
import warnings
from pathlib import Path
from typing import Any, Protocol

from innerloop.core.errors import InnerloopError

DIGITS = 64
_BEFORE, _AFTER = b"innerloop-seal:", b":sha256-of-this-file-with-zeros-here"
SEAL = f"{_BEFORE.decode()}{'0' * DIGITS}{_AFTER.decode()}"
"""The place of a checksum, before it is known."""
KEY = "seal"
"""What JSON files and the headers of weights call it."""


class DamagedError(InnerloopError):
    """A file that is not what was written."""


class UncheckedWarning(UserWarning):
    """A file without a checksum, which is read as it is."""


class Content(Protocol):
    """The bytes of a file, in memory or mapped into it."""

    def find(self, sub: bytes, /) -> int:
        """Where the bytes begin; -1 where they are not."""
        ...

    def __getitem__(self, part: slice, /) -> bytes:
        """Some of the bytes."""
        ...


def sealed(content: bytes) -> bytes:
    """The content of a file with its checksum in the place that it keeps for it."""
    place = _place(content)
    assert place is not None, "the content has no place for a checksum"
    return content[: place.start] + _digest(content, place) + content[place.stop :]


def require_intact(
    content: Content, path: Path, *, remedy: str = "take another copy of it"
) -> bool:
    """Refuse the content of a file that has changed since it was sealed; whether it is sealed.

    Files of earlier versions and of other programs are not, and pass.
    """
    place = _place(content)
    if place is not None and content[place] != _digest(content, place):
        raise DamagedError(
            f"{path} is damaged, or was changed after it was written, since its content does not "
            f"match its checksum: {remedy}."
        )
    return place is not None


def notice_unsealed(path: Path) -> None:
    """Warn of a file that is not sealed, so that nobody takes it for one that was checked."""
    warnings.warn(
        f"{path} holds no checksum, as files of earlier versions: it is read unchecked, and gets "
        "one when it is written again.",
        UncheckedWarning,
        stacklevel=3,
    )


def checksum(content: bytes) -> str:
    """The SHA-256 of the content of a file that has no room for a seal: another file keeps it."""
    return hashlib.sha256(content).hexdigest()


def sealed_json(values: dict[str, Any]) -> bytes:
    """A JSON file of these values, with a seal before them."""
    return sealed((json.dumps({KEY: SEAL, **values}, indent=1, allow_nan=False) + "\n").encode())


def _place(content: Content) -> slice | None:
    """Where the digits are: the first such place, which the formats put before what users write."""
    before, after = content.find(_BEFORE), content.find(_AFTER)
    start = before + len(_BEFORE) if before >= 0 else after - DIGITS
    return None if max(before, after) < 0 else slice(max(0, start), max(0, start) + DIGITS)


def _digest(content: Content, place: slice) -> bytes:
    """The digits that belong into a place, from all that is around it."""
    found = hashlib.sha256()
    found.update(content[: place.start])
    found.update(b"0" * DIGITS)
    found.update(content[place.stop :])
    return found.hexdigest().encode()
