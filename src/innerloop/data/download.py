"""Getting data sets: the only place that touches a network, and only when a user asks for it.

The libraries `datasets` and `openml` do the work; what they give is written in the layout of
`data/catalog.py`.
"""

import gzip
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

from innerloop.core.errors import InnerloopError
from innerloop.core.extras import import_extra
from innerloop.core.files import require_folder, write_atomically
from innerloop.data.catalog import DataSet, Hub, OpenML, find_dataset
from innerloop.data.folder import data_folder
from innerloop.data.reading import DataError

Row = Mapping[str, Any]
Watch = Callable[[Iterable[Row], str, int], Iterable[Row]]
"""Hands rows on while a bar grows: the rows, what they are, how many."""


def download(name: str, *, watch: Watch = lambda rows, title, total: rows) -> list[Path]:
    """Get a data set into the data folder; the files that were written, each whole or not at all.

    Files that are there already are written over.
    """
    data = find_dataset(name)
    folder = data_folder()
    require_folder(folder)
    if isinstance(data.source, OpenML):
        return _from_openml(data, data.source, folder, watch)
    written: list[Path] = []
    for split in data.files:
        rows = _hub_rows(data.source, split)
        shown = watch(rows, f"{name}, {split}", len(rows))
        written += _write(data, split, data.source, folder, shown)
    return written


def _hub_rows(source: Hub, split: str) -> Any:
    """All rows of a split, as the `datasets` library gives them."""
    library = import_extra("datasets", "text", "getting this data set")
    try:
        return library.load_dataset(
            source.path, source.config, split=source.splits[split], revision=source.revision
        )
    except Exception as error:  # of any kind: the network, the hub, a data set that is gone
        raise _refused(f"the data set {source.path} of the hub", error) from error


def _write(data: DataSet, split: str, source: Hub, folder: Path, rows: Iterable[Row]) -> list[Path]:
    """Write the rows of a split into its files."""
    paths = [folder / f"{name}.gz" for name in data.files[split]]
    if data.kind == "translation":
        pairs = [row.get("translation", row) for row in rows]
        for path, side in zip(paths, ("de", "en"), strict=True):
            _write_text(path, "".join(f"{_one_line(pair[side])}\n" for pair in pairs))
        return paths
    kept = [row for row in rows if source.keep is None or int(row[source.label]) < source.keep]
    texts = [" ".join(str(row[column]) for column in source.text) for row in kept]
    labels = [int(row[source.label]) for row in kept]
    _write_table(paths[0], {data.label: labels, "text": texts})
    return paths


def _from_openml(data: DataSet, source: OpenML, folder: Path, watch: Watch) -> list[Path]:
    """A table with its features and the column `label`."""
    library = import_extra("openml", "tabular", "getting this data set")
    try:
        fetched = library.datasets.get_dataset(source.number, download_data=True)
        features, target, _, _ = fetched.get_data(target=fetched.default_target_attribute)
    except Exception as error:
        raise _refused(f"data set {source.number} of OpenML", error) from error
    rows = features.to_dict("records")
    columns: dict[str, list[Any]] = {str(name): [] for name in features.columns}
    for row in watch(rows, data.name, len(rows)):
        for name, value in row.items():
            columns[str(name)].append(value)
    columns["label"] = [int(str(value) == source.positive) for value in target]
    if len(set(columns["label"])) < 2:
        raise DataError(
            f"data set {source.number} of OpenML has no class {source.positive!r}: it has changed, "
            "report this."
        )
    path = folder / f"{data.files['all'][0]}.gz"
    _write_table(path, columns)
    return [path]


def _write_table(path: Path, columns: Mapping[str, list[Any]]) -> None:
    import pandas as pd  # which takes long to import

    _write_text(path, pd.DataFrame(columns).to_csv(index=False, lineterminator="\n"))


def _write_text(path: Path, text: str) -> None:
    # Without a time in it: the same data are the same file.
    packed = gzip.compress(text.encode(), mtime=0)
    write_atomically(path, lambda file: file.write_bytes(packed))


def _one_line(text: str) -> str:
    return " ".join(text.split())


def _refused(what: str, error: Exception) -> InnerloopError:
    first = str(error).strip().split("\n")[0]
    return DataError(
        f"{what} could not be got ({type(error).__name__}: {first}): look at the network, or put "
        "the files into a folder that INNERLOOP_DATA names."
    )
