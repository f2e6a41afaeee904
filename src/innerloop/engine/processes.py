"""Jobs side by side, in processes of one thread each that may be killed, or left alone.

Each process has two pipes of its own, and no lock is shared: whoever is killed takes nobody along.
"""

import multiprocessing
import os
import pickle
import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext, suppress
from functools import partial
from multiprocessing import connection
from queue import SimpleQueue
from typing import Any

import torch

from innerloop.engine.job import End, Job, Work, attempt
from innerloop.engine.workers import Workers

_LOOK = 0.3
"""Seconds between two looks at how far the processes are, at the most."""
_TELL = 0.1
"""Seconds between two reports of a process, at the least: steps may be far shorter."""


class Processes(Workers):
    """So many processes, each started when there is a job for it, and again where it was killed."""

    def __init__(self, number: int) -> None:
        """No process is started yet."""
        self.number = number
        self._all: list[_Process] = []

    def begin(self, job: Job) -> None:
        """Give the job to a process that has none, or to a new one."""
        order = pickle.dumps(job.work)
        idle = next((process for process in self._all if process.job is None), None)
        if idle is None:
            self._all.append(idle := _Process())
        idle.begin(job, order)

    def wait(self, look: Callable[[], None]) -> list[tuple[Job, End]]:
        """Wait until a process says something or ends, or it is time to look at all of them."""
        connection.wait([sign for process in self._all for sign in process.signs], _LOOK)
        ended: list[tuple[Job, End]] = []
        for process in [*self._all]:
            ended += process.hear()
            if process.gone:
                self._all.remove(process)
        return ended

    def halt(self) -> None:
        """Close the pipes of orders, which the processes notice."""
        for process in self._all:
            process.orders.close()

    def close(self) -> None:
        """Halt, and wait for the processes; what they still say, nobody hears."""
        self.halt()
        for process in self._all:
            process.close()
        self._all.clear()


class _Process:
    """A process of ours, seen from the parent."""

    def __init__(self) -> None:
        # Not forked: torch's threads do not survive it.
        context = multiprocessing.get_context("spawn")
        orders, self.orders = context.Pipe(duplex=False)
        self.reports, reports = context.Pipe(duplex=False)
        self._process = context.Process(target=serve, args=(orders, reports))
        with _without_interrupts():
            self._process.start()
        # The process alone holds these ends: they are closed as soon as it has gone.
        orders.close()
        reports.close()
        self.job: Job | None = None
        self.gone = False

    @property
    def signs(self) -> tuple[Any, int]:
        """What `connection.wait` waits for."""
        return self.reports, self._process.sentinel

    def begin(self, job: Job, order: bytes) -> None:
        """Send an order; a process that is dying does not take it, and is heard of later."""
        self.job = job
        with suppress(OSError):
            self.orders.send_bytes(order)

    def hear(self) -> Iterator[tuple[Job, End]]:
        """Take what the process has said; its job and how that ended, where it has."""
        # Asked before: what it has said until then is in the pipe.
        self.gone = not self._process.is_alive()
        try:
            while self.reports.poll():
                said = self.reports.recv()
                if self.job is None:
                    continue
                if isinstance(said, End):
                    yield self.job, said
                    self.job = None
                else:
                    self.job.share, self.job.doing = said
        except (EOFError, OSError):  # it was killed, perhaps in the middle of a word
            self.gone = True
        if self.gone:
            if self.job is not None:
                yield self.job, End("lost")
            self.close()

    def close(self) -> None:
        """Wait for the end of the process."""
        self.orders.close()
        with suppress(EOFError, OSError):  # it has closed its end
            while self._process.is_alive():
                connection.wait(self.signs)
                while self.reports.poll():  # a full pipe would hold it up
                    self.reports.recv_bytes()
        self._process.join()
        self.reports.close()
        self._process.close()


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


# From here on: in those processes.


def serve(orders: "connection.Connection", reports: "connection.Connection") -> None:
    """Do one job after the other as they are ordered, until there are no more."""
    server = _Server(orders, reports)
    # Ctrl-C reaches every process of a terminal; these hear of it from the parent.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    for name in ("SIGTERM", "SIGHUP"):  # there is no SIGHUP on Windows
        if hasattr(signal, name):
            # In a thread: the lock may be held by what the signal has interrupted.
            signal.signal(getattr(signal, name), lambda *_: _begin_thread(server.leave))
    torch.set_num_threads(1)
    server.serve()


def _begin_thread(target: Callable[[], None]) -> None:
    threading.Thread(target=target, daemon=True).start()


class _Server:
    """What a process does between its two pipes."""

    def __init__(self, orders: "connection.Connection", reports: "connection.Connection") -> None:
        self._orders, self._reports = orders, reports
        self._waiting: SimpleQueue[bytes | None] = SimpleQueue()
        self._stopping = threading.Event()
        self._saving = threading.Lock()
        """Held as long as there is something to save."""
        self._told = 0.0

    def serve(self) -> None:
        """Do the jobs that are ordered, until there are no more orders."""
        _begin_thread(self._listen)
        while (order := self._waiting.get()) is not None:
            self._say(attempt(partial(self._do, order)))

    def leave(self) -> None:
        """End the process, as soon as what can be saved is saved."""
        self._stopping.set()
        with self._saving:
            os._exit(1)

    def _listen(self) -> None:
        """Take orders; stop the job when there are no more, and leave where the parent is gone."""
        with suppress(EOFError, OSError):
            while True:
                self._waiting.put(self._orders.recv_bytes())
        self._stopping.set()
        self._waiting.put(None)
        parent = multiprocessing.parent_process()
        assert parent is not None
        connection.wait([parent.sentinel])
        self.leave()

    def _do(self, order: bytes) -> bool:
        work: Work = pickle.loads(order)  # of our parent, and of nobody else
        with self._saving if work.saves else nullcontext():
            return work.do(self._tell, self._stopping.is_set)

    def _tell(self, share: float, doing: str) -> None:
        if time.monotonic() - self._told > _TELL:
            self._told = time.monotonic()
            self._say((share, doing))

    def _say(self, what: End | tuple[float, str]) -> None:
        with suppress(OSError):  # where the parent is gone, the listener sees to it
            self._reports.send(what)
