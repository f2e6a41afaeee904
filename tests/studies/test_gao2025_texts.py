"""The study of texts on made data, and without data."""

from pathlib import Path

import pytest

from innerloop.cli.main import main
from innerloop.studies.reproduce import reproduce
from innerloop.studies.table import find_studies
from innerloop.training.store import Store
from tests.language.made import made_data


def test_it_runs_on_made_texts(tmp_path: Path) -> None:
    with made_data(tmp_path):
        (outcome,) = reproduce(
            find_studies("gao2025/table2"), scale="smoke", store=Store(tmp_path / "runs"),
            results=tmp_path / "results",
        )  # fmt: skip
    result = outcome.result
    assert result is not None, outcome.error
    table = result.table("by-dataset")
    assert len(table) == 2 * 3 + 1
    words = table.loc[table["label"] == "bag of words", "mean"].item()
    assert words > 0.9
    assert bool(table["low"].le(table["mean"]).all())
    assert bool(table["mean"].le(table["high"]).all())
    assert result.figure.stat().st_size > 5000
    assert {judged.verdict for judged in result.claims} == {"exploratory"}


def test_without_its_data_it_is_skipped_with_one_sentence(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("INNERLOOP_DATA", str(tmp_path))
    (outcome,) = reproduce(
        find_studies("gao2025/table2"), scale="smoke", store=Store(tmp_path / "runs"),
        results=tmp_path / "results",
    )  # fmt: skip
    assert outcome.skipped
    assert outcome.result is None
    assert "innerloop data get ag_news" in outcome.error
    assert not (tmp_path / "runs").exists()
    monkeypatch.chdir(tmp_path)
    with pytest.raises(SystemExit) as ended:
        main(["reproduce", "gao2025/table2", "--scale", "smoke"])
    assert ended.value.code == 1, "it was asked for by name"
    assert "skipped" in capsys.readouterr().out
