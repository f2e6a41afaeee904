"""Steps of a run by two processes with one thread each, against one process with two threads.

Both train the same recipe at the laptop size, in turns of a few steps; what is compared is the
time of a step, without that of starting. Where the cores are not free, see the ratio by processor
time in the row's name: that of a whole process against that of the main thread of the other, which
is busy at every moment of a step. Set GOMP_SPINCOUNT=0 for it, so that waiting costs no time.
"""

import multiprocessing
import os
import socket
import statistics
import time
from multiprocessing.connection import Connection

import torch

from benchmarks.timing import Row
from innerloop.training.distributed import Processes, joined
from innerloop.training.recipes import find_recipe
from innerloop.training.trainer import Trainer

RECIPE = "looped-linear"
TURNS, STEPS = 7, 5
TARGET = 0.8
"""Of the throughput of one process with two threads."""


def run() -> list[Row]:
    """Let both take a few steps in turns, after as many to warm up."""
    pair, alone = _start(2, threads=1), _start(1, threads=2)
    turns = [(_turn(pair), _turn(alone)) for _ in range(TURNS + 1)][1:]
    for end in (*pair, *alone):
        end.send(None)
    ours, plain = (statistics.median(turn[side][0] for turn in turns) for side in (0, 1))
    busy = sorted(theirs[1] / mine[1] for mine, theirs in turns)
    name = (
        f"{RECIPE}: a step by 2 processes with 1 thread, against 1 with 2 (by processor time "
        f"{statistics.median(busy):.2f}x, {busy[0]:.2f}x to {busy[-1]:.2f}x in {TURNS} turns)"
    )
    return [Row(name=name, ours=ours, plain=plain, target=TARGET)]


def _start(number: int, threads: int) -> list[Connection]:
    """Processes that train the recipe together, each with the end of a pipe that makes it go on."""
    context = multiprocessing.get_context("spawn")
    port, ends = _free_port(), []
    for rank in range(number):
        here, there = context.Pipe()
        arguments = (number, rank, threads, port, there)
        context.Process(target=_train, args=arguments, daemon=True).start()
        ends.append(here)
    return ends


def _turn(ends: list[Connection]) -> tuple[float, float]:
    """Seconds of a step, and of a processor: those of the slowest process."""
    for end in ends:
        end.send(STEPS)
    times = [end.recv() for end in ends]
    return max(wall for wall, _ in times) / STEPS, max(busy for _, busy in times) / STEPS


def _train(number: int, rank: int, threads: int, port: int, there: Connection) -> None:
    torch.set_num_threads(threads)
    os.environ |= {
        "RANK": str(rank), "WORLD_SIZE": str(number),
        "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port),
    }  # fmt: skip
    with joined() as processes:
        _serve(processes, there)


def _serve(processes: Processes, there: Connection) -> None:
    """Take as many steps as asked for, again and again, from the middle of a run on."""
    config = find_recipe(RECIPE, "laptop")
    trainer = Trainer(config, processes)
    trainer.step = config.steps // 2
    clock = time.thread_time if processes.number == 1 else time.process_time
    while (steps := there.recv()) is not None:
        start, busy = time.perf_counter(), clock()
        for _ in range(steps):
            processes.any(False)  # as a run asks whether it is to stop
            trainer.take_step()
        there.send((time.perf_counter() - start, clock() - busy))


def _free_port() -> int:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        return taken.getsockname()[1]
