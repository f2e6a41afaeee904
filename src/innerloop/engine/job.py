"""A job: a piece of work that another process, or another machine, can do as well."""

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar, Literal, NamedTuple

from innerloop.core.errors import InnerloopError

Tell = Callable[[float, str], None]
"""Hears how far a job is, from 0 to 1, and what it is doing."""
Stop = Callable[[], bool]
"""Whether a job is to save what it has, and to leave."""


class Work(ABC):
    """What a job does. It is pickled on its way to another process of ours."""

    verb: ClassVar[str]
    """What somebody who watches reads before the job's name: `training`."""
    saves: ClassVar[bool] = False
    """Whether it saves what it has when `stop` says so; other work may be cut off anywhere."""

    @abstractmethod
    def do(self, tell: Tell, stop: Stop) -> bool:
        """Do the work; whether it is done: it is not where `stop` said so.

        Whatever it raises is the reason why the job has failed.
        """


class PortableWork(Work):
    """Work that a machine can do which does not see its files: they are carried to and fro."""

    @property
    @abstractmethod
    def home(self) -> Path:
        """The folder that holds its files."""

    @abstractmethod
    def within(self, home: Path) -> "PortableWork":
        """The same work, with its files in another folder."""

    @abstractmethod
    def pack(self) -> bytes:
        """Its files, as plain bytes; empty where there are none."""

    @abstractmethod
    def unpack(self, archive: bytes) -> None:
        """Put what `pack` has returned in the place of its files."""


class End(NamedTuple):
    """How an attempt at a job has ended."""

    fate: Literal["done", "failed", "stopped", "lost"]
    """`lost`: its process has gone without a word."""
    why: str = ""
    """The reason for a failure, in a sentence."""


@dataclass(slots=True, eq=False)
class Job:
    """A piece of work, and how far it is."""

    name: str
    work: Work
    minutes: float
    """What it is expected to take on one core."""
    needs: tuple["Job", ...] = ()
    """The jobs that must be done before."""
    early: bool = False
    """Whether it is begun before others that are ready, as somebody waits for its answer."""
    share: float = 0.0
    """How far it is."""
    before: float = 0.0
    """How far it was in the beginning: what an earlier command did took no time here."""
    doing: str = ""
    """What it is doing now."""
    state: Literal["waiting", "running", "done", "failed"] = "waiting"
    error: str = ""
    """Why it has failed."""
    lost: bool = False
    """Whether it has lost its process once: at the second time it has failed."""

    def __str__(self) -> str:
        """A line for the progress display."""
        return f"{self.work.verb} {self.name}" + (f": {self.doing}" if self.doing else "")


def attempt(do: Callable[[], bool]) -> End:
    """Do some work, which says whether it is done; what it raises is why it has failed."""
    try:
        return End("done" if do() else "stopped")
    except (Exception, SystemExit) as error:
        return End("failed", in_words(error))


def in_words(error: BaseException) -> str:
    """A sentence of ours as it is; anything else with its type."""
    return str(error) if isinstance(error, InnerloopError) else f"{type(error).__name__}: {error}"
