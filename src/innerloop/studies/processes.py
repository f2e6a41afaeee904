"""Jobs side by side, in processes of one thread each that may be killed, or left alone."""

import multiprocessing
import os
import signal
import sys
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager, suppress
from functools import partial
from importlib import import_module
from multiprocessing import connection
from multiprocessing.process import BaseProcess
from multiprocessing.queues import Queue
from queue import Empty
from typing import Any

import torch

from innerloop.core.errors import ConfigurationError
from innerloop.studies.board import Board, Job
from innerloop.studies.study import Study
from innerloop.studies.workers import STOPPED, Stop, Worker, in_words
from innerloop.training.config import RunConfig

_LOOK = 0.3
"""Seconds between two looks at how far the processes are."""


def side_by_side(
    board: Board, worker: Worker, workers: int, stop: Stop, look: Callable[[], None]
) -> Iterator[Job]:
    """Do the jobs of a board in so many processes; each that has ended."""
    processes, running = _Processes(worker, workers), dict[Future[str], Job]()
    halted = False
    try:
        while True:
            if stop():
                halted = True
                processes.halt()
            while not halted and (job := _next(board, running.values(), workers)) is not None:
                job.state = "running"
                running[processes.submit(job)] = job
            if not running:
                return
            ended = wait(running, timeout=_LOOK, return_when=FIRST_COMPLETED).done
            processes.hear(running.values())
            processes.notice_ends()
            if any(isinstance(future.exception(), BrokenProcessPool) for future in ended):
                # One process was killed, and the pool gives up all: each has one more chance.
                wait(running)
                ended = set(running)
                processes.close()
                processes = _Processes(worker, workers)
            over: list[Job] = []
            for future in ended:
                job = running.pop(future)
                error = _error_of(future, job)
                if error == STOPPED:
                    job.state = "waiting"
                else:
                    over += (job, *board.finish(job, error))
            look()
            yield from over
    finally:
        processes.close()


def _next(board: Board, running: Iterable[Job], workers: int) -> Job | None:
    """The job to begin now; one that has lost its process goes alone, and takes no other along."""
    running = list(running)
    lost = [job for job in board.jobs if job.lost and job.state == "waiting"]
    if lost:
        return None if running else lost[0]
    if len(running) == workers or any(job.lost for job in running):
        return None
    return board.next()


def _error_of(future: Future[str], job: Job) -> str:
    """What a job ended with; one that has lost its process for the first time is only stopped."""
    error = future.exception()
    if error is None:
        return future.result()
    if not isinstance(error, BrokenProcessPool):
        return in_words(error)
    if not job.lost:
        job.lost = True
        return STOPPED
    return (
        "its process was killed twice, the second time with no other beside it, perhaps for want "
        "of memory: the same command tries it again."
    )


class _Processes:
    """A pool, and how one talks with it; all new after a kill, which may leave locks held."""

    def __init__(self, worker: Worker, workers: int) -> None:
        # Not forked: torch's threads do not survive it.
        context = multiprocessing.get_context("spawn")
        self._reports: Queue[tuple[str, float, str]] = context.Queue()
        # Closing the one end says halt at the other. It needs no lock that a kill could leave held.
        self._halted, self._halt = context.Pipe(duplex=False)
        self._others = set(multiprocessing.active_children())
        self._started: set[BaseProcess] = set()
        self._pool = ProcessPoolExecutor(
            workers, context, _begin, (self._halted, self._reports, worker)
        )

    def submit(self, job: Job) -> Future[str]:
        """Begin a job; where that fails, the job has."""
        try:
            with _without_interrupts():
                if job.study is not None:
                    return self._pool.submit(_measure_there, *address(job.study))
                assert job.config is not None
                return self._pool.submit(_train_there, job.config.model_dump(mode="json"), job.name)
        except Exception as error:  # a process that was killed while it had nothing to do, say
            failed = Future[str]()
            failed.set_exception(error)
            return failed

    def hear(self, running: Iterable[Job]) -> None:
        """Take the reports of the processes since the last look."""
        jobs = {_key(job): job for job in running}
        with suppress(Empty):
            while True:
                key, share, what = self._reports.get_nowait()
                if key in jobs:
                    jobs[key].share, jobs[key].doing = share, what

    def notice_ends(self) -> None:
        """Let the pool see processes that have ended.

        Python's pool watches those that it had when it last began to wait: of one that was started
        since, it would not see the end. Whatever is submitted makes it look again.
        """
        self._started |= set(multiprocessing.active_children()) - self._others
        if any(process.exitcode is not None for process in self._started):
            with suppress(RuntimeError):  # it has seen it
                self._pool.submit(int)

    def halt(self) -> None:
        """Let all jobs be saved and end."""
        self._halt.close()

    def close(self) -> None:
        """Halt, and wait for it."""
        self.halt()
        self._pool.shutdown(wait=True, cancel_futures=True)
        self._halted.close()
        self._reports.close()


@contextmanager
def _without_interrupts() -> Iterator[None]:
    """Block Ctrl-C where signals can be blocked, which is not so on Windows.

    A process that is started meanwhile, and still imports when Ctrl-C comes, inherits the block.
    """
    if not hasattr(signal, "pthread_sigmask"):
        yield
        return
    blocked = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, blocked)


def _key(job: Job) -> str:
    return job.name if job.config is None else job.config.key()


def address(study: Study) -> tuple[str, str]:
    """The module and the name under which another process finds a study, or an error."""
    module = sys.modules.get(study.measure.__module__)
    # What was typed into a shell or a notebook is in no file that could be imported there.
    if module is not None and hasattr(module, "__file__"):
        for name, value in vars(module).items():
            if value is study:
                return module.__name__, name
    raise ConfigurationError(
        f"{study.name} cannot be measured in another process, as it is no variable of the module "
        "of its function: use workers=1, or define it at the top of a file."
    )


# From here on: in those processes.

_there: dict[str, Any] = {}
"""What a process was begun with."""
_stopping = threading.Event()
"""Whether the job that runs is to be saved and left."""
_training = threading.Lock()
"""Held as long as there is something to save."""


def _begin(
    halted: "connection.Connection", reports: "Queue[tuple[str, float, str]]", worker: Worker
) -> None:
    asked, ask = os.pipe()
    # Ctrl-C reaches every process of a terminal; these hear of it by the pipe, and save.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    # Not ignored: with it a pool ends its other processes where one was killed, and waits for them.
    signal.signal(signal.SIGTERM, lambda number, frame: os.write(ask, b".") and None)
    torch.set_num_threads(1)
    reports.cancel_join_thread()  # nobody waits for how far a job was
    _there.update(reports=reports, worker=worker)
    threading.Thread(target=_watch, args=(halted, asked), daemon=True).start()


def _watch(halted: "connection.Connection", asked: int) -> None:
    """Stop the job when the pool is halted; end the process where it is asked to, or left alone."""
    parent = multiprocessing.parent_process()
    assert parent is not None
    ends = [asked, parent.sentinel]
    connection.wait([halted, *ends])
    _stopping.set()
    connection.wait(ends)
    with _training:  # what is measured is written whole or not at all
        os._exit(1)


def _train_there(config: Mapping[str, Any], name: str) -> str:
    read = RunConfig.model_validate(config)
    worker: Worker = _there["worker"]
    with _training:
        return worker.train(read, name, partial(_say, read.key()), _stopping.is_set)


def _measure_there(module: str, name: str) -> str:
    study: Study = getattr(import_module(module), name)
    worker: Worker = _there["worker"]
    return worker.measure(study, partial(_say, study.name), _stopping.is_set)


def _say(key: str, share: float, what: str) -> None:
    _there["reports"].put((key, share, what))
