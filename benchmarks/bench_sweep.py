"""A sweep of 16 small runs: two processes side by side, against one run after the other.

By the clock, with the time that processes take to start: a sweep is for people who wait. It means
something on two free cores only.
"""

import tempfile
import time
from pathlib import Path

from benchmarks.timing import Row
from innerloop.engine.sweep import make_sweep
from innerloop.training.recipes import find_recipe
from innerloop.training.store import Store

RECIPE, STEPS = "looped-linear", 100
GRID = ("task.noise=0,0.1,0.3,0.5", f"steps={STEPS}")
SEEDS = range(4)
TARGET = 1.8
LONG = True


def run() -> list[Row]:
    """Train the grid twice, each time in a store of its own."""
    alone, pair = (_seconds(workers) for workers in (1, 2))
    name = f"{RECIPE}: a sweep of 16 runs of {STEPS} steps by 2 processes, against one by one"
    return [Row(name=name, ours=pair, plain=alone, target=TARGET)]


def _seconds(workers: int) -> float:
    with tempfile.TemporaryDirectory() as folder:
        base = find_recipe(RECIPE, "laptop")
        sweep = make_sweep(RECIPE, base, GRID, seeds=SEEDS, store=Store(Path(folder)))
        start = time.perf_counter()
        table = sweep.run(workers=workers)
        seconds = time.perf_counter() - start
    if list(table["state"]) != ["finished"] * 16:
        raise RuntimeError(f"not all of the 16 runs were trained:\n{table}")
    return seconds
