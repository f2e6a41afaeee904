"""The estimators on tables of few rows, beside those of scikit-learn.

No paper has this table, so it is no study: it says where the shipped models stand.
"""

import gzip
import os
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from sklearn.datasets import load_diabetes, make_friedman1, make_friedman2, make_friedman3

from innerloop.core.errors import ConfigurationError
from innerloop.studies.rivals import quiet, rivals

Array = NDArray[np.float64]
Kind = Literal["regression", "classification"]
ROWS = (16, 32, 64, 128)
SPLITS = 20
ASKED = 500
"""Rows that each split asks about, at most."""
FRIEDMAN = 2000
"""Rows of the tables that are made."""
COLUMNS = ("table", "kind", "rows", "split", "method", "error", "seconds")


@dataclass(frozen=True, slots=True, eq=False)
class RealTable:
    """Inputs (N, d) and outputs (N,): numbers to predict, or classes."""

    name: str
    kind: Kind
    X: Array
    y: NDArray[Any]


def made_tables() -> list[RealTable]:
    """What scikit-learn brings: diabetes, and Friedman's three functions with noise."""
    loaded: Any = load_diabetes(return_X_y=True)
    tables = [RealTable("diabetes", "regression", *loaded)]
    noises = (1.0, 125.0, 0.1)  # a third of the deviation of each, about, as Friedman had it
    for number, make in enumerate((make_friedman1, make_friedman2, make_friedman3)):
        X, y = make(FRIEDMAN, noise=noises[number], random_state=0)
        tables.append(RealTable(f"friedman{number + 1}", "regression", X, y))
    return tables + [
        RealTable(table.name, "classification", table.X, table.y > np.median(table.y))
        for table in tables
    ]


def folder_tables(folder: Path | str | None = None) -> list[RealTable]:
    """The tables `tabular/*.csv[.gz]` of a data folder: columns `target` and `label`, and inputs.

    Columns of text are left out. Without a folder: that of INNERLOOP_DATA.
    """
    named = folder or os.environ.get("INNERLOOP_DATA")
    if not named:
        return []
    place = Path(named) / "tabular"
    if not place.is_dir():
        raise ConfigurationError(f"{place} is no folder: name one that holds tabular/*.csv.gz.")
    tables: list[RealTable] = []
    for path in sorted([*place.glob("*.csv"), *place.glob("*.csv.gz")]):
        with gzip.open(path, "rt") if path.suffix == ".gz" else path.open() as file:
            frame = pd.read_csv(file)
        inputs = frame.drop(columns=["target", "label"], errors="ignore").select_dtypes("number")
        X, name = inputs.to_numpy(np.float64), path.name.split(".")[0]
        if "target" in frame:
            tables.append(RealTable(name, "regression", X, frame["target"].to_numpy(np.float64)))
        if "label" in frame:
            tables.append(RealTable(name, "classification", X, frame["label"].to_numpy()))
    return tables


def compare_on_tables(
    tables: Sequence[RealTable],
    *,
    rows: Sequence[int] = ROWS,
    splits: int = SPLITS,
    ours: dict[Kind, Any] | None = None,
    only: Sequence[str] | None = None,
    progress: Callable[[str, int, int], object] = lambda name, done, total: None,
) -> pd.DataFrame:
    """One row per table, number of rows, split and method: its error and its seconds.

    The error is the mean square over the variance of what is asked, or the share of wrong classes.
    Each split draws examples and questions anew, the same for all methods; `ours` names other
    models for our estimators, `only` some of the methods.
    """
    records: list[tuple[Any, ...]] = []
    for done, table in enumerate(tables):
        progress("tables", done, len(tables))
        made = rivals(table.kind, (ours or {}).get(table.kind))
        methods = {name: make for name, make in made.items() if only is None or name in only}
        for number in rows:
            for split, (shown, asked) in enumerate(_splits(table, number, splits)):
                for name, make in methods.items():
                    start = time.perf_counter()
                    with quiet():
                        fitted = make().fit(table.X[shown], table.y[shown])
                        answers = fitted.predict(table.X[asked])
                    seconds = time.perf_counter() - start
                    error = error_of(table.kind, answers, table.y[asked])
                    records.append((table.name, table.kind, number, split, name, error, seconds))
    return pd.DataFrame(records, columns=list(COLUMNS))


def error_of(kind: Kind, answers: NDArray[Any], truth: NDArray[Any]) -> float:
    """The mean square over the variance, or the share of wrong classes."""
    if kind == "classification":
        return float((answers != truth).mean())
    return float(((answers - truth) ** 2).mean() / truth.var())


def _splits(
    table: RealTable, rows: int, splits: int
) -> Iterator[tuple[NDArray[np.int64], NDArray[np.int64]]]:
    """Rows to learn from and rows to ask about; every class is among the former."""
    random = np.random.default_rng(rows)
    classes = len(np.unique(table.y)) if table.kind == "classification" else 0
    if len(table.y) <= rows:
        raise ConfigurationError(
            f"{table.name} has {len(table.y)} rows, expected more than {rows}: leave it out."
        )
    for _ in range(splits):
        order = random.permutation(len(table.y))
        while classes and len(np.unique(table.y[order[:rows]])) < classes:
            order = random.permutation(len(table.y))
        yield order[:rows], order[rows : rows + ASKED]
