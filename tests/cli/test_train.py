"""`innerloop train` as a user meets it."""

import importlib.util
import json
from pathlib import Path

import pytest

from innerloop.training.interrupt import Interruption
from innerloop.training.progress import LINES, shown_progress, status
from innerloop.training.store import Store
from innerloop.training.train import Report
from innerloop.training.trainer import Trainer
from tests.cli import command

SMALL = ["--scale", "smoke", "threads=1"]


def run(capsys: pytest.CaptureFixture[str], *words: str) -> tuple[int, str, str]:
    return command.run(capsys, "train", *words)


def test_a_recipe_is_trained_then_found(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    numbers = tmp_path / "metrics.json"
    words = ["looped-linear", *SMALL, "--store", str(tmp_path / "runs"), "--json", str(numbers)]
    code, out, err = run(capsys, *words)
    assert code == 0
    (found,) = Store(tmp_path / "runs").runs()
    assert found.finished
    assert found.name in out.replace("\n", "")
    assert "looped transformer" in out
    assert "steps/s" in err
    assert [row["step"] for row in json.loads(numbers.read_text())][-1] == found.config.steps
    code, again, err = run(capsys, *words)
    assert code == 0
    assert again == out
    assert err == ""


def test_overrides_are_another_run(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    words = ["looped-linear", *SMALL, "steps=2", "task.dims=2", "--store", str(tmp_path)]
    assert run(capsys, *words)[0] == 0
    (found,) = Store(tmp_path).runs()
    sizes = dict(found.config.model)
    assert (found.config.steps, found.task.dims, sizes["dims"]) == (2, 2, 2)


@pytest.mark.parametrize("units", [True, False])
def test_bfloat16_without_units_for_it_is_noticed(
    units: bool,
    capsys: pytest.CaptureFixture[str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    found = {"avx2": True, "avx512_bf16": units}
    monkeypatch.setattr("torch.cpu.get_capabilities", lambda: found)
    words = ["looped-linear", *SMALL, "steps=1", "precision=bfloat16", "--store", str(tmp_path)]
    code, _, err = run(capsys, *words)
    assert code == 0
    assert ("no units for it" in err) is not units


def test_fresh_trains_again(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    words = ["looped-linear", *SMALL, "steps=2", "--store", str(tmp_path)]
    run(capsys, *words)
    (found,) = Store(tmp_path).runs()
    before = (found.path / "state.pt").stat().st_mtime_ns
    assert run(capsys, *words, "--fresh")[0] == 0
    assert (found.path / "state.pt").stat().st_mtime_ns != before


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["loped-linear"], "did you mean 'looped-linear'?"),
        (["looped-linear", "stepz=3"], "did you mean 'steps'?"),
        (["looped-linear", "batch=0"], "greater than or equal to 1"),
        (["looped-linear", "model.backbone.heads=3"], "3 heads do not divide the width"),
        (["looped-linear", "steps"], "is not a setting"),
        (["looped-linear", "device=cuda:99"], "which is not here"),
        (["looped-linear", "--scale", "huge"], "unknown scale 'huge'"),
    ],
)
def test_a_mistake_is_one_sentence_and_writes_nothing(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, words: list[str], sentence: str
) -> None:
    code, out, err = run(capsys, "--scale", "smoke", *words, "--store", str(tmp_path / "runs"))
    assert code == 2
    assert out == ""
    assert sentence in err
    assert err.count("error:") == 1
    assert not (tmp_path / "runs").exists()


def test_divergence_is_told(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    words = [
        "looped-linear", *SMALL, "optimizer.learning_rate=1e6", "optimizer.matrix_rate=1e6",
        "model.backbone.norm=none", "--store", str(tmp_path),
    ]  # fmt: skip
    code, _, err = run(capsys, *words)
    assert code == 2
    assert "has diverged" in err
    code, _, err = run(capsys, *words)
    assert code == 2
    assert "given up before" in err


def test_a_folder_for_numbers_is_refused(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    code, _, err = run(capsys, "looped-linear", *SMALL, "--json", str(tmp_path))
    assert code == 2
    assert "a folder: give a file" in err


@pytest.mark.parametrize("tracker", ["tensorboard", "wandb"])
def test_a_tracker_that_is_not_installed_is_named(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, tracker: str
) -> None:
    if importlib.util.find_spec(tracker) is not None:
        pytest.skip(f"{tracker} is installed")
    words = ["looped-linear", *SMALL, "--store", str(tmp_path), "--track", tracker]
    code, _, err = run(capsys, *words)
    assert code == 2
    assert f"{tracker} is not installed" in err


def report(step: int, steps: int) -> Report:
    return Report(
        step=step, steps=steps, loss=0.51234, error=0.25, loops=12, dims=5, points=11,
        steps_per_second=8.04, seconds_left=3671.0,
    )  # fmt: skip


def test_the_line_has_loss_error_speed_and_time_left() -> None:
    assert status(report(30, 200)) == (
        "30/200  loss 0.512, error 0.25, 12 loops, 8.0 steps/s, 1 hour and 1 minute left"
    )


@pytest.mark.parametrize("steps", [1990, 2000, 100])
def test_about_twenty_lines_are_printed_however_many_steps(
    capsys: pytest.CaptureFixture[str], steps: int
) -> None:
    with shown_progress("a run") as show:
        for step in range(10, steps + 1, 10):
            show(report(step=step, steps=steps))
    lines = capsys.readouterr().err.splitlines()
    assert len(lines) == min(LINES + 1, steps // 10)
    assert lines[-1].startswith(f"{steps}/{steps} ")


@pytest.mark.parametrize(("sound", "saved"), [(True, 3), (False, 0)])
def test_a_stopped_run_says_what_is_saved(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
    sound: bool, saved: int,
) -> None:  # fmt: skip
    asked = iter(range(3))
    monkeypatch.setattr(Interruption, "__call__", lambda self: next(asked, None) is None)
    monkeypatch.setattr(Trainer, "sound", lambda self: sound or self.step == 0)
    _, _, err = run(capsys, "looped-linear", *SMALL, "--store", str(tmp_path))
    assert f"saved as of step {saved} of" in err
