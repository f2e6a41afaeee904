"""Where jobs are done; in this process, one after the other, to begin with."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import torch

from innerloop.engine.job import End, Job, Stop, attempt


class Workers(ABC):
    """Where jobs are done."""

    number: int
    """How many jobs can be done at a time."""

    @abstractmethod
    def begin(self, job: Job) -> None:
        """Begin a job; fewer than `number` are running. What it raises is why the job failed."""

    @abstractmethod
    def wait(self, look: Callable[[], None]) -> list[tuple[Job, End]]:
        """Wait for a moment; the jobs that have ended, and how. Others say how far they are.

        `look` shows that to whoever watches, where the moment is a long one.
        """

    @abstractmethod
    def halt(self) -> None:
        """Let all jobs save what they have and end; it may be called twice."""

    @abstractmethod
    def close(self) -> None:
        """Halt, and wait until nothing runs."""


class Here(Workers):
    """The process itself, for one job after the other, on one thread as everywhere else."""

    number = 1

    def __init__(self, stop: Stop) -> None:
        """`stop` is what the jobs ask."""
        self._stop = stop
        self._job: Job | None = None

    def begin(self, job: Job) -> None:
        """Keep it: it is done while somebody waits."""
        self._job = job

    def wait(self, look: Callable[[], None]) -> list[tuple[Job, End]]:
        """Do it, to its end."""
        job, self._job = self._job, None
        if job is None:
            return []

        def tell(share: float, doing: str) -> None:
            job.share, job.doing = share, doing
            look()

        with _one_thread():
            return [(job, attempt(lambda: job.work.do(tell, self._stop)))]

    def halt(self) -> None:
        """Nothing: the job asks by itself."""

    def close(self) -> None:
        """Nothing: between two calls nothing runs."""


@contextmanager
def _one_thread() -> Iterator[None]:
    """The number of threads changes the bits of a run: they must not depend on the workers."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)
