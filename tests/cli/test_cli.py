"""The command line as a user meets it."""

import json
import subprocess
import sys
from pathlib import Path

import pandas as pd
import pytest

from innerloop.learners import LEARNERS
from innerloop.tasks import TASKS
from innerloop.tasks.shifts import SHIFTS
from tests.cli.command import run


def test_help_shows_the_verbs(capsys: pytest.CaptureFixture[str]) -> None:
    code, out, _ = run(capsys, "--help")
    assert code == 0
    verbs = (
        "tasks",
        "learners",
        "recipes",
        "train",
        "evaluate",
        "identify",
        "compile",
        "verify",
        "demo",
        "bench",
        "import",
        "studies",
        "reproduce",
        "plan",
        "report",
    )
    for verb in verbs:
        assert verb in out


def test_evaluate_help_has_examples(capsys: pytest.CaptureFixture[str]) -> None:
    code, out, _ = run(capsys, "evaluate", "--help")
    assert code == 0
    assert "ridge:penalty=0.1" in out
    assert "--shift" in out


@pytest.mark.parametrize(
    ("verb", "names"), [("tasks", [*TASKS, *SHIFTS]), ("learners", list(LEARNERS))]
)
def test_listings_have_a_line_for_each(
    capsys: pytest.CaptureFixture[str], verb: str, names: list[str]
) -> None:
    code, out, _ = run(capsys, verb)
    assert code == 0
    for name in names:
        assert name in out


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["learners", "nearest-neighbors"], ["NearestNeighbors", "uniform", "weights"]),
        (["tasks", "linear"], ["LinearRegression", "prior_variance", "standard deviation"]),
        (["tasks", "scaled-inputs"], ["ScaledInputs", "factor", "must be given"]),
    ],
)
def test_one_entry_is_told_in_full(
    capsys: pytest.CaptureFixture[str], words: list[str], told: list[str]
) -> None:
    code, out, _ = run(capsys, *words)
    assert code == 0
    for part in told:
        assert part in out


def test_evaluate_writes_figure_numbers_and_table(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    code, out, _ = run(
        capsys, "evaluate", "ols", "ridge:penalty=0.1", "--task", "linear", "dims=3", "noise=0.5",
        "--points", "8", "--prompts", "50", "-o", str(tmp_path), "--json", str(tmp_path / "t.json"),
    )  # fmt: skip
    assert code == 0
    stem = "ols-ridge-penalty-0.1-dims-3-noise-0.5-task-linear-points-8-prompts-50-by-prefix"
    table = pd.read_csv(tmp_path / f"{stem}.csv")
    assert set(table["learner"]) == {"OLS", "Ridge(penalty=0.1)"}
    assert len(table) == 16
    assert (tmp_path / f"{stem}.png").stat().st_size > 10_000
    assert len(json.loads((tmp_path / "t.json").read_text())) == 16
    assert "Ridge(penalty=0.1)" in out
    assert "interval" in out


def test_models_of_the_package_go_by_their_names(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    json_file = tmp_path / "t.json"
    words = ("looped-line", "tied-line", "ols", "--prompts", "64", "-o", str(tmp_path))
    code, out, _ = run(capsys, "evaluate", *words, "--json", str(json_file))
    assert code == 0
    assert "noise=0.25" in out  # their own task
    rows = json.loads(json_file.read_text())
    last = {row["learner"]: row["mean"] for row in rows if row["prefix"] == 20}
    assert last.keys() == {"looped transformer (1 layer)", "tied transformer (1 layer)", "OLS"}
    assert max(last.values()) < 0.2


def test_a_folder_comes_before_a_model_of_the_package(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "looped-line").mkdir()
    (tmp_path / "looped-line" / "config.json").write_text("{}")
    code, _, err = run(capsys, "evaluate", "looped-line")
    assert code == 2
    assert "looped-line" in err


def test_evaluate_by_step_and_by_shift(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    code, *_ = run(
        capsys, "evaluate", "newton:steps=4", "ols", "dims=3", "--by", "step", "--log",
        "--prompts", "20", "-o", str(tmp_path),
        "--shift", "scaled-inputs:factor=3", "--shift", "half-subspace",
    )  # fmt: skip
    assert code == 0
    assert {file.name for file in tmp_path.iterdir()} == {
        f"newton-steps-4-ols-dims-3-shift-{shift}-prompts-20-by-step.{suffix}"
        for shift in ("scaled-inputs-factor-3", "half-subspace")
        for suffix in ("csv", "png")
    }


def test_evaluate_says_what_an_infinite_error_means(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    words = ("evaluate", "gradient-descent:step_size=10,steps=300", "dims=2", "--prompts", "4")
    code, out, _ = run(capsys, *words, "--shift", "scaled-inputs:factor=1e9", "-o", str(tmp_path))
    assert code == 0
    assert "inf: answers that overflow" in " ".join(out.split())


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["evaluate", "olz"], "did you mean 'ols'?"),
        (["evaluate", "ols", "--task", "linera"], "did you mean 'linear'?"),
        (["evaluate", "ols", "dimms=5"], "did you mean 'dims'?"),
        (["evaluate", "ridge:penaltie=1"], "did you mean 'penalty'?"),
        (["evaluate", "ols", "--shift", "scaled-input:factor=2"], "did you mean 'scaled-inputs'?"),
        (["evaluate", "ols", "dims=many"], "'dims' of LinearRegression is 'many'"),
        (["evaluate", "ols", "dims=-3"], "'dims' of LinearRegression is -3"),
        (["evaluate", "ridge"], "Ridge needs a value for 'penalty'"),
        (["evaluate", "ols", "--points", "0"], "points is 0"),
        (["evaluate", "ols", "--prompts", "0"], "at least 1"),
        (["evaluate", "ols", "--by", "step", "--prefix", "99"], "expected 0 to 40"),
        (["evaluate", "dims=5"], "no learner was named"),
        (["evaluate", "ols", "--prefix", "3"], "only a curve by step"),
        (["evaluate", "ols", "--seed", "99999999999999999999999"], "seed is too large"),
        (["evaluate", "ols", "dims=1000000"], "do not fit into memory"),
        (["evaluate", "ols:penalty=1"], "OLS has no settings"),
        (["evaluate", "ols", "--shift", "skew"], "did you mean 'skewed-covariance'?"),
        (["evaluate", "ols", "--shift", "half-subspace", "--shift", "half-subspace"], "twice"),
        (["evaluate", "ols", "--task", "chain", "--by", "step", "--prefix", "6"], "does not score"),
        (
            ["evaluate", "ols", "--task", "chain", "--shift", "half-subspace"],
            "its inputs are its outputs",
        ),
        (["evaluate", "ols", "--task", "chain", "--shift", "all"], "its inputs are its outputs"),
        (["evaluate", "gradient-descent:steps=3,start=1,2", "dims=3"], "start"),
    ],
)
def test_mistakes_are_one_sentence_and_exit_code_two(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, words: list[str], sentence: str
) -> None:
    code, out, err = run(capsys, *words, "-o", str(tmp_path / "out"))
    assert code == 2
    assert err.startswith("error: ")
    assert sentence in err
    assert err.count("\n") == 1
    assert out == ""
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("words", [["evalute"], ["evaluate", "ols", "--taks", "linear"]])
def test_bad_verbs_and_options_exit_with_two(
    capsys: pytest.CaptureFixture[str], words: list[str]
) -> None:
    code, _, err = run(capsys, *words)
    assert code == 2
    assert "Traceback" not in err


def test_other_settings_write_other_files(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    words = ("evaluate", "newton:steps=4", "--prompts", "4", "-o", str(tmp_path))
    others = (
        ["dims=2"], ["dims=3"], ["dims=3", "noise=1"], ["dims=3", "--steps", "2"],
        ["dims=3", "ols"], ["dims=3", "--seed", "1"], ["dims=3", "--points", "5"],
    )  # fmt: skip
    for more in others:
        assert run(capsys, *words, *more)[0] == 0
    assert len(list(tmp_path.glob("*.csv"))) == len(others)


def test_labels_say_how_many_steps_were_taken(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    words = ("evaluate", "newton:steps=4", "ols", "dims=2", "--prompts", "4", "-o", str(tmp_path))
    assert run(capsys, *words, "--steps", "2")[0] == 0
    table = pd.read_csv(next(tmp_path.glob("*-steps-2-*.csv")))
    assert set(table["learner"]) == {"Newton(steps=4), after 2 steps", "OLS"}


@pytest.mark.parametrize(
    "words",
    [
        ["tasks"], ["tasks", "linear"], ["learners"], ["learners", "ridge"], ["recipes"],
        ["recipes", "looped-linear"], ["runs"], ["compile"],
        ["evaluate", "ols", "dims=2", "--prompts", "4", "-o", "out"],
    ],
)  # fmt: skip
def test_json_can_be_printed_and_then_is_all_that_is_printed(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
    words: list[str],
) -> None:  # fmt: skip
    monkeypatch.chdir(tmp_path)
    code, out, err = run(capsys, *words, "--json", "-")
    assert code == 0
    json.loads(out)
    assert err, "what people read is printed beside it"
    assert not (tmp_path / "-").exists()
    _, again, _ = run(capsys, *words)
    assert again, "the next command prints as usual"


def test_version(capsys: pytest.CaptureFixture[str]) -> None:
    code, out, _ = run(capsys, "--version")
    assert code == 0
    assert out.startswith("innerloop ")


def test_files_stay_in_the_folder(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    run(
        capsys, "evaluate", "ols", "dims=2", "--task", "../linear", "--prompts", "4",
        "-o", str(tmp_path / "out"), "--shift", "orthogonal-query/",
    )  # fmt: skip
    assert {file.name for file in (tmp_path / "out").iterdir()} == {
        f"ols-dims-2-task-linear-shift-orthogonal-query-prompts-4-by-prefix.{suffix}"
        for suffix in ("csv", "png")
    }
    assert [file.name for file in tmp_path.iterdir()] == ["out"]


def test_a_json_that_is_a_folder_is_refused_before_the_work(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    words = ["evaluate", "ols", "dims=2", "-o", str(tmp_path / "out"), "--json", str(tmp_path)]
    code, _, err = run(capsys, *words)
    assert code == 2
    assert "a folder: give a file" in err
    assert not (tmp_path / "out").exists()


def test_a_place_that_cannot_be_written_is_one_sentence(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    (tmp_path / "file").write_text("in the way")
    code, _, err = run(
        capsys, "evaluate", "ols", "dims=2", "--prompts", "4", "-o", str(tmp_path / "file")
    )
    assert code == 2
    assert "cannot write" in err


def test_as_a_module_in_a_process_of_its_own() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "innerloop", "evaluate", "olz"], capture_output=True, text=True
    )
    assert done.returncode == 2
    assert "did you mean 'ols'?" in done.stderr
    assert "Traceback" not in done.stderr
