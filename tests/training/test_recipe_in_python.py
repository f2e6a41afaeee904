"""`recipe` and `train`: what the command line does, in Python."""

from pathlib import Path
from typing import Any

import pytest

import innerloop as il
from innerloop.tasks.tree import DecisionTree
from innerloop.training.optimizer import Optimizer
from innerloop.training.overrides import with_overrides
from innerloop.training.recipes import find_recipe


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({}, []),
        ({"steps": 7}, ["steps=7"]),
        ({"task": {"dims": 2}, "points": 9}, ["task.dims=2", "points=9"]),
        ({"task": "tree", "task.depth": 2}, ["task=tree", "task.depth=2"]),
        ({"task": DecisionTree(dims=3, depth=2)}, ["task=tree", "task.depth=2"]),
        ({"optimizer": "paper"}, ["optimizer=paper"]),
        ({"optimizer": Optimizer.paper()}, ["optimizer=paper"]),
        ({"optimizer": {"name": "paper", "clip": 2.0}}, ["optimizer=paper", "optimizer.clip=2"]),
        ({"optimizer": {"betas": (0.8, 0.9)}}, ["optimizer.betas=0.8,0.9"]),
    ],
)
def test_keywords_say_what_words_say(settings: dict[str, Any], words: list[str]) -> None:
    base = find_recipe("looped-linear", "smoke")
    config = il.training.recipe("looped-linear", scale="smoke", **settings)
    assert config == with_overrides(base, words)
    assert (config != base) == bool(words)


def test_a_run_is_trained_once(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    config = il.training.recipe("looped-linear", scale="smoke", steps=4)
    run = il.train(config, store=tmp_path, name="mine")
    assert run.finished
    assert run.path.parent == tmp_path
    assert run.name.startswith("mine-")
    before = (run.path / "state.pt").stat().st_mtime_ns
    assert il.train(config, store=il.training.Store(tmp_path)).path == run.path
    assert (run.path / "state.pt").stat().st_mtime_ns == before
    assert capsys.readouterr() == ("", "")  # silent by default
    il.train(config, store=tmp_path, fresh=True, progress=True)
    assert (run.path / "state.pt").stat().st_mtime_ns != before
    assert "4/4" in capsys.readouterr().err
