"""Runs that this machine cannot carry out."""

from pathlib import Path
from typing import Any

import pytest
import torch
from pydantic import ValidationError

import innerloop as il
from innerloop.core.errors import ConfigurationError
from innerloop.training import feasible
from innerloop.training.config import RunConfig
from innerloop.training.feasible import bytes_per_prompt, memory_of, require_feasible
from tests.fuzz.sandbox import little_memory
from tests.training.configs import LOOP, stack, tiny


@pytest.mark.parametrize(
    ("config", "sentence"),
    [
        (tiny(batch=10**11), "batch=100000000000 accumulate=1 would take about .*B of memory"),
        (tiny(batch=1, accumulate=10**13), "accumulate=10000000000000 would take"),
        (tiny(pool=10**13), "pool=10000000000000 would take"),
    ],
)
def test_prompts_that_do_not_fit_are_refused_before_a_folder_is_made(
    config: RunConfig, sentence: str, tmp_path: Path
) -> None:
    with pytest.raises(ConfigurationError, match=sentence):
        il.train(config, store=tmp_path / "runs")
    assert not (tmp_path / "runs").exists()


def test_the_limit_is_the_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    config = tiny(batch=16, accumulate=3)  # more than the held-out prompts take
    held, kept = bytes_per_prompt(config)
    step = config.batch * (kept + 3 * held)
    monkeypatch.setattr(feasible, "memory_of", lambda device: step)
    require_feasible(config)
    monkeypatch.setattr(feasible, "memory_of", lambda device: step - 1)
    with pytest.raises(ConfigurationError, match="would take about"):
        require_feasible(config)
    monkeypatch.setattr(feasible, "memory_of", lambda device: None)
    require_feasible(tiny(batch=10**8))


def test_what_a_gradient_needs_grows_with_what_it_goes_through() -> None:
    def kept(config: RunConfig) -> float:
        return bytes_per_prompt(config)[1]

    tokens, width = 2 * 5, 8
    assert kept(tiny(window=1)) > 4 * tokens * width  # its hidden states, at the very least
    assert 1.5 * kept(tiny(window=1)) < kept(tiny(window=2)) < 2.5 * kept(tiny(window=1))
    assert kept(tiny(points=10, window=2)) > 1.9 * kept(tiny(window=2))
    assert kept(stack()) > 4 * tokens * width
    lstm = stack(model={"kind": "lstm", "width": 8, "layers": 2})
    assert 4 * tokens * width < kept(lstm) < kept(stack())
    assert kept(tiny(precision="bfloat16")) < kept(tiny())


def test_a_cpu_has_memory_and_what_is_unknown_has_none() -> None:
    memory = memory_of(torch.device("cpu"))
    assert memory is not None
    assert memory > 2**28
    assert memory_of(torch.device("meta")) is None


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        (
            {"model": {"backbone": {**LOOP, "width": 10**6}}},
            "numbers would take about .* of mem",
        ),
        ({"model": {"backbone": {**LOOP, "layers": 10**6}}}, "more than 10,000 tensors"),
        ({"points": 10**9}, "points=1000000000, in the 512 held-out prompts, would take about"),
        ({"batch": 10**8}, "batch=100000000 accumulate=1 would take about"),
        (
            {"model": {"backbone": {**LOOP, "attention": "relu"}}, "points": 10**5},
            "batch=4 accumulate=1 would take about .* TB",
        ),
    ],
)
def test_sizes_are_refused_before_anything_is_allocated(
    changes: dict[str, Any], sentence: str, tmp_path: Path
) -> None:
    config = tiny(**changes)
    with little_memory(2**28), pytest.raises(ConfigurationError, match=sentence):
        il.train(config, store=tmp_path / "runs")
    assert not (tmp_path / "runs").exists()


@pytest.mark.parametrize(
    "changes",
    [
        {"model": {"backbone": {**LOOP, "loops": 10**6}}, "window": 1, "accumulate": 10**6},
        {"model": {"backbone": {**LOOP, "loops": 10**5}}, "window": None, "accumulate": 10**7},
    ],
    ids=["one with a gradient", "all with gradients"],
)
def test_steps_that_take_hours_are_refused_at_once(changes: dict[str, Any], tmp_path: Path) -> None:
    config = tiny(**changes)
    with little_memory(2**28), pytest.raises(ConfigurationError, match="one step of this run"):
        il.train(config, store=tmp_path / "runs")
    assert not (tmp_path / "runs").exists()


def test_loops_without_end_are_refused() -> None:
    with pytest.raises(ValidationError, match="less than or equal to 1000000"):
        tiny(model={"backbone": {**LOOP, "loops": 10**9}})


def test_many_loops_are_computed_from_few(monkeypatch: pytest.MonkeyPatch) -> None:
    config = tiny(model={"backbone": {**LOOP, "loops": 9}}, window=7)
    monkeypatch.setattr(feasible, "_MANY", 9)
    counted = bytes_per_prompt(config)
    monkeypatch.setattr(feasible, "_MANY", 4)
    assert bytes_per_prompt(config) == counted


def test_long_prompts_are_computed_from_short_ones(monkeypatch: pytest.MonkeyPatch) -> None:
    config = tiny(points=40)
    counted = bytes_per_prompt(config)
    monkeypatch.setattr(feasible, "_LONG", 20)
    assert bytes_per_prompt(config) == pytest.approx(counted, rel=0.01)
