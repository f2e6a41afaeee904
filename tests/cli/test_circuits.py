"""`innerloop compile` and `innerloop verify` as a user meets them."""

import json
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
import torch
from safetensors.torch import load_file

from innerloop.circuits import NAMES, compile
from innerloop.models import load
from innerloop.models.checkpoint import weights_file
from innerloop.studies.circuits import TABLE
from tests.cli.command import run

NEWTON = ["newton-relu", "--dims", "2", "--steps", "3", "--points", "5"]


@pytest.fixture
def folder(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> Path:
    """A compiled circuit."""
    place = tmp_path / "newton"
    assert run(capsys, "compile", *NEWTON, "start=0.002", "-o", str(place))[0] == 0
    return place


def read(path: Path) -> Any:
    return json.loads(path.read_text())


def test_compile_alone_lists_the_circuits(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    code, out, _ = run(capsys, "compile", "--json", str(tmp_path / "list.json"))
    assert code == 0
    rows = read(tmp_path / "list.json")
    assert [row["circuit"] for row in rows] == list(NAMES)
    for row in rows:
        assert row["source"]
        assert row["settings"].keys() >= {"dims", "steps", "points"}
    for word in ("newton-relu", "fu2023", "start"):
        assert word in out


@pytest.mark.parametrize("name", NAMES)
def test_every_circuit_can_be_explained(capsys: pytest.CaptureFixture[str], name: str) -> None:
    code, out, _ = run(capsys, "compile", name, "--explain")
    assert code == 0
    for word in ("Settings", "Slots", "Layers", "stated error"):
        assert word in out


def test_the_folder_holds_a_model_and_what_it_was_compiled_from(folder: Path) -> None:
    assert sorted(file.name for file in folder.iterdir()) == [
        "circuit.json", "config.json", "weights.safetensors",
    ]  # fmt: skip
    told = read(folder / "circuit.json")
    assert told["name"] == "newton-relu"
    assert told["settings"].items() >= {"dims": 2, "steps": 3, "points": 5, "start": 0.002}.items()
    assert (told["layers"], told["heads"], told["width"], told["mask"]) == (6, 2, 12, "full")
    assert [row["step"] for row in told["bounds"]] == [0, 1, 2, 3]
    assert {"slot": "y", "offset": 2, "size": 1} in told["slots"]
    assert any("M S M" in row["algebra"] for row in told["parts"])
    circuit = compile("newton-relu", dims=2, steps=3, points=5, start=0.002)
    for key, value in load(folder).state_dict().items():
        assert torch.equal(value, circuit.state_dict()[key])


def test_without_a_folder_nothing_is_written(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    code, out, _ = run(capsys, "compile", *NEWTON)
    assert code == 0
    assert "x of the example" in out
    assert "1e-10 rounding" in out
    assert list(tmp_path.iterdir()) == []
    code, _, _ = run(capsys, "compile", *NEWTON, "--json", "told.json")
    assert code == 0
    assert [file.name for file in tmp_path.iterdir()] == ["told.json"]
    assert read(tmp_path / "told.json")["settings"]["steps"] == 3


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["newton-rely"], "did you mean 'newton-relu'?"),
        (["newton-relu", "stepz=3"], "did you mean 'steps'?"),
        (["newton-relu", "dims=3", "--dims", "4"], "dims is given twice"),
        (["newton-relu", "--dims", "0"], "greater than or equal to 1"),
        (["newton-relu", "start=-1"], "greater than 0"),
        (["newton-relu", "steps"], "is not a setting"),
    ],
)
def test_a_mistake_is_one_sentence_and_writes_nothing(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, words: list[str], sentence: str
) -> None:
    place = tmp_path / "circuit"
    code, out, err = run(capsys, "compile", *words, "-o", str(place), "--explain")
    assert code == 2
    assert out == ""
    assert sentence in err
    assert err.count("error:") == 1
    assert not place.exists()


def test_a_model_is_written_over_only_when_told(
    capsys: pytest.CaptureFixture[str], folder: Path
) -> None:
    code, _, err = run(capsys, "compile", *NEWTON, "-o", str(folder))
    assert code == 2
    assert "--force" in err
    assert read(folder / "circuit.json")["settings"]["start"] == 0.002
    assert run(capsys, "compile", *NEWTON, "-o", str(folder), "--force")[0] == 0
    assert read(folder / "circuit.json")["settings"]["start"] is None
    (folder / "state.pt").touch()
    code, _, err = run(capsys, "compile", *NEWTON, "-o", str(folder), "--force")
    assert code == 2
    assert "is a training run" in err


def test_a_folder_is_held_to_its_algorithm(
    capsys: pytest.CaptureFixture[str], folder: Path
) -> None:
    numbers = folder.parent / "numbers.json"
    code, out, _ = run(capsys, "verify", str(folder), "--seeds", "2", "--json", str(numbers))
    assert code == 0
    assert "holds" in out
    (case,) = read(numbers)
    assert (case["circuit"], case["dims"], case["points"]) == ("newton-relu", 2, 5)
    assert [step["step"] for step in case["steps"]] == [0, 1, 2, 3]
    assert all(step["error"] <= 1e-10 for step in case["steps"])


def test_a_perturbed_file_is_caught(capsys: pytest.CaptureFixture[str], folder: Path) -> None:
    path = folder / "weights.safetensors"
    weights = load_file(path)
    matrix = weights["backbone.blocks.0.attention.outward.weight"]  # (D, h s)
    row, column = (int(index) for index in matrix.nonzero()[0])
    matrix[row, column] += 1e-6
    path.write_bytes(weights_file(weights))
    numbers = folder.parent / "numbers.json"
    code, out, _ = run(capsys, "verify", str(folder), "--json", str(numbers))
    assert code == 1
    assert "fails" in out
    assert "d=2, n=5: " in out
    assert "after step 1" in out.replace("\n", " ")
    assert read(numbers)[0]["holds"] is False


def test_all_circuits_at_a_small_size(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    numbers = tmp_path / "numbers.json"
    sizes = ["--dims", "2", "--points", "4,5", "--seeds", "1"]
    code, out, _ = run(capsys, "verify", "--all", *sizes, "--json", str(numbers))
    assert code == 0
    cases = read(numbers)
    assert len(cases) == 2 * len(TABLE)
    assert {case["circuit"] for case in cases} == set(NAMES)
    assert out.count("holds") == len(TABLE)


def test_one_circuit_by_name(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    numbers = tmp_path / "numbers.json"
    words = ["newton-relu", "--dims", "1,3", "--points", "4", "--json", str(numbers)]
    code, out, _ = run(capsys, "verify", *words)
    assert code == 0
    assert "width 16" in out, "the largest of all sizes"
    assert [(case["dims"], case["points"]) for case in read(numbers)] == [(1, 4), (3, 4)]


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        ([], "name one circuit or folder, or give --all"),
        (["newton-relu", "--all"], "name one circuit or folder, or give --all"),
        (["newton-rely"], "did you mean 'newton-relu'?"),
        (["newton-relu", "--dims", "two"], "--dims is 'two'"),
        (["newton-relu", "--points", "0"], "at least 1"),
        (["newton-relu", "--seeds", "0"], "seeds is 0"),
        (["nowhere/at/all"], "circuit.json is missing"),
    ],
)
def test_verify_answers_a_mistake_with_one_sentence(
    capsys: pytest.CaptureFixture[str], words: list[str], sentence: str
) -> None:
    code, out, err = run(capsys, "verify", *words)
    assert code == 2
    assert out == ""
    assert sentence in err
    assert err.count("error:") == 1


def test_a_folder_has_its_own_size_and_a_file_that_can_be_read(
    capsys: pytest.CaptureFixture[str], folder: Path
) -> None:
    code, _, err = run(capsys, "verify", str(folder), "--dims", "3")
    assert code == 2
    assert "compiled for one size" in err
    for text, sentence in (("{", "read as JSON"), ("[]", "names no circuit"), ("{}", "names no")):
        (folder / "circuit.json").write_text(text)
        code, _, err = run(capsys, "verify", str(folder))
        assert code == 2
        assert sentence in err


def test_a_compiled_circuit_is_evaluated_like_any_model(
    capsys: pytest.CaptureFixture[str], folder: Path
) -> None:
    place = folder.parent / "evaluation"
    words = [str(folder), "ols", "--task", "linear", "--prompts", "20", "-o", str(place)]
    code, _, err = run(capsys, "evaluate", *words)
    assert code == 0, err
    table = pd.read_csv(next(place.glob("*-by-prefix.csv")))
    assert len(set(table["learner"])) == 2
    assert set(table["prefix"]) == set(range(5))
