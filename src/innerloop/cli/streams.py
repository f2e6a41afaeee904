"""The standard streams: output that nobody reads any more does not end the work."""

import errno
import io
import sys
import warnings
from typing import Any

from rich.markup import escape

from innerloop.cli.console import Console
from innerloop.core.errors import InnerloopError
from innerloop.core.seal import UncheckedWarning

_CLOSED = (errno.EPIPE, errno.EIO)
"""A pipe whose reader has left, as `head` does, and a terminal that was closed."""


class _Steady(io.FileIO):
    """A standard stream: what a closed pipe or terminal does not take is dropped."""

    failed = False

    def write(self, data: Any, /) -> int:
        try:
            return super().write(data)
        except OSError as error:
            if error.errno not in _CLOSED and not self.failed:
                self.failed = True  # said once: Python writes what is left when it ends
                reason = error.strerror or error
                raise InnerloopError(f"cannot write the output: {reason}. Make room.") from error
            return memoryview(data).nbytes


def keep_writing() -> None:
    """Let the standard streams outlive their readers."""
    for name in ("stdout", "stderr"):
        stream = getattr(sys, name)
        if isinstance(stream, io.TextIOWrapper):  # None without a console on Windows
            stream.flush()
            raw = _Steady(stream.fileno(), "w", closefd=False)
            steady = io.TextIOWrapper(
                io.BufferedWriter(raw), encoding=stream.encoding, errors=stream.errors,
                line_buffering=stream.line_buffering, write_through=stream.write_through,
            )  # fmt: skip
            setattr(sys, name, steady)


def show_notices() -> None:
    """Print that a file could not be checked as a sentence, not as a warning of Python's."""
    usual = warnings.showwarning

    def show(message: Warning | str, category: type[Warning], *place: Any) -> None:
        if not issubclass(category, UncheckedWarning):
            return usual(message, category, *place)
        sentence = f"[yellow]notice:[/] {escape(str(message))}"
        Console(stderr=True, soft_wrap=True).print(sentence, highlight=False)

    warnings.showwarning = show
