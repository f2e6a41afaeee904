"""Made tables: in the layout of the real ones, with classes that two features decide."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from innerloop.tasks.tabular import TABLES

FEATURES = {"abalone": 7, "wind": 14}
"""Of tables that are asked about; all others have 5."""


def write_tables(
    folder: Path, names: Sequence[str] = TABLES, *, rows: int = 160, seed: int = 0
) -> Path:
    """Tables whose first feature is the number of the row, and whose last column is the label."""
    draw = np.random.default_rng(seed)
    (folder / "tabular").mkdir(parents=True, exist_ok=True)
    for name in names:
        number = FEATURES.get(name, 5)
        features = draw.normal(size=(rows, number)) * 10.0 ** draw.integers(-3, 6, size=number)
        features[:, 0] = np.arange(rows)
        scaled = (features - features.mean(0)) / features.std(0)  # (N, f)
        target = scaled[:, 1] - scaled[:, 2] + 0.3 * draw.normal(size=rows)  # (N,)
        table = pd.DataFrame(features, columns=[f"x{place}" for place in range(number)])
        if name == "abalone":
            table.insert(0, "Sex", draw.choice(["M", "F", "I"], size=rows))
        table["target"], table["label"] = target, (target < target.mean()).astype(int)
        table.to_csv(folder / "tabular" / f"{name}.csv.gz", index=False)
    return folder


@contextmanager
def made_tables(folder: Path, names: Sequence[str] = TABLES) -> Iterator[Path]:
    """Let all data be in a folder, with these tables made up."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("INNERLOOP_DATA", str(write_tables(folder / "data", names)))
        yield folder / "data"
