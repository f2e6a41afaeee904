"""Work that waits for the test's word, at the top of a file, which other processes find."""

import os
import signal
import time
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

import torch

from innerloop.core.errors import InnerloopError
from innerloop.engine.job import Job, Stop, Tell, Work
from innerloop.engine.trainings import Training


@dataclass(frozen=True, slots=True)
class Held(Training):
    """A run that waits after its first report until a file is there, or it is to stop."""

    word: Path = Path()

    def do(self, tell: Tell, stop: Stop) -> bool:
        def held(share: float, doing: str) -> None:
            tell(share, doing)
            while not self.word.exists() and not stop():
                time.sleep(0.01)

        return super(Held, self).do(held, stop)  # with slots, a plain super() finds no class


def hold(job: Job, word: Path) -> Job:
    """Let a run wait for a word."""
    work = job.work
    assert isinstance(work, Training)
    job.work = Held(work.config, work.name, work.store, work.fresh, work.may_diverge, word)
    return job


@dataclass(frozen=True, slots=True)
class Doing(Work):
    """One line into a file, and then an end of one of several kinds."""

    verb: ClassVar[str] = "doing"

    log: Path
    ending: str = "well"

    def do(self, tell: Tell, stop: Stop) -> bool:
        with self.log.open("a") as log:
            log.write(f"{os.getpid()}\n")
        match self.ending:
            case "killed":
                os.kill(os.getpid(), signal.SIGKILL)
            case "raises":
                raise InnerloopError("it cannot be done: do something else.")
            case "exits":
                os._exit(0)
        return True


@dataclass(frozen=True, slots=True)
class CountingThreads(Work):
    """Writes down how many threads it has."""

    verb: ClassVar[str] = "counting"

    log: Path

    def do(self, tell: Tell, stop: Stop) -> bool:
        self.log.write_text(str(torch.get_num_threads()))
        return True


class Unpicklable(Doing):
    """Work with a part that no other process finds."""

    def __reduce__(self) -> str:
        raise InnerloopError("it cannot leave this process: use workers=1.")


@dataclass(frozen=True, slots=True)
class Unreadable(Work):
    """Work that no other process can read."""

    verb: ClassVar[str] = "reading"

    def do(self, tell: Tell, stop: Stop) -> bool:
        return True

    def __reduce__(self) -> tuple[object, ...]:
        return _refuse, ()


def _refuse() -> Work:
    raise ModuleNotFoundError("No module named 'elsewhere'")
