"""`innerloop tasks` and `innerloop learners`: what there is, one line each, or all about one."""

import inspect
from collections.abc import Mapping
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from innerloop.cli.specs import Setting, find, settings_of
from innerloop.learners.table import LEARNERS
from innerloop.tasks.shifts import SHIFTS
from innerloop.tasks.table import TASKS


def tasks(
    name: Annotated[str | None, typer.Argument(help="A task or a shift to describe.")] = None,
) -> None:
    """List the families of problems, and the shifts that take them out of distribution."""
    console = Console()
    if name is not None:
        _describe(console, find("task or shift", name, {**TASKS, **SHIFTS}))
        return
    console.print(_table("Tasks", TASKS))
    console.print(_table("Shifts", SHIFTS))
    console.print("All about one: innerloop tasks linear")


def learners(
    name: Annotated[str | None, typer.Argument(help="A learner to describe.")] = None,
) -> None:
    """List the learning algorithms."""
    console = Console()
    if name is not None:
        _describe(console, find("learner", name, LEARNERS))
        return
    console.print(_table("Learners", LEARNERS))
    console.print("Settings after a colon must be given. All about one: innerloop learners ridge")


def _table(title: str, entries: Mapping[str, type[Any]]) -> Table:
    table = Table(title=title, title_justify="left", title_style="bold")
    table.add_column("name", style="cyan", no_wrap=True)
    table.add_column("what it is", no_wrap=True, overflow="ellipsis")
    for name, entry in entries.items():
        # A task's dimensions have a default on the command line.
        needed = [s.key for s in settings_of(entry) if s.required and s.key != "dims" and s.shown]
        written = ":".join([name, ",".join(f"{key}=.." for key in needed)]).rstrip(":")
        table.add_row(escape(written), escape(first_sentence(entry)))
    return table


def _describe(console: Console, entry: type[Any]) -> None:
    console.print(f"[bold]{entry.__name__}[/]")
    for paragraph in (inspect.getdoc(entry) or "").split("\n\n"):
        console.print(escape(" ".join(paragraph.split())), highlight=False)
        console.print()
    table = Table("setting", "default", "what it is")
    settings = [setting for setting in settings_of(entry) if setting.shown]
    for setting in settings:
        table.add_row(escape(setting.key), escape(_default(setting)), escape(setting.description))
    if settings:
        console.print(table)


def first_sentence(entry: type[Any]) -> str:
    """The first line of a class's docstring."""
    return (inspect.getdoc(entry) or "").split("\n", 1)[0]


def _default(setting: Setting) -> str:
    if setting.required:
        return "must be given"
    return f"{setting.default:g}" if isinstance(setting.default, float) else str(setting.default)
