"""Where data sets are: one folder, which the user names, or the user's cache folder."""

import os
from pathlib import Path

from innerloop.core.errors import ConfigurationError

VARIABLE = "INNERLOOP_DATA"


def cache_folder() -> Path:
    """The folder for what can be made again: ~/.cache/innerloop, by XDG_CACHE_HOME elsewhere."""
    home = os.environ.get("XDG_CACHE_HOME")
    return (Path(home) if home else Path.home() / ".cache") / "innerloop"


def data_folder() -> Path:
    """$INNERLOOP_DATA, which must be there; else `data` in the cache folder, which need not."""
    named = os.environ.get(VARIABLE)
    if not named:
        return cache_folder() / "data"
    folder = Path(named)
    if not folder.is_dir():
        raise ConfigurationError(
            f"{VARIABLE} is {named!r}, which is not a folder: make it, or name another."
        )
    return folder


def use_folder(folder: Path) -> None:
    """Let this process, and all that it starts, find data in a folder."""
    if not folder.is_dir():
        raise ConfigurationError(f"there is no folder {folder} of data: make it, or name another.")
    os.environ[VARIABLE] = str(folder.absolute())


def find_file(name: str) -> Path | None:
    """A file of the data folder, plain or gzipped; None if there is neither."""
    plain = data_folder() / name
    packed = plain.with_name(f"{plain.name}.gz")
    return next((path for path in (packed, plain) if path.is_file()), None)
