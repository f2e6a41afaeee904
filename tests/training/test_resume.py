"""Killed at any moment and resumed: bit for bit the run that nobody disturbed."""

import os
import random
import signal
import time
from pathlib import Path

import pytest
import torch

from innerloop.training.config import RunConfig
from innerloop.training.run import Run
from innerloop.training.store import Store
from tests.training import children
from tests.training.configs import LOOP, tiny

MOMENTS = ("step", "state", "between", "line", "step")
"""Of the kills: between two steps, in the middle of a state, between the writing of weights and of
state, in the middle of a line of metrics."""


def config() -> RunConfig:
    """Every part of a run that has a state, or depends on the step."""
    return tiny(
        task={"name": "linear", "dims": 3}, points=7, steps=60, batch=8, accumulate=2,
        model={"backbone": {**LOOP, "pre": 1, "loops": 6}}, window=3,
        loops={"start": 2, "share": 0.6}, average=0.2,
        curriculum={"dims": {"start": 1, "every": 0.2}, "points": {"start": 3, "every": 10}},
        log_every=3, evaluate_every=10, save_every=7,
    )  # fmt: skip


def same_state(one: Path, other: Path) -> bool:
    """Whether two states hold the same, tensors bit for bit."""

    def flat(value: object) -> list[object]:
        if isinstance(value, dict):
            return [part for key in sorted(value, key=str) for part in [key, *flat(value[key])]]
        if isinstance(value, list | tuple):
            return [part for item in value for part in flat(item)]
        return [(value.dtype, value.tolist())] if isinstance(value, torch.Tensor) else [value]

    states = [flat(torch.load(path / "state.pt", weights_only=True)) for path in (one, other)]
    return states[0] == states[1]


def kill_at(moment: str, root: Path, draw: random.Random) -> int | None:
    """Train until this moment in a process of its own, and die; how it ended."""
    text = config().model_dump_json()
    if moment == "step":
        steps = draw.randint(8, 18)
        child = children.start(children.train_and_die_before_step, root, text, steps)
    elif moment == "line":
        child = children.start(children.train_and_die_in_a_line, root, text, 5)
    else:
        begun = moment == "state"
        child = children.start(children.train_and_die_writing, root, text, 1, begun)
    child.join()
    return child.exitcode


def left_by(run: Run) -> str:
    """The moment of the last kill, by what it has left behind."""
    if list(run.path.glob(".state-*")):
        return "state"
    if not (run.path / "metrics.jsonl").read_bytes().endswith(b"\n"):
        return "line"
    weights, kept = run.model().state_dict(), run.read_state()["average"]
    same = all(torch.equal(kept[name], value) for name, value in weights.items())
    return "step" if same else "between"


def test_five_kills_leave_no_trace(tmp_path: Path) -> None:
    undisturbed = Store(tmp_path / "whole").train(config())
    root = tmp_path / "killed"
    store, draw = Store(root), random.Random(2024)
    reached: list[int] = []
    for moment in MOMENTS:
        assert kill_at(moment, root, draw) == -signal.SIGKILL
        run = store.find(config())
        assert run is not None
        assert not run.finished
        assert left_by(run) == moment
        # Whatever else was written by then, the state is what counts.
        assert run.step == run.read_state()["step"]
        reached.append(run.step)
    assert reached == sorted(reached)
    assert reached[-1] > 20  # it got somewhere
    done = store.train(config())
    assert done.finished
    for name in ("weights.safetensors", "metrics.jsonl", "config.json"):
        assert (done.path / name).read_bytes() == (undisturbed.path / name).read_bytes(), name
    assert same_state(done.path, undisturbed.path)
    names = {path.name for path in undisturbed.path.iterdir()}
    assert {path.name for path in done.path.iterdir()} == names  # no halves of files either


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_a_signal_to_end_saves_and_leaves(tmp_path: Path, number: signal.Signals) -> None:
    words = [
        "train", "looped-linear", "steps=100000", "save_every=100000", "log_every=1",
        "threads=1", "--scale", "smoke", "--store", str(tmp_path),
    ]  # fmt: skip
    child = children.start(children.run_command, words)
    # However slow the machine: until it trains, or has ended without.
    while child.is_alive() and not any(
        file.stat().st_size for file in tmp_path.glob("*/metrics.jsonl")
    ):
        time.sleep(0.02)
    assert child.pid is not None
    os.kill(child.pid, number)
    child.join()
    assert child.exitcode == 128 + number
    (run,) = Store(tmp_path).runs()
    assert run.step >= 1
    assert not run.finished
    assert run.path.name.startswith("looped-linear-")
    assert run.metrics()["step"].iloc[-1] == run.step
