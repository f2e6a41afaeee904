"""Jobs in this process, or side by side in processes of one thread each."""

import multiprocessing
import signal
import traceback
from collections.abc import Callable, Iterator
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from contextlib import suppress
from functools import partial
from multiprocessing.queues import Queue
from multiprocessing.synchronize import Event
from pathlib import Path
from queue import Empty
from typing import Any

import torch

from innerloop.core.errors import InnerloopError
from innerloop.core.files import write_atomically
from innerloop.studies.board import Board, Job
from innerloop.studies.lab import StoppedError
from innerloop.studies.result import place
from innerloop.studies.study import Study
from innerloop.studies.work import measure
from innerloop.training.config import RunConfig
from innerloop.training.families import Scale
from innerloop.training.store import Store
from innerloop.training.train import Report

Tell = Callable[[float, str], None]
"""Hears how far a job is, and what it is doing."""
Stop = Callable[[], bool]

STOPPED = "stopped"
"""The error of a job that somebody has interrupted."""
ERROR = "error.txt"
_LOOK = 0.3
"""Seconds between two looks at how far the processes are."""


class Worker:
    """Where runs and results are, and how jobs are done there."""

    def __init__(self, *, scale: Scale, seeds: int, store: Store, results: Path) -> None:
        """The same for all jobs of a reproduction."""
        self.scale: Scale = scale
        self.seeds, self.store, self.results = seeds, store, results

    def train(self, config: RunConfig, name: str, tell: Tell, stop: Stop) -> str:
        """Train a run to its end; what went wrong, or nothing."""

        def report(now: Report) -> None:
            tell(now.step / now.steps, "")

        try:
            run = self.store.train(config, name=name, report=report, stop=stop)
        except InnerloopError as error:
            return str(error)
        except (RuntimeError, MemoryError, OSError) as error:
            return f"{type(error).__name__}: {error}"
        return "" if run.finished else STOPPED

    def measure(self, study: Study, tell: Tell, stop: Stop) -> str:
        """Measure a study and write its results; what went wrong, or nothing.

        A study is a user's own code: whatever it raises is written down, and the others go on.
        """
        try:
            measure(
                study, scale=self.scale, seeds=self.seeds, store=self.store, results=self.results,
                tell=lambda what: tell(0.5, what), stop=stop,
            )  # fmt: skip
        except StoppedError:
            return STOPPED
        except InnerloopError as error:
            return str(error)
        except Exception as error:
            file = place(self.results, study, self.scale) / ERROR
            text = traceback.format_exc()
            write_atomically(file, lambda path: path.write_text(text))
            return f"{type(error).__name__}: {error} (see {file})"
        return ""


def in_turn(board: Board, worker: Worker, stop: Stop, look: Callable[[], None]) -> Iterator[Job]:
    """Do the jobs of a board one after the other in this process; each that has ended."""
    while not stop() and (job := board.next()) is not None:
        job.state = "running"
        look()

        def tell(share: float, what: str, job: Job = job) -> None:
            job.share, job.told = share, what
            look()

        if job.study is not None:
            error = worker.measure(job.study, tell, stop)
        else:
            assert job.config is not None
            error = worker.train(job.config, job.name, tell, stop)
        if error == STOPPED:
            job.state = "waiting"
            return
        fallen = board.finish(job, error)
        look()
        yield from (job, *fallen)


def side_by_side(
    board: Board, worker: Worker, workers: int, stop: Stop, look: Callable[[], None]
) -> Iterator[Job]:
    """Do the jobs of a board in so many processes; each that has ended, or lost its process."""
    # Not forked: torch's threads do not survive it.
    context = multiprocessing.get_context("spawn")
    halt, told = context.Event(), context.Queue()

    def open_pool() -> ProcessPoolExecutor:
        return ProcessPoolExecutor(workers, context, _begin, (halt, told, worker))

    pool, running = open_pool(), dict[Future[str], Job]()
    try:
        while True:
            if stop():
                halt.set()
            while not halt.is_set() and len(running) < workers and (job := board.next()):
                job.state = "running"
                running[_submit(pool, job)] = job
            if not running:
                return
            ended = wait(running, timeout=_LOOK, return_when=FIRST_COMPLETED).done
            _hear(told, running.values())
            look()
            if any(isinstance(future.exception(), BrokenProcessPool) for future in ended):
                # One process was killed, and the pool gives up all: each has one more chance.
                wait(running)
                ended = set(running)
                pool.shutdown(wait=True)
                pool = open_pool()
            for future in ended:
                job = running.pop(future)
                error = _error_of(future, job)
                if error == STOPPED:
                    job.state = "waiting"
                else:
                    yield from (job, *board.finish(job, error))
    finally:
        halt.set()
        pool.shutdown(wait=True, cancel_futures=True)
        told.close()


def _submit(pool: ProcessPoolExecutor, job: Job) -> Future[str]:
    # A process that is started now, and still imports when Ctrl-C comes, inherits the block.
    blocked = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        if job.study is not None:
            return pool.submit(_measure_there, job.study.name)
        assert job.config is not None
        return pool.submit(_train_there, job.config.model_dump(mode="json"), job.name)
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, blocked)


def _error_of(future: Future[str], job: Job) -> str:
    """What a job ended with; one that has lost its process for the first time is only stopped."""
    if not isinstance(future.exception(), BrokenProcessPool):
        return future.result()
    if not job.lost:
        job.lost = True
        return STOPPED
    return (
        "its process was killed twice, perhaps for want of memory: the same command goes on, take "
        "fewer --workers."
    )


def _hear(told: "Queue[tuple[str, float, str]]", running: Any) -> None:
    """Take what the processes have said since the last look."""
    jobs = {_key(job): job for job in running}
    with suppress(Empty):
        while True:
            key, share, what = told.get_nowait()
            if key in jobs:
                jobs[key].share, jobs[key].told = share, what


def _key(job: Job) -> str:
    return job.name if job.config is None else job.config.key()


_there: dict[str, Any] = {}
"""What a process was begun with."""


def _begin(halt: Event, told: "Queue[tuple[str, float, str]]", worker: Worker) -> None:
    # Ctrl-C reaches every process of a terminal; these are told by the event, and save.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    torch.set_num_threads(1)
    _there.update(halt=halt, told=told, worker=worker)


def _train_there(config: dict[str, Any], name: str) -> str:
    read = RunConfig.model_validate(config)
    worker: Worker = _there["worker"]
    return worker.train(read, name, partial(_say, read.key()), _there["halt"].is_set)


def _measure_there(name: str) -> str:
    from innerloop.studies.table import find_studies  # the table imports all studies

    (study,) = find_studies(name)
    worker: Worker = _there["worker"]
    return worker.measure(study, partial(_say, name), _there["halt"].is_set)


def _say(key: str, share: float, what: str) -> None:
    _there["told"].put((key, share, what))
