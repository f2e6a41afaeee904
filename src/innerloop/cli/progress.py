"""Bars on the terminal while several pieces of work run, one after the other."""

from collections.abc import Iterator
from contextlib import contextmanager

from rich.markup import escape
from rich.progress import BarColumn, Progress, TaskID, TextColumn, TimeRemainingColumn

from innerloop.analysis.error import Progress as ProgressCallback
from innerloop.cli.console import Console


@contextmanager
def progress_bar() -> Iterator[ProgressCallback]:
    """A bar for each piece of work on the terminal's error stream; gone when all is done."""
    columns = (
        TextColumn("{task.description}"), BarColumn(), TextColumn("{task.completed}/{task.total}"),
        TimeRemainingColumn(),
    )  # fmt: skip
    console = Console(stderr=True)
    shown = console.is_terminal  # a log file wants no bars
    with Progress(*columns, console=console, transient=True, disable=not shown) as bars:
        known: dict[str, TaskID] = {}

        def advance(name: str, done: int, total: int) -> None:
            if name not in known:
                known[name] = bars.add_task(escape(name), total=total)
            bars.update(known[name], completed=done)

        yield advance
