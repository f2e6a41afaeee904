"""`innerloop explore`: which models it shows, where it writes, and how it ends."""

import json
import os
import re
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from innerloop.models.checkpoint import save
from innerloop.models.lstm import LSTM, LSTMConfig
from innerloop.training.recipes import recipe
from innerloop.training.store import Store
from tests.cli.command import run_flat


def _sheets(page: Path) -> list[dict[str, Any]]:
    """The models inside a page."""
    found = re.search(r'<script id="sheets" type="application/json">(.*?)</script>',
                      page.read_text("utf-8"), re.S)  # fmt: skip
    assert found is not None
    return json.loads(found[1])


def test_export_writes_one_file(capsys: pytest.CaptureFixture[str], tmp_path: Path):
    code, out, _ = run_flat(capsys, "explore", "--export", tmp_path / "page")
    assert code == 0
    assert "index.html" in out
    assert [path.name for path in (tmp_path / "page").iterdir()] == ["index.html"]
    names = [sheet["name"] for sheet in _sheets(tmp_path / "page" / "index.html")]
    assert names[:2] == ["looped-line", "standard-line"]
    assert len(names) == 10


def test_ones_own_run_stands_before_the_others(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
):  # fmt: skip
    run = Store(tmp_path / "runs").train(recipe("tied-plane", scale="smoke"))
    code, _, _ = run_flat(capsys, "explore", run.path, "--export", tmp_path)
    assert code == 0
    first = _sheets(tmp_path / "index.html")[0]
    assert (first["name"], first["dims"]) == (run.path.name, 2)


def test_a_model_of_the_page_comes_first_and_once(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
):
    assert run_flat(capsys, "explore", "tied-plane", "--export", tmp_path)[0] == 0
    names = [sheet["name"] for sheet in _sheets(tmp_path / "index.html")]
    assert names[0] == "tied-plane"
    assert len(set(names)) == len(names) == 10


def test_two_models_of_one_name_are_refused(capsys: pytest.CaptureFixture[str], tmp_path: Path):
    code, _, err = run_flat(capsys, "explore", "tied-line", "tied-line", "--export", tmp_path)
    assert (code, "two of the models are called 'tied-line'" in err) == (2, True)


@pytest.mark.parametrize(
    ("word", "said"),
    [
        ("nothing-of-this-name", "neither the folder of a run"),
        ("looped-sparse", "neither"),  # a recipe
        ("looped-linear", "has dims 20"),
    ],
)
def test_other_words_are_refused(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, word: str, said: str
):
    code, _, err = run_flat(capsys, "explore", word, "--export", tmp_path)
    assert (code, said in err) == (2, True)
    assert not list(tmp_path.iterdir())


def test_models_that_a_page_cannot_show_are_refused(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
):
    save(LSTM(LSTMConfig(dims=1, width=4, layers=1)), tmp_path / "lstm")
    code, _, err = run_flat(capsys, "explore", tmp_path / "lstm", "--export", tmp_path / "page")
    assert code == 2
    assert "LSTM" in err
    run = Store(tmp_path / "runs").train(recipe("looped-linear", scale="smoke", steps=1))
    code, _, err = run_flat(capsys, "explore", run.path, "--export", tmp_path / "page")
    assert code == 2
    assert "dims 3" in err


@pytest.mark.slow
def test_it_serves_until_ctrl_c():
    child = subprocess.Popen(
        [sys.executable, "-m", "innerloop", "explore", "--no-open"],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env={**os.environ},
    )  # fmt: skip
    assert child.stdout is not None
    assert "http://127.0.0.1:" in child.stdout.readline()
    child.send_signal(signal.SIGINT)
    _, err = child.communicate()
    assert (child.returncode, err) == (0, "")
