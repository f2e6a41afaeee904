"""Reading data sets: tables and lines, gzipped or plain; what cannot be read is one sentence."""

import gzip
import hashlib
import zlib
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from io import StringIO
from pathlib import Path
from typing import TYPE_CHECKING

from innerloop.core.errors import InnerloopError
from innerloop.data.catalog import DataSet, find_dataset
from innerloop.data.folder import data_folder, find_file

if TYPE_CHECKING:
    import numpy as np
    import pandas as pd
    from numpy.typing import NDArray

TARGET = "target"
"""The column of a table that its labels were made of, where it has one: never a feature."""


class DataError(InnerloopError):
    """A file of data that cannot be used."""


class MissingDataError(DataError):
    """A data set that is not here; its message says which command gets it."""


@dataclass(frozen=True, slots=True)
class Texts:
    """Texts, and the class of each."""

    texts: tuple[str, ...]
    labels: tuple[int, ...]


@dataclass(frozen=True, slots=True, eq=False)
class Table:
    """A table: N rows of f numbers, and the class of each row."""

    columns: tuple[str, ...]
    """The names of the features."""
    features: "NDArray[np.float64]"
    """(N, f)."""
    labels: "NDArray[np.int64]"
    """(N,) 0 or 1."""


def is_here(data: DataSet) -> bool:
    """Whether all files of a data set are in the data folder."""
    return all(find_file(name) for names in data.files.values() for name in names)


def require_here(name: str, split: str | None = None) -> list[Path]:
    """The files of a data set, or of one of its splits; a MissingDataError if one is not there."""
    data = find_dataset(name)
    splits = data.files if split is None else {split: data.files[split]}
    names = [file for files in splits.values() for file in files]
    found = {file: find_file(file) for file in names}
    for file, path in found.items():
        if path is None:
            raise MissingDataError(
                f"the data set {name} is not here ({data_folder() / file}.gz is missing): get it "
                f"with `{data.command}`, or name a folder that has it with INNERLOOP_DATA."
            )
    return [path for path in found.values() if path is not None]


def read_texts(name: str, split: str) -> Texts:
    """The texts of a split of a data set for classification, in the order of its file."""
    data = find_dataset(name, "text")
    (path,) = require_here(name, split)
    table = read_csv(path, columns=(data.label, "text"))
    labels = _classes(table[data.label].tolist(), path, len(data.classes))
    return Texts(tuple(str(text) for text in table["text"]), labels)


def read_table(name: str) -> Table:
    """The features of a table and its labels; neither what labels were made of, nor words."""
    import numpy as np

    data = find_dataset(name, "tabular")
    (path,) = require_here(name)
    table = read_csv(path, columns=(data.label,))
    labels = _classes(table[data.label].tolist(), path, len(data.classes))
    features = table.drop(columns=[data.label, *data.drop, TARGET], errors="ignore")
    for column in features:
        values = features[column]
        if values.dtype.kind not in "biuf" or not np.isfinite(values.to_numpy(np.float64)).all():
            raise DataError(
                f"the column {column!r} of {path} has values that are no finite numbers: get it "
                "again."
            )
    if features.shape[1] == 0:
        raise DataError(f"{path} has no features beside {data.label!r}: get it again.")
    numbers = features.to_numpy(np.float64)  # (N, f)
    return Table(tuple(map(str, features.columns)), numbers, np.array(labels))


def read_pairs(name: str, split: str) -> list[tuple[str, str]]:
    """The lines of a split of a translation: German, English."""
    find_dataset(name, "translation")
    german, english = require_here(name, split)
    left, right = read_lines(german), read_lines(english)
    if len(left) != len(right):
        raise DataError(
            f"{german} has {len(left)} lines and {english} {len(right)}: expected as many, line "
            "by line; get both again."
        )
    return list(zip(left, right, strict=True))


def read_csv(path: Path, columns: Sequence[str] = ()) -> "pd.DataFrame":
    """The table of a file with one row of names; text stays text, with no value for missing."""
    import pandas as pd  # which takes long to import

    text = content(path).decode("utf-8")
    try:
        table = pd.read_csv(StringIO(text), keep_default_na=not columns)
    except (pd.errors.ParserError, pd.errors.EmptyDataError) as error:
        raise DataError(
            f"{path} is not a table of comma-separated values ({str(error).strip()}): get it again."
        ) from error
    for column in columns:
        if column not in table:
            names = ", ".join(map(str, table.columns))
            raise DataError(f"{path} has no column {column!r}, it has {names}: get it again.")
    if not len(table):
        raise DataError(f"{path} has no rows: get it again.")
    return table


def read_lines(path: Path) -> list[str]:
    """The lines of a file."""
    return content(path).decode("utf-8").rstrip("\n").split("\n")


def digest(name: str, split: str | None = None) -> str:
    """16 hexadecimal digits of the content of a data set, gzipped or not, or of one split."""
    total = hashlib.sha256()
    for path in require_here(name, split):
        changed = path.stat()
        total.update(_digest(path, changed.st_mtime_ns, changed.st_size))
    return total.hexdigest()[:16]


def content(path: Path) -> bytes:
    """What a file holds, unpacked if it is gzipped; it must be text in UTF-8."""
    changed = path.stat()
    return _content(path, changed.st_mtime_ns, changed.st_size)


@lru_cache(maxsize=8)
def _content(path: Path, changed: int, size: int) -> bytes:
    try:
        raw = path.read_bytes()
        unpacked = gzip.decompress(raw) if path.suffix == ".gz" else raw
        unpacked.decode("utf-8")
    except OSError as error:  # not gzip, too
        reason = error.strerror or error
        raise DataError(f"cannot read {path}: {reason}. Get it again.") from error
    except (EOFError, zlib.error) as error:
        raise DataError(f"{path} is cut off or damaged ({error}): get it again.") from error
    except UnicodeDecodeError as error:
        raise DataError(f"{path} is not text in UTF-8 ({error}): get it again.") from error
    return unpacked


@lru_cache(maxsize=64)
def _digest(path: Path, changed: int, size: int) -> bytes:
    # Asked at every step of a training: a file is read once.
    return hashlib.sha256(_content(path, changed, size)).digest()


def _classes(values: Sequence[object], path: Path, classes: int) -> tuple[int, ...]:
    """The classes of a column, whole numbers from 0."""
    known = {str(number) for number in range(classes)}
    for row, value in enumerate(values):
        if str(value) not in known:
            raise DataError(
                f"row {row + 1} of {path} has the class {value!r}, expected a whole number from 0 "
                f"to {classes - 1}: get it again."
            )
    return tuple(int(str(value)) for value in values)
