"""The comparison on tables: splits, errors, ranks, ratios and files, on made data."""

import gzip
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from innerloop.core.errors import ConfigurationError
from innerloop.learners import Ridge
from innerloop.studies.real_tables import (
    RealTable,
    compare_on_tables,
    error_of,
    folder_tables,
    made_tables,
)
from innerloop.studies.rivals import BASELINE, rivals
from innerloop.studies.table_ranks import mean_ranks, ratios, write_comparison


def tables() -> list[RealTable]:
    random = np.random.default_rng(0)
    X = random.standard_normal((60, 3))
    y = X @ np.array([1.0, -2.0, 0.5]) + 0.1 * random.standard_normal(60)
    return [RealTable("line", "regression", X, y), RealTable("line", "classification", X, y > 0)]


@pytest.fixture(scope="module")
def found() -> pd.DataFrame:
    ours = Ridge(0.1)
    return compare_on_tables(
        tables(), rows=(12,), splits=3, ours={"regression": ours, "classification": ours},
        only=("innerloop", "ridge", "logistic", "neighbours", BASELINE),
    )  # fmt: skip


def test_every_method_answers_every_split(found: pd.DataFrame) -> None:
    counted = found.groupby(["kind", "method"]).size()
    assert set(counted) == {3}
    assert len(counted) == 8
    assert np.isfinite(found["error"]).all()


def test_what_is_linear_is_found_by_what_is_linear(found: pd.DataFrame) -> None:
    ranks: Any = mean_ranks(found).set_index(["kind", "method"])["rank"]
    for kind, linear in (("regression", "ridge"), ("classification", "logistic")):
        assert ranks[kind, linear] < ranks[kind, BASELINE]
        assert ranks[kind, "innerloop"] < ranks[kind, BASELINE]
    over: Any = ratios(found).set_index(["kind", "method"])
    assert over.loc[("regression", "innerloop"), "ratio_high"] < 0.2
    assert (over["ratio_low"] <= over["ratio"]).all()
    assert (over["ratio"] <= over["ratio_high"]).all()


def test_files_are_written_and_say_who_is_ahead(found: pd.DataFrame, tmp_path: Path) -> None:
    write_comparison(found, tmp_path)
    text = (tmp_path / "tables.md").read_text()
    assert "| method | 12 rows |" in text
    assert "- nowhere" in text
    assert len(pd.read_csv(tmp_path / "errors.csv")) == len(found)
    assert (tmp_path / "ranks.png").stat().st_size > 1000


def test_a_method_that_is_surely_worse_than_a_constant_is_named(
    found: pd.DataFrame, tmp_path: Path
) -> None:
    bad = found.copy()
    bad.loc[bad["method"] == "neighbours", "error"] = 9.0
    text = (write_comparison(bad, tmp_path) / "tables.md").read_text()
    assert "- neighbours on line (regression, 12 rows): " in text
    assert "- innerloop" not in text


def test_the_error_of_the_mean_is_1_and_ties_share_a_rank() -> None:
    truth = np.array([1.0, 2.0, 3.0])
    assert error_of("regression", np.full(3, 2.0), truth) == pytest.approx(1)
    wrong = error_of("classification", np.array([1, 1, 0]), np.array([1, 0, 0]))
    assert wrong == pytest.approx(1 / 3)
    rows = [("t", "regression", 8, 0, name, 0.5, 0.1) for name in ("a", "b")]
    columns = ["table", "kind", "rows", "split", "method", "error", "seconds"]
    assert set(mean_ranks(pd.DataFrame(rows, columns=columns))["rank"]) == {1.5}


def test_tables_of_a_folder_are_numbers_with_a_target_and_a_label(tmp_path: Path) -> None:
    text = "a,town,b,target,label\n1,Rome,2,0.5,0\n3,Oslo,4,0.7,1\n"
    (tmp_path / "tabular").mkdir()
    (tmp_path / "tabular" / "one.csv.gz").write_bytes(gzip.compress(text.encode()))
    (tmp_path / "tabular" / "two.csv").write_text("a,label\n1,0\n2,1\n")
    one, other, two = folder_tables(tmp_path)
    assert [one.kind, other.kind, two.kind] == ["regression", "classification", "classification"]
    np.testing.assert_array_equal(one.X, [[1, 2], [3, 4]])
    np.testing.assert_array_equal(one.y, [0.5, 0.7])
    assert two.name == "two"
    with pytest.raises(ConfigurationError, match="is no folder"):
        folder_tables(tmp_path / "tabular")


def test_a_table_that_is_too_small_is_named() -> None:
    with pytest.raises(ConfigurationError, match="line has 60 rows, expected more than 60"):
        compare_on_tables(tables(), rows=(60,), splits=1, only=(BASELINE,))


def test_all_rivals_can_be_made_and_all_tables_are_there() -> None:
    assert {table.name for table in made_tables()} == {
        "diabetes", "friedman1", "friedman2", "friedman3",
    }  # fmt: skip
    for table in tables():
        for make in rivals(table.kind).values():
            assert hasattr(make(), "fit")
