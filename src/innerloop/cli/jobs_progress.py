"""How far many jobs are: a live table of them, or plain lines where nobody watches."""

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rich.console import Group
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from innerloop.cli.console import Console
from innerloop.core.words import duration
from innerloop.engine.board import Progress
from innerloop.engine.run import Listener

QUIET = 120.0
"""Seconds without a line, at the most, where nobody watches."""
ROWS = 12
"""Jobs of each kind that are shown, at the most."""


@contextmanager
def shown_progress(console: Console) -> Iterator[Listener]:
    """A bar below what is printed; without a terminal lines on the error stream."""
    if not console.is_terminal:
        yield progress_lines()
        return
    with Live(console=console, transient=True, refresh_per_second=4) as live:
        yield lambda progress: live.update(_display(progress))


def headline(progress: Progress) -> str:
    """`3 of 17 jobs done, 1 of them failed, about 12 minutes left`."""
    done = f"{progress.jobs_done} of {progress.jobs} jobs done"
    if progress.failed:
        done += f", {len(progress.failed)} of them failed"
    if progress.seconds_left is None or progress.jobs_done == progress.jobs:
        return done
    return f"{done}, about {duration(progress.seconds_left)} left"


def _display(progress: Progress) -> Group:
    """The bar with its headline, and a row for each job that is running or has failed."""
    line = Table.grid(padding=(0, 2))
    line.add_row(
        ProgressBar(total=1.0, completed=progress.done, width=30),
        f"{progress.done:.0%}",
        headline(progress),
    )
    rows = Table.grid(padding=(0, 2))
    rows.add_column(no_wrap=True)
    rows.add_column(no_wrap=True, overflow="ellipsis")
    for jobs, fate, style in (
        (progress.failed[-ROWS:], "failed", "bold red"),
        (progress.running[:ROWS], "running", "dim"),
    ):
        for job in jobs:
            rows.add_row(Text(f"  {fate}", style), Text(job, "dim"))
    return Group(line, rows)


def progress_lines(clock: Callable[[], float] = time.monotonic) -> Listener:
    """A line for each job that has ended, and one now and then, for whoever follows a log."""
    jobs, last = 0, clock()

    def show(progress: Progress) -> None:
        nonlocal jobs, last
        if progress.jobs_done > jobs or clock() >= last + QUIET:
            jobs, last = progress.jobs_done, clock()
            running = "; ".join(progress.running)
            now = f" (now {running})" if running else ""
            print(headline(progress) + now, file=sys.stderr, flush=True)

    return show
