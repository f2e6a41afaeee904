"""`innerloop sweep` as a user meets it."""

import json
import os
import signal
from collections.abc import Callable
from contextlib import nullcontext
from functools import partial
from pathlib import Path

import pandas as pd
import pytest

from innerloop.cli import sweep as verb
from innerloop.engine.board import Progress
from tests.cli.command import run_flat

Command = Callable[..., tuple[int, str, str]]
QUICK = ("sweep", "looped-linear", "steps=3", "batch=4", "--scale", "smoke", "--workers", "1")


@pytest.fixture
def command(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Command:
    """Run the command line in the test's folder: exit code, output without breaks, errors."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("INNERLOOP_RUNS", "runs")
    return partial(run_flat, capsys)


def test_a_grid_is_trained_written_and_not_trained_again(command: Command, tmp_path: Path) -> None:
    words = (*QUICK, "task.noise=0,0.5", "--seeds", "2", "--json", "all.json")
    code, out, err = command(*words)
    assert code == 0
    assert "4 runs: 4 to train, 1 worker" in out
    assert "4 of 4 jobs done" in err
    assert out.count("2 of 2") == 2
    stem = tmp_path / "sweeps" / "looped-linear-steps-3-batch-4-task.noise-0-0.5-seeds-2-smoke"
    table = pd.read_csv(stem.with_name(f"{stem.name}.csv"))
    assert list(table["state"]) == 4 * ["finished"]
    assert list(table["seed"]) == [0, 1, 0, 1]
    assert stem.with_name(f"{stem.name}.png").stat().st_size > 5000
    assert json.loads(Path("all.json").read_text())[3]["error"] == pytest.approx(table["error"][3])
    code, out, _ = command(*words)
    assert code == 0
    assert "4 runs: 0 to train" in out


def test_runs_that_fail_are_named_with_the_reason_and_the_command_says_so(command: Command) -> None:
    rates = "optimizer.learning_rate=1e-3,1e20"
    words = ("sweep", "looped-linear", "steps=60", "batch=4", "optimizer=paper", rates)
    code, out, err = command(*words, "--scale", "smoke", "--workers", "1")
    assert code == 1
    assert "failed optimizer.learning_rate=1e20 seed=0: " in out
    assert "diverged" in out
    assert "2 of 2 jobs done, 1 of them failed" in err
    assert "runs: 0 to train" in command(*words, "--scale", "smoke")[1]
    assert "runs: 1 to train" in command(*words, "--scale", "smoke", "--retry", "--workers", "1")[1]


def test_where_nothing_is_finished_there_is_a_table_and_no_figure(
    command: Command, tmp_path: Path
) -> None:
    words = ("sweep", "looped-linear", "steps=60", "batch=4", "optimizer=paper")
    code, _, _ = command(
        *words, "optimizer.learning_rate=1e20", "--scale", "smoke", "--workers", "1"
    )
    assert code == 1
    assert [path.suffix for path in (tmp_path / "sweeps").iterdir()] == [".csv"]


def test_an_interruption_saves_and_the_same_command_goes_on(
    command: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupt(progress: Progress) -> None:
        if progress.running:  # the first has begun
            os.kill(os.getpid(), signal.SIGTERM)

    words = (*QUICK, "log_every=1", "task.noise=0,0.5")
    with monkeypatch.context() as patch:
        patch.setattr(verb, "shown_progress", lambda console: nullcontext(interrupt))
        code, _, err = command(*words)
    assert code == 143
    assert "stopped with 0 of 2 runs finished; the others are saved" in err
    code, out, _ = command(*words)
    assert code == 0
    assert "2 runs: 2 to train" in out


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["loopd-linear"], "did you mean 'looped-linear'"),
        (["looped-linear", "stepz=1,2"], "did you mean 'steps'"),
        (["looped-linear", "steps=1,2", "--seeds", "x"], "seeds are 'x'"),
        (["looped-linear", "--address", "a:1"], "--address is for a cluster: add --engine ray"),
        (["looped-linear", "--cpus-per-run", "2"], "--cpus-per-run is for a cluster"),
        (["looped-linear", "--engine", "ray", "--workers", "2"], "leave it out with ray"),
        (["looped-linear", "--engine", "slurm"], "'slurm' is not one of"),
    ],
)
def test_mistakes_are_one_sentence_and_write_nothing(
    command: Command, tmp_path: Path, words: list[str], sentence: str
) -> None:
    code, _, err = command("sweep", *words)
    assert code == 2
    assert sentence in err
    assert "Traceback" not in err
    assert list(tmp_path.iterdir()) == []
