"""`innerloop inspect` from the command line."""

import json
from pathlib import Path

import pytest

import innerloop as il
from tests.cli.command import run


def test_a_circuit_is_inspected(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    folder, output, numbers = tmp_path / "newton", tmp_path / "out", tmp_path / "rows.json"
    il.models.save(il.circuits.compile("newton-relu", dims=2, steps=2, points=5), folder)
    code, out, _ = run(
        capsys, "inspect", str(folder), "--prompts", "8", "-o", str(output), "--json", str(numbers)
    )  # fmt: skip
    assert code == 0
    assert "head 1" in out
    assert {path.name for path in output.iterdir()} == {
        "newton-prompts-8.png", "newton-prompts-8.csv",
    }  # fmt: skip
    rows = json.loads(numbers.read_text())
    heads = [(row["step"], row["component"]) for row in rows if row["component"] != "MLP"]
    steps = ["pre.0", "pre.1", "0", "1", "read.0"]
    # The block that pairs x and y has one head, all others have two.
    assert heads == [(s, f"head {h}") for s in steps for h in range(1 if s == "pre.0" else 2)]
    # Only the steps have MLPs, and only what reads writes to the slot of the answer.
    assert [row["step"] for row in rows if row["component"] == "MLP"] == ["0", "1"]
    shares = {}
    for row in rows:
        shares[row["step"]] = shares.get(row["step"], 0.0) + row["direct share"]
    assert shares == pytest.approx({"pre.0": 0, "pre.1": 0, "0": 0, "1": 0, "read.0": 1})


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (("ols",), "no components"),
        (("ols", "averaging"), "give one at a time"),
        (("ols", "--prompts", "1"), "at least 2"),
    ],
)
def test_a_mistake_is_one_sentence(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, arguments: tuple[str, ...], sentence: str
) -> None:
    code, _, err = run(capsys, "inspect", *arguments, "-o", str(tmp_path / "out"))
    assert code == 2
    assert sentence in " ".join(err.split())
