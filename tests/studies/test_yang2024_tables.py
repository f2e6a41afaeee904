"""The study of real tables on made ones, and without data."""

from pathlib import Path

from innerloop.studies.reproduce import reproduce
from innerloop.studies.table import find_studies
from innerloop.studies.yang2024.tables import FITTED, PAPER, TESTED
from innerloop.tasks.tabular import TABLES
from innerloop.training.store import Store
from tests.tasks.made_tables import made_tables


def test_it_runs_on_made_tables(tmp_path: Path) -> None:
    with made_tables(tmp_path):
        (outcome,) = reproduce(
            find_studies("yang2024/table2"), scale="smoke", store=Store(tmp_path / "runs"),
            results=tmp_path / "results",
        )  # fmt: skip
    result = outcome.result
    assert result is not None, outcome.error
    table = result.table("by-table")
    assert len(table) == len(TESTED["smoke"]) * (2 * 2 + len(FITTED))
    assert bool(table["mean"].between(0, 1).all())
    assert bool((table["low"] <= table["mean"]).all())
    assert bool((table["mean"] <= table["high"]).all())
    fitted = table.loc[table["label"].isin(FITTED), "mean"]
    assert bool((fitted > 0.5).all()), "two features decide the class"
    assert result.figure.stat().st_size > 5000
    assert {judged.verdict for judged in result.claims} == {"exploratory"}
    nulls = {each.null for judged in result.claims for each in judged.controls}
    assert nulls >= {"untrained", "untrained loop", "right answers"}


def test_each_run_leaves_out_the_table_that_it_is_tested_on() -> None:
    (study,) = find_studies("yang2024/table2")
    runs = study.runs("laptop")
    assert len(runs) == 2 * len(TABLES)
    assert set(PAPER) == set(TABLES)
    for label, config in runs.items():
        left_out = label.rpartition(" ")[2]
        assert set(config.task.model_dump()["tables"]) == {*TABLES} - {left_out}


def test_without_its_data_it_is_skipped_with_one_sentence(tmp_path: Path) -> None:
    with made_tables(tmp_path, TABLES[:-1]):
        (outcome,) = reproduce(
            find_studies("yang2024/table2"), scale="smoke", store=Store(tmp_path / "runs"),
            results=tmp_path / "results",
        )  # fmt: skip
    assert outcome.skipped
    assert outcome.result is None
    assert f"innerloop data get {TABLES[-1]}" in outcome.error
    assert not (tmp_path / "runs").exists()
