"""Killed at any moment and resumed: bit for bit the run that nobody disturbed."""

import random
import signal
import time
from pathlib import Path

import torch

from innerloop.training.config import RunConfig
from innerloop.training.lock import locked
from innerloop.training.store import Store
from tests.training import children
from tests.training.configs import LOOP, tiny

KILLS = 5


def config() -> RunConfig:
    """Every part of a run that has a state, or depends on the step."""
    return tiny(
        task={"name": "linear", "dims": 3}, points=7, steps=60, batch=8, accumulate=2,
        model={"backbone": {**LOOP, "pre": 1, "loops": 6}}, window=3,
        loops={"start": 2, "share": 0.6},
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


def test_five_kills_leave_no_trace(tmp_path: Path) -> None:
    undisturbed = Store(tmp_path / "whole").train(config())
    text, root = config().model_dump_json(), tmp_path / "killed"
    store, draw = Store(root), random.Random(2024)
    reached: list[int] = []
    for kill in range(KILLS):
        # Twice in the middle of writing a checkpoint, else after a random number of steps.
        if kill % 2:
            child = children.start(children.train_and_die_writing, root, text, 1)
        else:
            steps = draw.randint(8, 18)
            child = children.start(children.train_and_die_before_step, root, text, steps)
        child.join()
        assert child.exitcode == -signal.SIGKILL
        run = store.find(config())
        assert run is not None
        assert not run.finished
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


def test_a_killed_process_leaves_no_lock(tmp_path: Path) -> None:
    text = config().model_dump_json()
    child = children.start(children.train_and_die_before_step, tmp_path, text, 1)
    child.join()
    run = Store(tmp_path).find(config())
    assert run is not None
    with locked(run.path):
        pass


def test_sigterm_saves_and_leaves(tmp_path: Path) -> None:
    words = [
        "train", "looped-linear", "steps=100000", "save_every=100000", "log_every=1",
        "threads=1", "--scale", "smoke", "--store", str(tmp_path),
    ]  # fmt: skip
    child = children.start(children.run_command, words)
    deadline = time.monotonic() + 60
    while not list(tmp_path.glob("*/timings.jsonl")) and time.monotonic() < deadline:
        time.sleep(0.02)
    assert child.pid is not None
    child.terminate()
    child.join()
    assert child.exitcode == 128 + signal.SIGTERM
    (run,) = Store(tmp_path).runs()
    assert run.step >= 1
    assert not run.finished
    assert run.path.name.startswith("looped-linear-")
    assert run.metrics()["step"].iloc[-1] == run.step
