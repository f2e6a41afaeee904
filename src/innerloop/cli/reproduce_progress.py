"""How far a reproduction is: a bar with what is running, or plain lines where nobody watches."""

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rich.console import Console, Group
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from innerloop.report.words import duration
from innerloop.studies.board import Progress

Listener = Callable[[Progress], None]


@contextmanager
def shown_progress(console: Console) -> Iterator[Listener]:
    """A bar below what is printed; without a terminal a line on the error stream for each job."""
    if not console.is_terminal:
        yield _lines()
        return
    with Live(console=console, transient=True, refresh_per_second=4) as live:
        yield lambda progress: live.update(_display(progress))


def headline(progress: Progress) -> str:
    """`3 of 17 jobs done, about 12 min left`."""
    told = f"{progress.jobs_done} of {progress.jobs} jobs done"
    if progress.seconds_left is None or progress.jobs_done == progress.jobs:
        return told
    return f"{told}, about {duration(progress.seconds_left)} left"


def _display(progress: Progress) -> Group:
    """The bar with its headline, and a line for all that is running."""
    line = Table.grid(padding=(0, 2))
    line.add_row(
        ProgressBar(total=1.0, completed=progress.done, width=30),
        f"{progress.done:.0%}",
        headline(progress),
    )
    return Group(line, *(_running(told) for told in progress.running))


def _running(told: str) -> Text:
    return Text(f"  {told}", style="dim", no_wrap=True, overflow="ellipsis")


def _lines() -> Listener:
    """A line for each job that has ended."""
    last = 0

    def show(progress: Progress) -> None:
        nonlocal last
        if progress.jobs_done > last:
            last = progress.jobs_done
            running = "; ".join(progress.running)
            now = f" (now {running})" if running else ""
            print(headline(progress) + now, file=sys.stderr, flush=True)

    return show
