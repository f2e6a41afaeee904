"""What runs on the nodes of a Ray cluster: a job, and where jobs leave word for the driver."""

import os
import pickle
import socket
import tempfile
import threading
import time
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path
from typing import Any

import torch

from innerloop.core.errors import InnerloopError
from innerloop.core.extras import import_extra
from innerloop.engine.job import End, PortableWork, Stop, Tell, Work, attempt
from innerloop.training.interrupt import interruptible
from innerloop.training.lock import LockedError

LOOK = 0.5
"""Seconds between two messages from a job to the driver."""
PATIENCE = 120.0
"""Seconds for which the process of a node that has gone may still hold the lock of its run."""


class Mailbox:
    """An actor beside the driver: how far the jobs are, and whether they are to stop."""

    def __init__(self) -> None:
        self._news: dict[int, tuple[float, str]] = {}
        self._halted = False

    def tell(self, job: int, share: float, doing: str) -> bool:
        """Leave word of a job; whether it is to stop."""
        self._news[job] = (share, doing)
        return self._halted

    def read(self) -> dict[int, tuple[float, str]]:
        """What has been told since the last time, by job."""
        news, self._news = self._news, {}
        return news

    def halt(self) -> None:
        """Let all jobs stop."""
        self._halted = True


@dataclass(frozen=True, slots=True)
class Order:
    """A job on its way to a node, with what the node must have and know."""

    number: int
    work: bytes
    """A pickled Work."""
    sign: tuple[Path, str] | None
    """A file beside those of the work, and what it says; None for work that is not portable."""
    files: tuple[Any, ...]
    """A reference to the files that there are of it, for a node that does not see them."""
    threads: int
    versions: Mapping[str, str]
    folder: str
    """The driver's current one, which relative paths begin in."""
    environment: Mapping[str, str]


def versions() -> dict[str, str]:
    """What must be the same on all nodes: other versions train other weights."""
    return {"innerloop": metadata.version("innerloop"), "torch": str(torch.__version__)}


def carry_out(order: Order, mailbox: Any) -> tuple[bytes, bytes]:
    """Do a job; how it ended, and its files where the driver does not see them.

    Both are plain bytes, which Ray hands over as they are.
    """
    os.environ.update(order.environment)
    with suppress(OSError):  # a node that has no such folder needs none
        os.chdir(order.folder)
    torch.set_num_threads(order.threads)
    with interruptible() as interruption, _Line(order.number, mailbox) as line:
        files = bytearray()

        def stop() -> bool:
            return line.stopping.is_set() or interruption()

        def do() -> bool:
            if stop():  # it was called back on its way
                return False
            _require_versions(order.versions)
            work: Work = pickle.loads(order.work)  # from the driver, which Ray trusts anyway
            if order.sign is None or _sees(*order.sign):
                return _do(work, line.tell, stop)
            assert isinstance(work, PortableWork)
            with tempfile.TemporaryDirectory(prefix="innerloop-") as folder:
                moved = work.within(Path(folder))
                if order.files:
                    moved.unpack(import_extra("ray", "ray", "a cluster").get(order.files[0]))
                try:
                    return _do(moved, line.tell, stop)
                finally:  # one that has diverged is worth looking at, too
                    files.extend(moved.pack())

        end = attempt(do)
    return write_end(end), bytes(files)


class _Line:
    """The line from a job to the mailbox, which a thread keeps busy."""

    def __init__(self, number: int, mailbox: Any) -> None:
        self._ray = import_extra("ray", "ray", "a cluster")
        self._number, self._mailbox = number, mailbox
        self._latest = (0.0, "")
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._keep_busy, daemon=True)
        self.stopping = threading.Event()

    def tell(self, share: float, doing: str) -> None:
        """Let the driver know, at the next message."""
        self._latest = (share, doing)

    def __enter__(self) -> "_Line":
        """Begin with a message, so that a job which comes too late does not begin."""
        self._message()
        self._thread.start()
        return self

    def __exit__(self, *error: object) -> None:
        """End the thread."""
        self._over.set()
        self._thread.join()

    def _keep_busy(self) -> None:
        while not self._over.wait(LOOK):
            self._message()

    def _message(self) -> None:
        try:
            answer = self._mailbox.tell.remote(self._number, *self._latest)
            halted = self._ray.get(answer)
        except self._ray.exceptions.RayError:  # the driver is gone
            halted = True
        if halted:
            self.stopping.set()


def _do(work: Work, tell: Tell, stop: Stop) -> bool:
    """Do the work; where a process of a node that has gone still holds its lock, wait for that."""
    until = time.monotonic() + PATIENCE
    while True:
        try:
            return work.do(tell, stop)
        except LockedError as error:
            if time.monotonic() > until:
                raise
            tell(0.0, str(error))
            if stop():
                return False
            time.sleep(LOOK)


def _sees(file: Path, text: str) -> bool:
    """Whether this machine sees the driver's folder, and not another one of that name."""
    try:
        return file.read_text() == text
    except OSError:
        return False


def _require_versions(wanted: Mapping[str, str]) -> None:
    for package, version in versions().items():
        if version != wanted[package]:
            raise InnerloopError(
                f"{socket.gethostname()} has {package} {version}, and this machine has "
                f"{wanted[package]}: install the same on all nodes, as others train other weights."
            )


def write_end(end: End) -> bytes:
    """How a job ended, as bytes."""
    return f"{end.fate}\n{end.why}".encode()


def read_end(text: bytes) -> End:
    """What `write_end` has written."""
    fate, _, why = text.decode().partition("\n")
    if fate not in ("done", "failed", "stopped"):
        raise InnerloopError("a node has answered with something else than the end of a job.")
    return End(fate, why)
