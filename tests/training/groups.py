"""Processes that train one run together, as torchrun starts them, and how each of them ended."""

import os
import signal
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch.distributed import TCPStore  # pyright: ignore[reportPrivateImportUsage]

from innerloop.cli.main import main
from innerloop.core.prompt import Prompt
from innerloop.tasks.linear import LinearRegression
from innerloop.training import train as train_module
from innerloop.training.config import RunConfig
from innerloop.training.distributed import Processes, joined
from innerloop.training.interrupt import interruptible
from innerloop.training.store import Store
from innerloop.training.trainer import Trainer
from tests.training import children

LONGEST = 120.0
"""Seconds after which processes are taken to wait for each other: none of these takes ten."""


class Uneven(LinearRegression):
    """Linear functions, of which a prompt asks for some points only: the first ones for few."""

    def draw(self, batch: int, points: int, generator: torch.Generator) -> Prompt:
        prompt = super().draw(batch, points, generator)
        asked = torch.arange(batch)[:, None] * points // batch  # (B, 1)
        scored = torch.arange(points) <= asked  # (B, n)
        return Prompt(xs=prompt.xs, ys=prompt.ys, scored=scored)


@dataclass(frozen=True)
class Ended:
    """How a process ended."""

    code: int | None
    said: str
    """What it has written on either stream."""


def together(
    number: int, folder: Path, target: Callable[..., None], *arguments: Any
) -> list[Ended]:
    """Run a function of this module in so many processes that know each other."""
    # As torchrun does, the parent keeps the store: it outlives each of them, and its port is free.
    store = TCPStore("127.0.0.1", 0, is_master=True, wait_for_workers=False)
    folder.mkdir(parents=True, exist_ok=True)
    places = [folder / f"said-by-{rank}.txt" for rank in range(number)]
    group = [
        children.start(_as_one, store.port, number, rank, place, target, *arguments)
        for rank, place in enumerate(places)
    ]
    for process in group:
        process.join(LONGEST)
    waiting = [process for process in group if process.is_alive()]
    for process in waiting:
        process.kill()
    assert not waiting, "processes wait for each other for ever"
    return [
        Ended(process.exitcode, place.read_text())
        for process, place in zip(group, places, strict=True)
    ]


def _as_one(
    port: int, number: int, rank: int, place: Path, target: Callable[..., None], *arguments: Any
) -> None:
    os.environ |= {
        "RANK": str(rank), "WORLD_SIZE": str(number), "LOCAL_RANK": str(rank),
        "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port),
        "TORCHELASTIC_USE_AGENT_STORE": "True", "TORCHELASTIC_RESTART_COUNT": "0",
    }  # fmt: skip
    with place.open("w") as file:
        os.dup2(file.fileno(), 1)
        os.dup2(file.fileno(), 2)
    torch.set_num_threads(1)
    target(*arguments)


def train(root: Path, text: str) -> None:
    """Train a configuration to its end."""
    _train(root, text, lambda processes, step: None)


def train_and_lose(root: Path, text: str, rank: int, step: int) -> None:
    """Train a configuration; one process dies before a step."""

    def lose(processes: Processes, now: int) -> None:
        if (processes.rank, now) == (rank, step):
            children.die()

    _train(root, text, lose)


def train_and_terminate(root: Path, text: str, rank: int, step: int) -> None:
    """Train a configuration; one process is asked to end before a step."""

    def terminate(processes: Processes, now: int) -> None:
        if (processes.rank, now) == (rank, step):
            os.kill(os.getpid(), signal.SIGTERM)

    _train(root, text, terminate)


def train_and_drift(root: Path, text: str, rank: int, step: int) -> None:
    """Train a configuration; the weights of one process change by a rounding before a step."""
    plain = Trainer.take_step

    def take_step(self: Trainer) -> Any:
        if (self.processes.rank, self.step) == (rank, step):
            with torch.no_grad():
                next(self.model.parameters()).mul_(1 + 1e-6)
        return plain(self)

    train_module.Trainer.take_step = take_step
    _train(root, text, lambda processes, step: None)


def train_others(root: Path, *texts: str) -> None:
    """Train, in each process, a configuration of its own."""
    _train(root, texts[int(os.environ["RANK"])], lambda processes, step: None)


def command(*words: str) -> None:
    """Run the command line."""
    main(list(words))


def _train(root: Path, text: str, before: Callable[[Processes, int], None]) -> None:
    """Train; `before` is called before every step, counted from this start."""
    step = 0
    with interruptible() as interruption, joined() as processes:

        def stop() -> bool:
            nonlocal step
            before(processes, step)
            step += 1
            return interruption()

        # Each looks into a place of its own, in which the others find nothing.
        folder = root if processes.first else root / f"of-{processes.rank}"
        config = RunConfig.model_validate_json(text)
        Store(folder).train(config, stop=stop, processes=processes)
    sys.exit(interruption.exit_code)
