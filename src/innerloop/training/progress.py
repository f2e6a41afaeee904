"""How a run is doing, shown while it trains."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager

from innerloop.core.words import duration
from innerloop.training.train import Listener, Report

LINES = 20
"""About how many lines are printed per run where there is no terminal."""


@contextmanager
def shown_progress(name: str) -> Iterator[Listener]:
    """A bar on the terminal's error stream; without a terminal a line every so often."""
    # Here, as importing the library should not wait for what only a terminal needs.
    from rich.console import Console
    from rich.markup import escape
    from rich.progress import BarColumn, Progress, TextColumn

    console = Console(stderr=True)
    if not console.is_terminal:
        yield _lines()
        return
    columns = (TextColumn("{task.description}"), BarColumn(), TextColumn("{task.fields[status]}"))
    with Progress(*columns, console=console, transient=True) as bars:
        bar = bars.add_task(escape(name), total=None, status="")

        def show(report: Report) -> None:
            bars.update(bar, completed=report.step, total=report.steps, status=status(report))

        yield show


def _lines() -> Listener:
    """Print the first report of each stretch of a run, and the last."""
    last = -1

    def show(report: Report) -> None:
        nonlocal last
        stretch = LINES * report.step // report.steps
        if stretch > last:
            last = stretch
            print(status(report), file=sys.stderr, flush=True)

    return show


def status(report: Report) -> str:
    """How a run is doing, in one line."""
    error = "-" if report.error is None else f"{report.error:.3g}"
    loops = "" if report.loops is None else f", {report.loops} loops"
    return (
        f"{report.step}/{report.steps}  loss {report.loss:.3g}, error {error}{loops}, "
        f"{report.steps_per_second:.1f} steps/s, {duration(report.seconds_left)} left"
    )
