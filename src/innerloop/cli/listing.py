"""`innerloop tasks` and `innerloop learners`: what there is, one line each."""

import inspect
from collections.abc import Mapping
from typing import Any

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from innerloop.cli.specs import keys_of
from innerloop.learners.table import LEARNERS
from innerloop.tasks.shifts import SHIFTS
from innerloop.tasks.table import TASKS


def tasks() -> None:
    """List the families of problems, and the shifts that take them out of distribution."""
    console = Console()
    console.print(_table("Tasks", TASKS, hidden=("dtype",)))
    console.print(_table("Shifts", SHIFTS, hidden=("dtype", "dims", "task")))
    console.print("Settings with '?' must be given: innerloop evaluate ols --task linear dims=5")


def learners() -> None:
    """List the learning algorithms and their settings."""
    console = Console()
    console.print(_table("Learners", LEARNERS, hidden=()))
    console.print(
        "Settings follow a colon, those with '?' must be given: gradient-descent:steps=20"
    )


def _table(title: str, entries: Mapping[str, type[Any]], *, hidden: tuple[str, ...]) -> Table:
    table = Table(title=title, title_justify="left", title_style="bold")
    table.add_column("name", style="cyan", no_wrap=True)
    table.add_column("what it is")
    table.add_column("settings", style="dim")
    for name, entry in entries.items():
        settings = {key: value for key, value in keys_of(entry).items() if key not in hidden}
        told = " ".join(f"{key}={_default(value)}" for key, value in settings.items())
        table.add_row(name, escape(first_sentence(entry)), escape(told))
    return table


def first_sentence(entry: type[Any]) -> str:
    """The first line of a class's docstring."""
    return (inspect.getdoc(entry) or "").split("\n", 1)[0]


def _default(value: Any) -> str:
    if value is ...:
        return "?"
    return f"{value:g}" if isinstance(value, float) else str(value)
