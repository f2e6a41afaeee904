"""Processes that train and are killed: forked from a server that has torch loaded already."""

import json
import multiprocessing
import os
import signal
import time
from collections.abc import Callable
from multiprocessing.connection import Connection
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any

import torch

from innerloop.core import files
from innerloop.core.errors import InnerloopError
from innerloop.training import state_file
from innerloop.training.config import RunConfig
from innerloop.training.lock import locked
from innerloop.training.store import Store
from innerloop.training.train import _Session

# Not a fork of the test's own process, whose torch may have threads.
_context = multiprocessing.get_context("forkserver")


def start(target: Callable[..., None], *arguments: Any) -> BaseProcess:
    """Run a function of this module in a process of its own."""
    # Optimisers import the compiler when they are made.
    _context.set_forkserver_preload(["innerloop.training.store", "torch._dynamo"])
    process = _context.Process(target=target, args=arguments)
    process.start()
    return process


def hold_lock(folder: Path) -> tuple[BaseProcess, Connection]:
    """A process that holds the lock of a folder until it is killed, and an end that hears of it."""
    here, there = _context.Pipe(duplex=False)
    return start(_hold_lock, folder, there), here


def _hold_lock(folder: Path, there: Connection) -> None:
    with locked(folder):
        there.send(True)
        signal.pause()


def die() -> None:
    """End at once, as by `kill -9`."""
    os.kill(os.getpid(), signal.SIGKILL)


def train_slowly(root: Path, text: str) -> None:
    """Train a configuration, slowly enough that a kill finds it at work."""
    torch.set_num_threads(1)

    def stop() -> bool:
        time.sleep(0.03)
        return False

    Store(root).train(RunConfig.model_validate_json(text), stop=stop)


def train_and_die_before_step(root: Path, text: str, steps: int) -> None:
    """Train a configuration, and die after so many steps."""
    torch.set_num_threads(1)
    asked = iter(range(steps))

    def stop() -> bool:
        if next(asked, None) is None:
            die()
        return False

    Store(root).train(RunConfig.model_validate_json(text), stop=stop)


def train_and_die_writing(root: Path, text: str, checkpoint: int, begun: bool) -> None:
    """Train a configuration, and die in the middle of writing its n-th state, or just before.

    The weights are written by then.
    """
    torch.set_num_threads(1)
    die_writing(checkpoint, begun, die)
    Store(root).train(RunConfig.model_validate_json(text))


def die_writing(checkpoint: int, begun: bool, die: Callable[[], None]) -> None:
    """Let this process die in the middle of writing its n-th state, or just before."""
    written = iter(range(checkpoint))
    whole = files.write_atomically

    def write(path: Path, fill: Callable[[Path], object]) -> Path:
        def half(temporary: Path) -> None:
            fill(temporary)
            os.truncate(temporary, temporary.stat().st_size // 2)
            die()

        if path.name != "state.pt" or next(written, None) is not None:
            return whole(path, fill)
        if not begun:
            die()
        return whole(path, half)

    state_file.write_atomically = write


def train_and_die_in_a_line(root: Path, text: str, line: int) -> None:
    """Train a configuration, and die in the middle of writing its n-th line of metrics."""
    torch.set_num_threads(1)
    written = iter(range(line))
    whole = _Session.write

    def write(self: _Session, row: dict[str, Any]) -> None:
        if next(written, None) is None:
            assert self.metrics is not None
            self.metrics.write(json.dumps(row)[:9].encode())
            self.metrics.flush()
            die()
        whole(self, row)

    _Session.write = write
    Store(root).train(RunConfig.model_validate_json(text))


def train_with_small_files(root: Path, text: str, most: int, there: Connection) -> None:
    """Train a configuration where no file may have more bytes than this; say how it ended."""
    import resource  # which Windows has not

    torch.set_num_threads(1)
    resource.setrlimit(resource.RLIMIT_FSIZE, (most, most))
    try:
        Store(root).train(RunConfig.model_validate_json(text))
        there.send("finished")
    except InnerloopError as error:
        there.send(str(error))


def ending_with_small_files(root: Path, text: str, most: int) -> str:
    """How a training in a process of its own ends where files may have so many bytes."""
    here, there = _context.Pipe(duplex=False)
    child = start(train_with_small_files, root, text, most, there)
    there.close()  # or nobody hears of a child that dies without a word
    try:
        return str(here.recv())
    finally:
        child.join()


def run_command(words: list[str]) -> None:
    """Run the command line."""
    from innerloop.cli.main import main  # the other children need none of the command line

    torch.set_num_threads(1)
    main(words)
