"""`innerloop tasks` and `innerloop learners`: what there is, one line each, or all about one."""

import inspect
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.markup import escape
from rich.table import Table

from innerloop.cli.console import Console
from innerloop.cli.options import json_file, write_json
from innerloop.cli.specs import Setting, find, settings_of
from innerloop.learners.table import LEARNERS
from innerloop.tasks.shifts import SHIFTS
from innerloop.training.task_field import KNOWN_TASKS


def tasks(
    name: Annotated[str | None, typer.Argument(help="A task or a shift to describe.")] = None,
    json: Annotated[Path | None, json_file("names, descriptions and settings")] = None,
) -> None:
    """List the families of problems, and the shifts that take them out of distribution."""
    console = Console()
    if name is not None:
        entry = find("task or shift", name, {**KNOWN_TASKS, **SHIFTS})
        _describe(console, entry)
        write_json(json, _record(name, entry))
        return
    console.print(_table("Tasks", KNOWN_TASKS))
    console.print(_table("Shifts", SHIFTS))
    console.print("All about one: innerloop tasks linear")
    tables = {"tasks": KNOWN_TASKS, "shifts": SHIFTS}
    write_json(json, {kind: _records(entries) for kind, entries in tables.items()})


def learners(
    name: Annotated[str | None, typer.Argument(help="A learner to describe.")] = None,
    json: Annotated[Path | None, json_file("names, descriptions and settings")] = None,
) -> None:
    """List the learning algorithms."""
    console = Console()
    if name is not None:
        entry = find("learner", name, LEARNERS)
        _describe(console, entry)
        write_json(json, _record(name, entry))
        return
    console.print(_table("Learners", LEARNERS))
    console.print("Settings after a colon must be given. All about one: innerloop learners ridge")
    write_json(json, _records(LEARNERS))


def _table(title: str, entries: Mapping[str, type[Any]]) -> Table:
    table = Table(title=title, title_justify="left", title_style="bold")
    # Every name is whole; what must be given after it may be cut off on a narrow terminal.
    widest = max(map(len, entries)) + 1
    table.add_column("name", style="cyan", no_wrap=True, overflow="ellipsis", min_width=widest)
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


def _records(entries: Mapping[str, type[Any]]) -> list[dict[str, Any]]:
    return [_record(name, entry) for name, entry in entries.items()]


def _record(name: str, entry: type[Any]) -> dict[str, Any]:
    """An entry of a table in plain values."""
    return {
        "name": name,
        "class": entry.__name__,
        "description": first_sentence(entry),
        "settings": [
            {
                "key": setting.key,
                "required": setting.required,
                "default": None if setting.required else setting.default,
                "description": setting.description,
            }
            for setting in settings_of(entry)
            if setting.shown
        ],
    }


def first_sentence(entry: type[Any]) -> str:
    """The first line of a class's docstring."""
    return (inspect.getdoc(entry) or "").split("\n", 1)[0]


def _default(setting: Setting) -> str:
    if setting.required:
        return "must be given"
    return f"{setting.default:g}" if isinstance(setting.default, float) else str(setting.default)
