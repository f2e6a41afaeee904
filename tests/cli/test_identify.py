"""`innerloop identify` from the command line."""

import json
from pathlib import Path

import pytest

import innerloop as il
from tests.cli.command import run


def test_a_learner_is_named(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    output, numbers = tmp_path / "out", tmp_path / "answer.json"
    code, out, _ = run(
        capsys, "identify", "newton:steps=3", "dims=3", "--points", "7", "--prompts", "32",
        "-o", str(output), "--json", str(numbers),
    )  # fmt: skip
    assert code == 0
    assert "Newton(steps=3)" in out
    answer = json.loads(numbers.read_text())
    assert (answer["family"], answer["parameters"]["steps"]) == ("Newton", 3)
    assert answer["task"] == "linear (dims=3)"
    assert [row["Newton"] for row in answer["steps"]] == [0, 1, 2, 3]
    assert answer["statement"].startswith("Newton(steps=3)")
    assert [row["shift"] for row in answer["shifts"]][:2] == ["inputs x 2", "inputs x 1/2"]
    assert {path.suffix for path in output.iterdir()} == {".png", ".csv"}


def test_a_compiled_folder_is_named(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    """Figures are called after the folder, so that two of a kind do not meet."""
    folder = tmp_path / "my-newton"
    il.models.save(il.circuits.compile("newton-relu", dims=2, steps=2, points=5), folder)
    code, out, _ = run(
        capsys, "identify", str(folder), "--prompts", "32", "-o", str(tmp_path / "out")
    )
    assert code == 0
    assert "Newton" in out
    assert (tmp_path / "out" / "my-newton-prompts-32.png").is_file()


def test_other_settings_do_not_write_over_the_first(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    first = ["identify", "ols", "--points", "4", "--prompts", "4", "--candidates", "ols,averaging"]
    others = [
        ["dims=2"], ["dims=3"], ["--noise", "0.5"], ["--noise", "0.25"], ["--battery", "none"],
        ["--battery", "full"], ["--shift", "scaled-inputs:factor=3"], ["--seed", "1"],
        ["--shift", "scaled-inputs:factor=2"], ["--task", "sparse", "dims=4"],
        ["--candidates", "ridge"],
        ["--shift", "scaled-inputs:factor=2", "--shift", "example-query"],
    ]  # fmt: skip
    for words in ([], *others):
        code, _, err = run(capsys, *first, *words, "-o", str(tmp_path))
        assert code == 0, err
    assert len(list(tmp_path.glob("*.png"))) == len(list(tmp_path.glob("*.csv"))) == 13


def test_shifts_candidates_and_noise_are_chosen(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    numbers = tmp_path / "answer.json"
    code, out, _ = run(
        capsys, "identify", "ridge:penalty=1", "dims=3", "--prompts", "16", "--json", str(numbers),
        "--candidates", "ridge,lasso", "--candidates", "ols", "--noise", "0.5",
        "--shift", "scaled-inputs:factor=3", "-o", str(tmp_path / "out"),
    )  # fmt: skip
    assert code == 0
    assert "scaled-inputs:factor=3" in out
    answer = json.loads(numbers.read_text())
    assert {row["family"] for row in answer["ranking"]} == {"Ridge", "Lasso", "OLS"}
    assert [row["shift"] for row in answer["shifts"]] == ["scaled-inputs:factor=3", "noise 0.5"]
    assert all(row["holds"] for row in answer["shifts"])


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["newtown:steps=3"], "unknown learner 'newtown'"),
        (["ols", "ridge:penalty=1"], "2 learners were named"),
        (["ols", "--prompts", "1"], "expected at least 2"),
        (["ols", "--candidates", "rigde"], "unknown candidate 'rigde': did you mean 'Ridge'?"),
        (["ols", "--candidates", ","], "no candidate was named"),
        (["ols", "--shift", "scaled-input"], "unknown shift 'scaled-input'"),
        (["ols", "--battery", "fast"], "'fast' is not one of 'none'"),
        (["no/such/folder"], "there is no folder"),
        ([], "Missing argument"),
    ],
)
def test_bad_input_is_one_sentence(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, arguments: list[str], sentence: str
) -> None:
    output = tmp_path / "out"
    code, _, err = run(capsys, "identify", *arguments, "-o", str(output))
    assert code == 2
    assert sentence in " ".join(err.split())
    assert not output.exists() or not list(output.iterdir())
