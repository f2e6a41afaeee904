"""`innerloop evaluate`: learners on a task, as a figure, a CSV and a table."""

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import numpy as np
import pandas as pd
import typer
from rich.markup import escape
from rich.table import Table

from innerloop.analysis.drawing import draw_error_curve, save_figure_and_table
from innerloop.analysis.error import error_curve
from innerloop.cli.console import Console, as_place
from innerloop.cli.options import (
    Points,
    Steps,
    TaskName,
    json_file,
    output_folder,
    spread,
    write_rows,
)
from innerloop.cli.progress import progress_bar
from innerloop.cli.specs import build, find
from innerloop.cli.subjects import Subjects, file_name, read_subjects
from innerloop.core.errors import ConfigurationError, ShiftError
from innerloop.core.settings import parse_spec
from innerloop.core.task import Task
from innerloop.report.words import count
from innerloop.tasks.shifts import SHIFTS, Shift, papers_shifts

PROMPTS = 1280


class By(StrEnum):
    """What the error is drawn against."""

    PREFIX = "prefix"
    STEP = "step"


def evaluate(
    words: Annotated[
        list[str],
        typer.Argument(
            metavar="LEARNER... [KEY=VALUE...]",
            help="Learners, as `ols` or `ridge:penalty=0.1` (see `innerloop learners`), folders of "
            "trained runs or models, models of the package, as `looped-linear`, and settings of "
            "the task, as `dims=5` (see `innerloop tasks`).",
        ),
    ],
    task: TaskName = None,
    shift: Annotated[
        list[str] | None,
        typer.Option(
            help="Take the task out of distribution, as `scaled-inputs:factor=3`; "
            "once for each shift, one figure each; `all`: every shift of the papers."
        ),
    ] = None,
    points: Points = None,
    prompts: Annotated[int, typer.Option(help="Prompts to average over.")] = PROMPTS,
    by: Annotated[
        By, typer.Option(help="Draw the error against the examples seen, or the steps taken.")
    ] = By.PREFIX,
    prefix: Annotated[
        int | None,
        typer.Option(help="With --by step: after how many examples. Default: the last point."),
    ] = None,
    steps: Steps = None,
    seed: Annotated[int, typer.Option(help="Seed of the prompts.")] = 0,
    log: Annotated[bool, typer.Option("--log", help="Logarithmic error axis.")] = False,
    output: Annotated[Path, output_folder("the figure and the CSV")] = Path("evaluation"),
    json: Annotated[Path | None, json_file("the numbers of all figures")] = None,
) -> None:
    """Compare learners on a task: squared error over that of predicting zero, with 90% intervals.

    For example:

    innerloop evaluate ols ridge:penalty=0.1 averaging --task linear dims=20 noise=0.5

    innerloop evaluate gradient-descent:steps=50 newton:steps=12 ols dims=5 --by step --log

    innerloop evaluate ols nearest-neighbors dims=10 --shift skewed-covariance

    innerloop evaluate runs/looped-linear-... ols --shift all
    """
    console = Console()
    subjects = read_subjects(words, task)
    labels = subjects.labels if by is By.STEP else labels_after(subjects, steps)
    tables: list[pd.DataFrame] = []
    for name, subject in shifted_tasks(subjects.task, shift or []).items():
        length = min(subjects.points, subject.most_points or subjects.points)
        with progress_bar() as advance:
            table = error_curve(
                subjects.learners, subject, points=length if points is None else points,
                by=by.value, prefix=prefix, steps=steps, prompts=prompts, seed=seed,
                labels=labels, progress=advance,
            )  # fmt: skip
        title = describe(subjects.name, subjects.task) + (f", shifted: {name}" if name else "")
        figure = draw_error_curve(table, title=title, scale="log" if log else "linear")
        # The settings are part of the name: other ones do not write over these.
        settings = {
            "task": subjects.name if task else None,
            "shift": name or None, "points": points, "after": prefix, "steps": steps,
            "prompts": None if prompts == PROMPTS else prompts, "seed": seed or None,
            "by": by.value,
        }  # fmt: skip
        stem = file_name(words, subjects.labels, settings)
        image, csv = save_figure_and_table(figure, table, output / stem)
        console.print(error_table(table, title=title, by=by.value))
        console.print(f"figure {as_place(image)}, numbers {as_place(csv)}", soft_wrap=True)
        tables.append(table.assign(shift=name))
    write_rows(json, pd.concat(tables))


def labels_after(subjects: Subjects, steps: int | None) -> list[str]:
    """What the learners are called; those that take steps say how many, where a user has said."""
    return [
        label if steps is None or not learner.steps else f"{label}, after {count(steps, 'step')}"
        for learner, label in zip(subjects.learners, subjects.labels, strict=True)
    ]


def shifted_tasks(base: Task, texts: list[str]) -> dict[str, Task]:
    """Tasks by the names of their shifts as a user writes them; without any, "" is the task."""
    if not texts:
        return {"": base}
    if texts == ["all"]:
        shifts = papers_shifts(base)
        if not shifts:
            raise ShiftError(f"{type(base).__name__} cannot be shifted: {Shift.refusal(base)}.")
        return {**shifts}
    shifted: dict[str, Task] = {}
    for text in texts:
        name, settings = parse_spec(text)
        if text in shifted:
            raise ConfigurationError(f"the shift {text!r} is given twice: keep one of them.")
        shifted[text] = build(find("shift", name, SHIFTS), {"task": base, **settings})
    return shifted


def describe(name: str, task: Task) -> str:
    """A task and its settings that are not the default, for a title."""
    settings = [
        f"{key}={value:g}" if isinstance(value, float) else f"{key}={value}"
        for key, value in task
        if key == "dims" or value != type(task).model_fields[key].default
    ]
    return f"{name} ({', '.join(settings)})"


def error_table(table: pd.DataFrame, *, title: str, by: str) -> Table:
    """Errors at a handful of prefixes or steps, one row per learner."""
    what = "examples" if by == "prefix" else "steps"
    shown = Table(title=escape(title), title_justify="left", caption_justify="left")
    overflows = "; inf: answers that overflow" if np.isinf(table["mean"]).any() else ""
    shown.caption = escape(
        f"mean squared error / E[y²] after so many {what}; 90% interval of the last one{overflows}"
    )
    shown.add_column("learner", style="cyan", overflow="fold")
    values = sorted(set(table[by]))
    columns = [values[i] for i in spread(len(values), 4)]
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
