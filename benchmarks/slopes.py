"""How the cost of a training step grows with each size: `python -m benchmarks.slopes`.

Processor time of one thread, the smallest of a few, all sizes in turns, so that other work on the
machine disturbs all alike. A slope of 2 means that twice the size costs four times as much. Beside
it stands the slope of the operations that the model counts.
"""

import math
import time
from collections.abc import Sequence

import torch
from rich.console import Console
from rich.table import Table

from innerloop.training.config import RunConfig
from innerloop.training.estimate import step_cost
from innerloop.training.trainer import Trainer

BASE = {"d": 10, "n": 21, "width": 64, "loops": 12}
SIZES = {
    "d": (5, 10, 20, 40), "n": (11, 21, 41, 81), "width": (32, 64, 128, 256),
    "loops": (6, 12, 24, 48),
}  # fmt: skip
REPEATS = 4


def config(d: int, n: int, width: int, loops: int) -> RunConfig:
    """A looped transformer on linear functions; the loss counts all loops."""
    backbone = {"kind": "loop", "width": width, "heads": 4, "loops": loops}
    return RunConfig.model_validate(
        {
            "task": {"name": "linear", "dims": d}, "points": n, "batch": 16,
            "model": {"backbone": backbone},
        }
    )  # fmt: skip


def slope(sizes: Sequence[float], costs: Sequence[float]) -> float:
    """The slope of the line through the logarithms of sizes and costs, by least squares."""
    xs, ys = ([math.log(each) for each in values] for values in (sizes, costs))
    x, y = sum(xs) / len(xs), sum(ys) / len(ys)
    above = sum((a - x) * (b - y) for a, b in zip(xs, ys, strict=True))
    return above / sum((a - x) ** 2 for a in xs)


def main() -> None:
    """Print a row per size."""
    torch.set_num_threads(1)
    trainers = {
        (name, size): Trainer(config(**{**BASE, name: size}))
        for name, sizes in SIZES.items()
        for size in sizes
    }
    seconds = dict.fromkeys(trainers, math.inf)
    for _ in range(1 + REPEATS):  # the first warms up, and is never the smallest
        for place, trainer in trainers.items():
            start = time.process_time()
            trainer.take_step()
            seconds[place] = min(seconds[place], time.process_time() - start)
    table = Table("size", "from, to", "step, from and to", "slope", "last slope", "of operations")
    for name, sizes in SIZES.items():
        times = [seconds[name, size] for size in sizes]
        counted = [step_cost(trainers[name, size].config, 0) for size in sizes]
        table.add_row(
            name, f"{sizes[0]}, {sizes[-1]}", f"{times[0] * 1e3:.0f} ms, {times[-1] * 1e3:.0f} ms",
            f"{slope(sizes, times):.2f}", f"{slope(sizes[-2:], times[-2:]):.2f}",
            f"{slope(sizes, counted):.2f}",
        )  # fmt: skip
    Console().print(table)


if __name__ == "__main__":
    main()
