"""One command line in a folder of its own: what it prints, how it ends, and what it may not do.

It runs in this process, since starting Python takes longer than most command lines. It may write
into its folder alone, connects to nothing and starts no process. One that computes for long is
interrupted as a user would do it, by Ctrl-C, and must then end.
"""

import errno
import io
import os
import resource
import shutil
import signal
import sys
import tempfile
import traceback
import unicodedata
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager, redirect_stderr, redirect_stdout
from dataclasses import dataclass, field
from functools import cache
from multiprocessing import util
from pathlib import Path
from types import FrameType
from typing import Any
from unittest import mock

import matplotlib.pyplot as plt
import torch

from innerloop.cli.main import main

SECONDS = 0.4
"""Of the processor, until Ctrl-C."""
AGAIN = 0.6
"""Seconds from one Ctrl-C to the next."""
PATIENCE = 20
"""Times that Ctrl-C is pressed before it is a hang."""
MEMORY = 500 * 2**20
"""Bytes that a command line may take beyond those that the process has."""
VARIABLES = ("INNERLOOP_RUNS", "INNERLOOP_RESULTS", "INNERLOOP_DATA")

_WRITES = {
    "os.mkdir", "os.rename", "os.remove", "os.rmdir", "os.symlink", "os.link", "os.truncate",
    "os.chmod", "shutil.rmtree",
}  # fmt: skip
_WRITING = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND


class HangError(BaseException):
    """A command line that does not end when it is interrupted."""


@dataclass(slots=True, kw_only=True)
class Ending:
    """How a command line ended."""

    words: tuple[str, ...]
    code: int = 0
    output: str = ""
    errors: str = ""
    failure: str = ""
    """The traceback of what should have been a sentence."""
    interrupted: bool = False
    outside: list[str] = field(default_factory=list)
    """What it has tried to write outside its folder."""

    def complaint(self) -> str | None:
        """What is wrong with it; None if nothing is."""
        if self.outside:
            return f"it writes outside its folder: {self.outside[0]}"
        # What is raised while something is freed is printed; Ctrl-C may come then, too.
        if self.failure or ("Traceback" in self.errors and not self.interrupted):
            return f"a traceback\n{self.failure or self.errors}"
        if self.code not in ((0, 1, 2, 130) if self.interrupted else (0, 1, 2)):
            return f"the exit code {self.code}"
        control = _control_character(self.output + self.errors)
        if control is not None:
            return f"the control character {control!r} in what it prints"
        if self.code == 2 and not _is_usage(self.errors) and not _is_sentence(self.errors):
            return f"no sentence at its end: {self.errors[-400:]!r}"
        return None


def run_in(folder: Path, words: Sequence[str]) -> Ending:
    """Run `innerloop WORDS` in a folder."""
    ending = Ending(words=tuple(words))
    # As the streams of a terminal: what cannot be encoded is an error in the one, not the other.
    output = io.TextIOWrapper(io.BytesIO(), "utf-8", errors="strict", write_through=True)
    errors = io.TextIOWrapper(io.BytesIO(), "utf-8", errors="backslashreplace", write_through=True)
    with ExitStack() as stack:
        stack.enter_context(_as_it_was())
        os.chdir(folder)
        for variable in VARIABLES:
            os.environ.pop(variable, None)
        os.environ["XDG_CACHE_HOME"] = str(folder / ".cache")
        stack.enter_context(mock.patch.object(tempfile, "tempdir", str(folder)))
        stack.enter_context(mock.patch.object(sys, "stdin", io.StringIO()))
        stack.enter_context(mock.patch.object(util, "spawnv_passfds", _refuse_process))
        stack.enter_context(redirect_stdout(output))
        stack.enter_context(redirect_stderr(errors))
        stack.enter_context(_confined(folder, ending))
        stack.enter_context(_interrupted(ending))
        stack.enter_context(little_memory(MEMORY))
        try:
            main(list(words))
        except SystemExit as end:
            ending.code = end.code if isinstance(end.code, int) else int(end.code is not None)
        except (Exception, HangError, KeyboardInterrupt):
            ending.failure = traceback.format_exc()
    for stream, name in ((output, "output"), (errors, "errors")):
        stream.flush()
        raw = stream.buffer.getvalue()
        setattr(ending, name, raw.decode("utf-8"))
    return ending


@contextmanager
def copied(template: Path) -> Iterator[Path]:
    """A copy of a folder, for one command line."""
    with tempfile.TemporaryDirectory(prefix="innerloop-fuzz-") as place:
        folder = Path(place).resolve() / "here"
        shutil.copytree(template, folder)
        yield folder


@contextmanager
def _as_it_was() -> Iterator[None]:
    """Put back what a process has one of: variables, folder, threads, figures, gradients."""
    variables, folder, path = dict(os.environ), Path.cwd(), list(sys.path)
    threads, handler = torch.get_num_threads(), signal.getsignal(signal.SIGINT)
    bytecode, sys.dont_write_bytecode = sys.dont_write_bytecode, True
    signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        yield
    finally:
        os.chdir(folder)
        os.environ.clear()
        os.environ.update(variables)
        sys.path[:] = path
        sys.dont_write_bytecode = bytecode
        signal.signal(signal.SIGINT, handler)
        torch.set_num_threads(threads)
        torch.set_grad_enabled(True)  # an interrupt may come inside the end of `no_grad`
        plt.close("all")


_watched: list[tuple[Path, Ending]] = []
"""The folder that may be written into now, and where it is noted what else is."""


@contextmanager
def _confined(folder: Path, ending: Ending) -> Iterator[None]:
    """Refuse what is written outside the folder that holds it, connections and processes."""
    _begin_to_watch()
    _watched.append((folder.parent, ending))
    try:
        yield
    finally:
        _watched.pop()


@cache
def _begin_to_watch() -> None:
    sys.addaudithook(_watch)  # once, and for good: Python cannot take one out


def _watch(event: str, arguments: tuple[Any, ...]) -> None:
    """Refuse, as the system might, what a command line of the fuzzer may not do."""
    if not _watched:
        return
    if event in ("socket.connect", "socket.getaddrinfo", "socket.bind"):  # nor waits for anybody
        raise OSError(errno.ENETUNREACH, os.strerror(errno.ENETUNREACH))
    if event in ("subprocess.Popen", "os.system", "os.exec", "os.posix_spawn", "os.fork"):
        _refuse_process()
    if event == "open" and not (isinstance(arguments[2], int) and arguments[2] & _WRITING):
        return
    if event != "open" and event not in _WRITES:
        return
    folder, ending = _watched[-1]
    for place in arguments[: 2 if event in ("os.rename", "os.link", "os.symlink") else 1]:
        if not isinstance(place, str | bytes | os.PathLike):
            continue
        path = os.path.abspath(os.fsdecode(place))
        if not path.startswith(f"{folder}{os.sep}") and path != os.devnull:
            if not _is_asked_for(path, ending.words):
                ending.outside.append(f"{event} {path}")
            raise OSError(errno.EACCES, os.strerror(errno.EACCES), path)


def _is_asked_for(path: str, words: Sequence[str]) -> bool:
    """Whether one of the words names this place, or one beside or in it: `--json ../../up`."""
    places = [os.path.abspath(word.rpartition("=")[2]) for word in words if os.sep in word]
    return any(
        os.path.dirname(place) in (path, os.path.dirname(path)) or path.startswith(place)
        for place in places
    )


def _refuse_process(*_: Any) -> int:
    raise OSError(errno.EAGAIN, os.strerror(errno.EAGAIN))


@contextmanager
def _interrupted(ending: Ending) -> Iterator[None]:
    """Press Ctrl-C after a while, and again; what goes on nevertheless is a hang."""
    pressed = 0

    def press(number: int, frame: FrameType | None) -> None:
        nonlocal pressed
        pressed += 1
        ending.interrupted = True
        if pressed > PATIENCE:
            raise HangError(f"it goes on after {pressed - 1} interrupts")
        signal.raise_signal(signal.SIGINT)

    def give_up(number: int, frame: FrameType | None) -> None:
        raise HangError("it waits for something that does not happen")

    before = {number: signal.getsignal(number) for number in (signal.SIGVTALRM, signal.SIGALRM)}
    signal.signal(signal.SIGVTALRM, press)
    signal.signal(signal.SIGALRM, give_up)
    signal.setitimer(signal.ITIMER_VIRTUAL, SECONDS, AGAIN)
    signal.setitimer(signal.ITIMER_REAL, 100.0)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_VIRTUAL, 0)
        signal.setitimer(signal.ITIMER_REAL, 0)
        for number, handler in before.items():
            signal.signal(number, handler)


@contextmanager
def little_memory(size: int) -> Iterator[None]:
    """Let the process have so many bytes more than it has, and no others."""
    status = Path("/proc/self/statm")
    if not status.exists():  # not Linux: the limit is about nothing that could be known
        yield
        return
    now = int(status.read_text().split()[0]) * resource.getpagesize()
    soft, hard = resource.getrlimit(resource.RLIMIT_AS)
    resource.setrlimit(resource.RLIMIT_AS, (now + size, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_AS, (soft, hard))


def _control_character(text: str) -> str | None:
    """The first character that a terminal would obey rather than show."""
    for character in text:
        if character not in "\n\t" and unicodedata.category(character) in ("Cc", "Cs"):
            return character
    return None


def _is_usage(errors: str) -> bool:
    """Whether it ends with what typer says of words that are no command line."""
    return "╭─ Error ─" in errors


def _is_sentence(errors: str) -> bool:
    """Whether the last line is one sentence."""
    *_, last = errors.rstrip("\n").split("\n")
    return last.startswith("error: ") and last.endswith((".", "?"))
