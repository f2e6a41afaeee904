"""Jobs on a Ray cluster, whose nodes may go, and need not see each other's files."""

import logging
import os
import pickle
import secrets
import signal
import socket
import threading
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

from pydantic import Field

from innerloop.core.config import Config
from innerloop.core.errors import ConfigurationError, InnerloopError
from innerloop.core.extras import import_extra
from innerloop.core.files import write_atomically
from innerloop.data.folder import VARIABLE as DATA
from innerloop.engine.job import End, Job, PortableWork, Work, in_words
from innerloop.engine.node import LOOK, Mailbox, Order, carry_out, read_end, versions
from innerloop.engine.workers import Workers

_PATIENCE = 10.0
"""Seconds in which the head of a cluster must answer."""


class RayCluster(Config):
    """A cluster that exists, and what a run may have of it."""

    address: str = "auto"
    """Of its head, as `host:6379`; `auto`: $RAY_ADDRESS, or the one that this machine is part of.
    """
    cpus_per_run: float = Field(default=1.0, gt=0)
    """A run has as many threads, and one at the least: their number changes the bits of a run."""
    gpus_per_run: float = Field(default=0.0, ge=0)
    retries: int = Field(default=3, ge=0)
    """How often Ray begins a job again whose node or process has gone."""


class OnRay(Workers):
    """The nodes of a cluster, of which this machine is one."""

    def __init__(self, cluster: RayCluster) -> None:
        """Connect to the cluster."""
        self._ray = import_extra("ray", "ray", "a cluster")
        self._cluster = cluster
        self._ours = _connect(self._ray, cluster.address)
        try:
            self.number = self._room()
        except ConfigurationError:
            self._leave()
            raise
        strategies = import_extra("ray.util.scheduling_strategies", "ray", "a cluster")
        node: str = self._ray.get_runtime_context().get_node_id()
        self._on_this_node = strategies.NodeAffinitySchedulingStrategy(node, soft=False)
        self._mailbox = (
            self._ray.remote(Mailbox)
            .options(num_cpus=0, scheduling_strategy=self._on_this_node)
            .remote()
        )
        self._running: dict[Any, _Attempt] = {}
        """By the reference of its end."""
        self._signs: dict[Path, str] = {}
        self._begun = 0

    def _room(self) -> int:
        """The runs that fit on the nodes, and one more: a cluster that can grow sees it wait."""
        wanted = {"CPU": self._cluster.cpus_per_run, "GPU": self._cluster.gpus_per_run}
        fits = [
            min(int(node["Resources"].get(kind, 0) / much) for kind, much in wanted.items() if much)
            for node in self._ray.nodes()
            if node["Alive"]
        ]
        if not any(fits):
            raise ConfigurationError(
                f"no node of the cluster has {wanted['CPU']:g} CPUs and {wanted['GPU']:g} GPUs for "
                "a run: ask for fewer."
            )
        return sum(fits) + 1

    def begin(self, job: Job) -> None:
        """Submit it; Ray chooses the node, unless the job is tied to files of this one."""
        order = self._order(job.work)
        task = self._ray.remote(carry_out).options(
            num_returns=2,
            max_retries=self._cluster.retries,
            num_cpus=self._cluster.cpus_per_run,
            num_gpus=self._cluster.gpus_per_run,
            scheduling_strategy="DEFAULT" if order.sign else self._on_this_node,
        )
        end, files = task.remote(order, self._mailbox)
        job.doing = "queued"
        self._running[end] = _Attempt(job, order, files)

    def _order(self, work: Work) -> Order:
        sign, files = None, b""
        if isinstance(work, PortableWork):
            work = work.within(work.home.absolute())
            sign, files = self._sign(work.home), work.pack()
        self._begun += 1
        return Order(
            number=self._begun,
            work=pickle.dumps(work),
            sign=sign,
            files=(self._ray.put(files),) if files else (),
            threads=max(1, int(self._cluster.cpus_per_run)),
            versions=versions(),
            folder=os.getcwd(),
            environment={name: os.environ[name] for name in (DATA,) if name in os.environ},
        )

    def _sign(self, home: Path) -> tuple[Path, str]:
        """A file by which a node knows that it sees the same folder, and what the file says."""
        if home not in self._signs:
            self._signs[home] = secrets.token_hex(16)
            text = self._signs[home]
            write_atomically(_sign_in(home, text), lambda file: file.write_text(text))
        return _sign_in(home, self._signs[home]), self._signs[home]

    def wait(self, look: Callable[[], None]) -> list[tuple[Job, End]]:
        """Wait until a job ends, or it is time to look at all of them."""
        self._ray.wait([*self._running], timeout=LOOK)
        known = {attempt.order.number: attempt.job for attempt in self._running.values()}
        for number, (share, doing) in self._asked(self._mailbox.read.remote()).items():
            if number in known:
                known[number].share, known[number].doing = share, doing
        with suppress(ConfigurationError):  # a node that has gone may come back
            self.number = self._room()
        ready, _ = self._ray.wait([*self._running], num_returns=len(self._running), timeout=0)
        return [self._take(end) for end in ready]

    def _asked(self, answer: Any) -> Any:
        """An answer of the mailbox, which is gone only where the head or this node is."""
        try:
            return self._ray.get(answer)
        except self._ray.exceptions.RayError as error:
            raise InnerloopError(
                "the Ray cluster has gone: start it again, and give the same command again; runs "
                "go on from their last checkpoints."
            ) from error

    def _take(self, end: Any) -> tuple[Job, End]:
        """A job that has ended, and how, with its files in their place."""
        attempt = self._running.pop(end)
        errors = self._ray.exceptions
        try:
            told, files = self._ray.get([end, attempt.files])
            if files:
                assert isinstance(attempt.job.work, PortableWork)
                attempt.job.work.unpack(files)
            return attempt.job, read_end(told)
        except errors.TaskCancelledError:
            return attempt.job, End("stopped")
        except errors.RayTaskError as error:
            return attempt.job, End("failed", in_words(error.cause))
        except errors.RayError:  # more often than Ray tries by itself
            return attempt.job, End("lost")
        except InnerloopError as error:
            return attempt.job, End("failed", str(error))

    def halt(self) -> None:
        """Say so in the mailbox, and call back what no node has begun."""
        self._asked(self._mailbox.halt.remote())
        for end, attempt in self._running.items():
            if attempt.job.doing == "queued":
                self._ray.cancel(end)

    def close(self) -> None:
        """Halt, wait for what was running, and leave the cluster as it was."""
        try:
            with suppress(InnerloopError):  # of a cluster that has gone nothing is left to wait for
                self.halt()
                for end in [*self._running]:
                    self._take(end)
                self._ray.kill(self._mailbox)
        finally:
            for home, text in self._signs.items():
                _sign_in(home, text).unlink(missing_ok=True)
            self._leave()

    def _leave(self) -> None:
        if self._ours:
            self._ray.shutdown()


@dataclass(frozen=True, slots=True)
class _Attempt:
    """A job that was submitted."""

    job: Job
    order: Order
    files: Any
    """The reference of what comes back."""


def _sign_in(home: Path, text: str) -> Path:
    return home / f".seen-{text[:8]}"


def _connect(ray: ModuleType, address: str) -> bool:
    """Connect this process to a cluster; whether it was not connected before."""
    if ray.is_initialized():
        return False
    if address != "auto":
        _require_head(address)
    # Ray puts its own handler in the place of the one that saves.
    before = signal.getsignal(signal.SIGTERM)
    try:
        ray.init(address=address, log_to_driver=False, logging_level=logging.ERROR)
    except (ConnectionError, RuntimeError, ValueError) as error:
        raise _no_cluster(address) from error
    finally:
        if threading.current_thread() is threading.main_thread():
            signal.signal(signal.SIGTERM, before)
    return True


def _require_head(address: str) -> None:
    """Refuse an address where nobody listens: Ray itself would try for minutes."""
    host, _, port = address.rpartition(":")
    if not host or "/" in host or not port.isdecimal():  # ray://.. is for clients outside
        raise ConfigurationError(
            f"address is {address!r}, expected host:port of the cluster's head: run this on one of "
            "its nodes."
        )
    try:
        socket.create_connection((host.strip("[]"), int(port)), timeout=_PATIENCE).close()
    except (OSError, OverflowError) as error:
        raise _no_cluster(address) from error


def _no_cluster(address: str) -> InnerloopError:
    return InnerloopError(
        f"there is no Ray cluster at {address!r}: start one by `ray start --head`, or give the "
        "address of its head."
    )
