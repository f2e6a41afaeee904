"""Trainings killed at random moments and inside writes, resumed, and compared bit for bit."""

import os
import random
import signal
import time
from pathlib import Path

import pandas as pd

from innerloop.training.store import Store
from tests.training import children
from tests.training.test_resume import config, kill_at, same_state

MOMENTS = ("any", "step", "any", "state", "between", "any", "line")
"""When a process dies: at any time, or at one of the moments of test_resume."""
PER_RUN = 5
"""Kills before a run is left to finish."""
FILES = ("weights.safetensors", "metrics.jsonl", "config.json")


def kills(count: int, root: Path, *, seed: int = 2024) -> pd.DataFrame:
    """Kill so many times; one row per run: its kills, and whether it ended as one left alone."""
    draw = random.Random(seed)
    whole = Store(root / "whole").train(config())
    names = {path.name for path in whole.path.iterdir()}
    rows: list[dict[str, object]] = []
    while (left := count - sum(int(str(row["kills"])) for row in rows)) > 0:
        store = Store(root / f"run-{len(rows)}")
        moments: list[str] = []
        for _ in range(min(PER_RUN, left)):
            moment = draw.choice(MOMENTS)
            code = _killed(moment, store.root, draw)
            if code == -signal.SIGKILL:
                moments.append(moment)
        done = store.train(config())
        same = all((done.path / f).read_bytes() == (whole.path / f).read_bytes() for f in FILES)
        rows.append(
            {
                "run": len(rows),
                "kills": len(moments),
                "moments": " ".join(moments),
                "equal": same and same_state(done.path, whole.path),
                "debris": len({path.name for path in done.path.iterdir()} - names),
            }
        )
    return pd.DataFrame(rows)


def _killed(moment: str, root: Path, draw: random.Random) -> int | None:
    """Train in a process of its own that dies at a moment; how it ended."""
    if moment != "any":
        return kill_at(moment, root, draw)
    child = children.start(children.train_slowly, root, config().model_dump_json())
    # The time is what is drawn here: whatever the process is doing by then.
    time.sleep(draw.uniform(0.0, 2.0))
    assert child.pid is not None
    if child.is_alive():
        os.kill(child.pid, signal.SIGKILL)
    child.join()
    return child.exitcode
