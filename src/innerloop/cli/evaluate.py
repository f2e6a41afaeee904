"""`innerloop evaluate`: learners on a task, as a figure, a CSV and a table."""

import re
from collections.abc import Iterator
from contextlib import contextmanager
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import pandas as pd
import typer
from rich.console import Console
from rich.markup import escape
from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn
from rich.table import Table

from innerloop.analysis.error import Progress as ProgressCallback
from innerloop.analysis.error import error_curve
from innerloop.analysis.figure import draw_error_curve, save_figure_and_table
from innerloop.cli.specs import build, find, is_setting, parse_settings, parse_spec
from innerloop.core.errors import ConfigurationError
from innerloop.core.files import require_folder, write_atomically
from innerloop.core.learner import Learner
from innerloop.core.task import Task
from innerloop.learners.table import LEARNERS
from innerloop.tasks.shifts import SHIFTS
from innerloop.tasks.table import TASKS


class By(StrEnum):
    """What the error is drawn against."""

    PREFIX = "prefix"
    STEP = "step"


def evaluate(
    words: Annotated[
        list[str],
        typer.Argument(
            metavar="LEARNER... [KEY=VALUE...]",
            help="Learners, as `ols` or `ridge:penalty=0.1` (see `innerloop learners`), "
            "and settings of the task, as `dims=5` (see `innerloop tasks`).",
        ),
    ],
    task: Annotated[str, typer.Option(help="The task to evaluate on.")] = "linear",
    shift: Annotated[
        list[str] | None,
        typer.Option(
            help="Take the task out of distribution, as `scaled-inputs:factor=3`; "
            "once for each shift, one figure each."
        ),
    ] = None,
    points: Annotated[
        int | None,
        typer.Option(
            help="Points in a prompt: the last prediction sees one example less. "
            "Default: 2 dims + 1."
        ),
    ] = None,
    prompts: Annotated[int, typer.Option(help="Prompts to average over.")] = 1280,
    by: Annotated[
        By, typer.Option(help="Draw the error against the examples seen, or the steps taken.")
    ] = By.PREFIX,
    prefix: Annotated[
        int | None,
        typer.Option(help="With --by step: after how many examples. Default: the last point."),
    ] = None,
    steps: Annotated[
        int | None, typer.Option(help="Steps of every learner. Default: each learner's own.")
    ] = None,
    seed: Annotated[int, typer.Option(help="Seed of the prompts.")] = 0,
    log: Annotated[bool, typer.Option("--log", help="Logarithmic error axis.")] = False,
    output: Annotated[
        Path, typer.Option("--output", "-o", help="Folder for the figure and the CSV.")
    ] = Path("evaluation"),
    json: Annotated[
        Path | None, typer.Option(help="Write the numbers of all figures here as JSON, too.")
    ] = None,
) -> None:
    """Compare learners on a task: squared error over that of predicting zero, with 90% intervals.

    For example:

    innerloop evaluate ols ridge:penalty=0.1 averaging --task linear dims=20 noise=0.5

    innerloop evaluate gradient-descent:steps=50 newton:steps=12 ols dims=5 --by step --log

    innerloop evaluate ols nearest-neighbors dims=10 --shift skewed-covariance
    """
    console = Console()
    require_folder(output)
    if json is not None:
        require_folder(json.parent)
        if json.is_dir():
            raise ConfigurationError(f"--json is {json}, a folder: give a file.")
    learners, base = read_words(words, task)
    shifted = [_shift(text, base) for text in shift or []] or [base]
    names = [_slug(text) for text in shift or []] or [""]
    if len(set(names)) < len(names):
        raise ConfigurationError("a shift is given twice: keep one of them.")
    tables: list[pd.DataFrame] = []
    for name, subject in zip(names, shifted, strict=True):
        length = min(2 * base.dims, (subject.most_points or 2**62) - 1) + 1
        with progress_bar() as advance:
            table = error_curve(
                learners, subject, points=length if points is None else points, by=by.value,
                prefix=prefix, steps=steps, prompts=prompts, seed=seed, progress=advance,
            )  # fmt: skip
        title = describe(task, base) + (f", shifted: {name}" if name else "")
        figure = draw_error_curve(table, title=title, scale="log" if log else "linear")
        stem = "-".join(part for part in (_slug(task), name, by.value) if part)
        image, csv = save_figure_and_table(figure, table, output / stem)
        console.print(error_table(table, title=title, by=by.value))
        console.print(f"figure [cyan]{image}[/], numbers [cyan]{csv}[/]", soft_wrap=True)
        tables.append(table.assign(shift=name))
    if json is not None:
        numbers = pd.concat(tables)
        write_atomically(json, lambda file: numbers.to_json(file, orient="records", indent=1))


def _slug(text: str) -> str:
    """A name of a file from what a user typed: no folders, no punctuation that means something."""
    return re.sub(r"[^a-z0-9.]+", "-", text.lower()).strip("-.")


def read_words(words: list[str], task: str) -> tuple[list[Learner[Any]], Task]:
    """The learners and the task that the positional words and --task describe."""
    kind = find("task", task, TASKS)
    settings = parse_settings([word for word in words if is_setting(word)])
    specs = [parse_spec(word) for word in words if not is_setting(word)]
    if not specs:
        raise ConfigurationError("no learner was named: see `innerloop learners`, or take 'ols'.")
    learners = [build(find("learner", name, LEARNERS), values) for name, values in specs]
    return learners, build(kind, {"dims": "20", **settings})


def _shift(text: str, base: Task) -> Task:
    name, settings = parse_spec(text)
    return build(find("shift", name, SHIFTS), {"task": base, **settings})


def describe(name: str, task: Task) -> str:
    """A task and its settings that are not the default, for a title."""
    told = [
        f"{key}={value:g}" if isinstance(value, float) else f"{key}={value}"
        for key, value in task
        if key == "dims" or value != type(task).model_fields[key].default
    ]
    return f"{name} ({', '.join(told)})"


def error_table(table: pd.DataFrame, *, title: str, by: str) -> Table:
    """Errors at a handful of prefixes or steps, one row a learner."""
    what = "examples" if by == "prefix" else "steps"
    shown = Table(title=escape(title), title_justify="left", caption_justify="left")
    shown.caption = escape(
        f"mean squared error / E[y²] after so many {what}; 90% interval of the last one"
    )
    shown.add_column("learner", style="cyan", overflow="fold")
    columns = _columns(sorted(set(table[by])))
    for value in columns:
        shown.add_column(str(value), justify="right", no_wrap=True)
    shown.add_column("90% interval", justify="right", no_wrap=True)
    for learner, rows in table.groupby("learner", sort=False):
        means = dict(zip(rows[by], rows["mean"], strict=True))
        cells = [_digits(means[value]) if value in means else "-" for value in columns]
        last = rows.iloc[-1]
        interval = f"{_digits(last['low'])} .. {_digits(last['high'])}"
        shown.add_row(escape(str(learner)), *cells, interval)
    return shown


def _digits(value: float) -> str:
    """Two digits are what the intervals leave."""
    return f"{value:.2g}"


def _columns(values: list[int], most: int = 4) -> list[int]:
    """First, last and evenly spread ones between."""
    if len(values) <= most:
        return values
    spread = {round(i * (len(values) - 1) / (most - 1)) for i in range(most)}
    return [values[i] for i in sorted(spread)]


@contextmanager
def progress_bar() -> Iterator[ProgressCallback]:
    """A bar a learner on the terminal's error stream; gone when the work is done."""
    columns = (
        TextColumn("{task.description}"), BarColumn(), TextColumn("{task.completed}/{task.total}"),
        TimeRemainingColumn(),
    )  # fmt: skip
    console = Console(stderr=True)
    shown = console.is_terminal  # a log file wants no bars
    with Progress(*columns, console=console, transient=True, disable=not shown) as bars:
        known: dict[str, Any] = {}

        def advance(name: str, done: int, total: int) -> None:
            if name not in known:
                known[name] = bars.add_task(name, total=total)
            bars.update(known[name], completed=done)

        yield advance
