"""Ctrl-C, SIGTERM and a closed terminal as a question that a run asks between two steps."""

import signal
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from types import FrameType
from typing import Any

COLLECTED = tuple(
    getattr(signal, name) for name in ("SIGINT", "SIGTERM", "SIGHUP") if hasattr(signal, name)
)
"""What ends a process in good order; Windows has no SIGHUP."""


class Interruption:
    """Whether somebody wants the process to end; call it to know."""

    def __init__(self) -> None:
        self.signal: int | None = None
        """The signal that was caught, if one was."""

    def __call__(self) -> bool:
        """Whether a signal was caught."""
        return self.signal is not None

    def wait(self) -> None:
        """Return once a signal was caught."""
        while not self():
            time.sleep(0.1)

    @property
    def exit_code(self) -> int:
        """What a shell expects of a process that a signal ended: 129, 130 or 143."""
        return 0 if self.signal is None else 128 + self.signal


@contextmanager
def interruptible() -> Iterator[Interruption]:
    """Collect signals instead of ending at once; a second SIGINT ends at once.

    A second SIGTERM does not: job schedulers and torchrun send it twice to one process. A signal
    that is ignored stays so: under `nohup` a run outlives its terminal. Only in the main thread, as
    Python demands. The handlers before are put back at the end.
    """
    interruption = Interruption()
    before = {name: signal.getsignal(name) for name in COLLECTED}
    before = {name: handler for name, handler in before.items() if handler != signal.SIG_IGN}

    def collect(number: int, frame: FrameType | None) -> None:
        interruption.signal = number
        if number == signal.SIGINT:
            signal.signal(number, before[signal.SIGINT])

    for name in before:
        signal.signal(name, collect)
    try:
        yield interruption
    finally:
        _restore(before)


def _restore(handlers: Mapping[signal.Signals, Any]) -> None:
    for name, handler in handlers.items():
        signal.signal(name, handler)
