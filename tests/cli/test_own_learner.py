"""Learners of other packages, named on the command line."""

import sys
from collections.abc import Iterator
from pathlib import Path

import pandas as pd
import pytest

from innerloop.cli.main import main

MODULE = """
import torch
from innerloop.core import OneShot, Traits

class Constant(OneShot):
    traits = Traits(order_invariant=True, rotation_equivariant=True)

    def __init__(self, value):
        self.value = value

    @property
    def name(self):
        return f"always {self.value}"

    def init(self, prompt):
        return torch.full(prompt.prediction_shape, float(self.value), dtype=prompt.xs.dtype)

half = Constant(0.5)
"""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    (tmp_path / "ownlearners.py").write_text(MODULE)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [*sys.path])
    yield tmp_path
    sys.modules.pop("ownlearners", None)


def test_a_class_and_an_object_are_evaluated(folder: Path) -> None:
    words = ["ownlearners:half", "ownlearners:Constant:value=2", "ols", "dims=2"]
    main_without_exit(["evaluate", *words, "--prompts", "8"])
    (file,) = (folder / "evaluation").glob("*-by-prefix.csv")
    table = pd.read_csv(file)
    assert set(table["learner"]) == {"always 0.5", "always 2", "OLS"}


def main_without_exit(words: list[str]) -> None:
    with pytest.raises(SystemExit) as stop:
        main(words)
    assert not stop.value.code


@pytest.mark.parametrize(
    ("word", "sentence"),
    [
        ("ownlearners:haf", "did you mean 'half'?"),
        ("ownlearners:torch", "is of the type module, expected a learner"),
        ("ownlearners:half:value=3", "leave 'value=3' out"),
        ("ownlearners:Constant", "missing 1 required positional argument: 'value'"),
        ("nolearners:half", "there is no module 'nolearners'"),
        ("ridge:penalty", "'penalty' is not a setting"),
        ("task.noise=1", "written without 'task.' here: noise=.."),
    ],
)
def test_a_mistake_is_one_sentence(
    folder: Path, capsys: pytest.CaptureFixture[str], word: str, sentence: str
) -> None:
    with pytest.raises(SystemExit) as stop:
        main(["evaluate", word])
    assert stop.value.code == 2
    assert sentence in " ".join(capsys.readouterr().err.split())
