"""`innerloop runs`: what it lists, deletes and packs."""

import json
import zipfile
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from innerloop.cli.main import app
from innerloop.cli.runs import describe
from innerloop.training.lock import LOCK, locked
from innerloop.training.overrides import with_overrides
from innerloop.training.recipes import find_recipe
from innerloop.training.run import METRICS, STATE, Run
from innerloop.training.store import Store


@pytest.fixture
def store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Store:
    """A run of a recipe with one setting changed, and one of a study, which has other names."""
    monkeypatch.chdir(tmp_path)
    store, recipe = Store(), find_recipe("looped-linear", "smoke")
    store.train(with_overrides(recipe, ["task.noise=0.5", "steps=2"]), name="looped-linear")
    store.train(with_overrides(find_recipe("lstm-linear", "smoke"), ["steps=2"]), name="sigma 0.5")
    return store


def innerloop(*words: str, answer: str = "") -> Result:
    return CliRunner().invoke(app, list(words), input=answer)


def test_runs_are_listed_with_what_differs_from_their_recipe(store: Store) -> None:
    rows = {row["recipe"]: row for row in json.loads(innerloop("runs", "--json", "-").stdout)}
    assert set(rows) == {"looped-linear", "lstm-linear"}
    assert rows["looped-linear"]["differs"] == {"task.noise": "0.5", "steps": "2"}
    assert rows["lstm-linear"]["differs"] == {"steps": "2"}
    for row in rows.values():
        assert (row["scale"], row["step"], row["state"]) == ("smoke", 2, "finished")
        assert 0 < row["error"] < 10
        assert 0 <= row["age"] < 600
    shown = innerloop("runs").stdout
    for run in store.runs():
        assert run.name in shown
    assert "task.noise=0.5" in shown


def test_runs_that_are_not_finished_or_damaged_say_so(store: Store) -> None:
    first, second = store.runs()
    (first.path / STATE).unlink()
    assert describe(first)["state"] == "not finished"
    (second.path / METRICS).write_text("no JSON\n")
    assert describe(second)["state"] == "damaged"
    shown = innerloop("runs").stdout
    assert "not finished" in shown
    assert "damaged" in shown


def test_a_folder_without_runs_says_what_to_do(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    done = innerloop("runs")
    assert done.exit_code == 0
    assert "innerloop train" in done.stdout


def test_a_run_is_deleted_only_after_a_yes(store: Store) -> None:
    first, second = store.runs()
    kept = innerloop("runs", "rm", first.name, answer="n\n")
    assert kept.exit_code == 1
    assert "Delete 1 run?" in kept.output
    assert len(store.runs()) == 2
    assert innerloop("runs", "rm", first.name, answer="y\n").exit_code == 0
    assert [run.name for run in store.runs()] == [second.name]
    # By its folder, as a shell completes it, and named twice.
    assert innerloop("runs", "rm", str(second.path), second.name, "--yes").exit_code == 0
    assert not second.path.exists()


def test_nothing_is_deleted_if_one_of_the_names_is_wrong(store: Store, tmp_path: Path) -> None:
    first = store.runs()[0]
    assert innerloop("runs", "rm", first.name, "looped-linea", "--yes").exit_code != 0
    (tmp_path / "mine").mkdir()
    assert innerloop("runs", "rm", first.name, "mine", "--yes").exit_code != 0
    assert (tmp_path / "mine").is_dir()
    assert len(store.runs()) == 2


def test_a_run_in_training_is_not_deleted(store: Store) -> None:
    first = store.runs()[0]
    with locked(first.path):
        done = innerloop("runs", "rm", first.name, "--yes")
    assert "is being trained by another process" in str(done.exception)
    assert Run.open(first.path).finished


def test_a_run_is_packed_and_used_elsewhere(store: Store, tmp_path: Path) -> None:
    run = store.runs()[0]
    assert innerloop("runs", "export", run.name, "run.zip").exit_code == 0
    with zipfile.ZipFile("run.zip") as archive:
        archive.extractall(tmp_path / "elsewhere")
    (other,) = Store(tmp_path / "elsewhere").runs()
    assert (other.name, other.finished) == (run.name, True)
    assert not (other.path / LOCK).exists()
    assert other.metrics().equals(run.metrics())
    done = innerloop("runs", "export", run.name, "run.txt")
    assert "write it as run.zip" in str(done.exception)
