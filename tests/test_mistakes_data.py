"""Mistakes with data, tasks and runs in Python, each answered with one sentence.

A row is a mistake, what makes it, and a piece of the sentence.
"""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file

import innerloop as il
from innerloop.core.errors import InnerloopError
from innerloop.models.checkpoint import weights_file

ONES = torch.ones(2, 3, 1)
NAN = torch.full_like(ONES, torch.nan)
anything: Any = il  # what is wrong on purpose is not for the type checker


def recipe(**settings: Any) -> Any:
    return il.training.recipe("looped-linear", scale="smoke", **settings)


MISTAKES: dict[str, tuple[Callable[[], Any], str]] = {
    "NaN among inputs": (lambda: il.Prompt(xs=NAN, ys=ONES), "xs holds 6 values that are not"),
    "infinite outputs": (lambda: il.Prompt(xs=ONES, ys=ONES / 0), "ys holds 6 values that are not"),
    "NaN among queries": (
        lambda: il.Prompt(xs=ONES, ys=ONES).ask(NAN[:, :, None]), "queries holds 6 values",
    ),
    "NaN in an array": (
        lambda: il.Prompt.from_arrays([[1.0], [float("nan")]], [1.0, 2.0]), "drop or impute",
    ),
    "numbers too large for the type": (
        lambda: il.Prompt.from_arrays([[1e60]], [1.0]).to(dtype=torch.float32), "not finite",
    ),
    "a recipe that does not exist": (
        lambda: il.training.recipe("looped-liner"), "did you mean 'looped-linear'?",
    ),
    "a scale that does not exist": (
        lambda: il.training.recipe("looped-linear", scale="huge"), "unknown scale 'huge'",
    ),
    "a setting that does not exist": (lambda: recipe(stepz=3), "did you mean 'steps'?"),
    "a setting of the task that does not exist": (
        lambda: recipe(task={"dmis": 3}), "did you mean 'dims'?",
    ),
    "a setting and a part of it": (
        lambda: recipe(**{"task": {"dims": 2}, "task.noise": 1}), "one is a part of the other",
    ),
    "a task that does not exist": (lambda: recipe(task="liner"), "did you mean 'linear'?"),
    "a module that does not exist": (
        lambda: recipe(task="no_such_module:Sinusoid"), "there is no module 'no_such_module'",
    ),
    "a learner for a task": (
        lambda: recipe(task="innerloop.learners:OLS"), "is a class, expected a task",
    ),
    "training the name of a recipe": (
        lambda: anything.train("looped-linear"), "expected a RunConfig",
    ),
    "more prompts than fit": (
        lambda: il.train(recipe(batch=100_000_000_000)), "take fewer prompts",
    ),
}  # fmt: skip


@pytest.mark.parametrize("mistake", MISTAKES)
def test_a_mistake_is_one_sentence(
    mistake: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    make, sentence = MISTAKES[mistake]
    monkeypatch.chdir(tmp_path)
    with pytest.raises(InnerloopError) as raised:
        make()
    assert sentence in str(raised.value)
    assert "\n" not in str(raised.value)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("bad", [float("nan"), float("inf")])
def test_weights_that_are_not_finite_are_refused(bad: float, tmp_path: Path) -> None:
    run = il.train(recipe(steps=2), store=tmp_path)
    weights = load_file(run.path / "weights.safetensors")
    next(iter(weights.values())).view(-1)[0] = bad
    (run.path / "weights.safetensors").write_bytes(weights_file(weights))
    with pytest.raises(InnerloopError, match="holds NaN or infinity, with which no model predicts"):
        run.model()
