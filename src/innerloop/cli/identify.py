"""`innerloop identify`: the known algorithm that is inside a learner."""

import json as json_module
import math
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import pandas as pd
import typer
from rich.markup import escape
from rich.table import Table

from innerloop.analysis.drawing import save_figure_and_table
from innerloop.analysis.identification import Identification
from innerloop.analysis.identify import identify as identify_learner
from innerloop.analysis.identify_figure import draw_identification
from innerloop.cli.console import Console, as_place
from innerloop.cli.evaluate import describe, shifted_tasks
from innerloop.cli.options import (
    Points,
    Steps,
    TaskName,
    json_file,
    output_folder,
    spread,
    write_json,
)
from innerloop.cli.progress import progress_bar
from innerloop.cli.subjects import file_name, read_subjects
from innerloop.core.errors import ConfigurationError

PROMPTS = 256


class Batteries(StrEnum):
    """How much is tried."""

    NONE = "none"
    QUICK = "quick"
    FULL = "full"


def identify(
    words: Annotated[
        list[str],
        typer.Argument(
            metavar="LEARNER [KEY=VALUE...]",
            help="The folder of a trained run, of an imported model or of a compiled circuit, a "
            "model of the package, as `looped-linear`, or a learner, as `newton:steps=4`; and "
            "settings of the task, as `noise=0.5`.",
        ),
    ],
    task: TaskName = None,
    battery: Annotated[
        Batteries,
        typer.Option(
            help="quick: eight shifts, and all candidates but the slow ones; full: the papers' "
            "shifts, and boosting and networks as well; none: no shifts."
        ),
    ] = Batteries.QUICK,
    shift: Annotated[
        list[str] | None,
        typer.Option(
            help="Try this shift in the place of the battery's, as `scaled-inputs:factor=3`; "
            "once for each shift; `all`: every shift of the papers."
        ),
    ] = None,
    candidates: Annotated[
        list[str] | None,
        typer.Option(
            help="Compare with these algorithms only, as `ridge,lasso`; see `innerloop learners`."
        ),
    ] = None,
    noise: Annotated[
        float | None,
        typer.Option(
            min=0.0,
            help="Standard deviation of the noise that the shift with noisy outputs adds. "
            "Default: 1.",
        ),
    ] = None,
    points: Points = None,
    prompts: Annotated[int, typer.Option(help="Prompts to compare on.")] = PROMPTS,
    steps: Steps = None,
    seed: Annotated[int, typer.Option(help="Seed of the prompts.")] = 0,
    output: Annotated[Path, output_folder("the figure and the CSV")] = Path("identification"),
    json: Annotated[Path | None, json_file("the answer")] = None,
) -> None:
    """Say which known algorithm predicts as a learner does, and how sure that is.

    Every known algorithm is fitted to the learner's predictions - steps, step sizes, penalties,
    kernels - and ranked by what it leaves unexplained. The answer may be "none of these". The same
    algorithms are then tried under shifts of the task.

    For example:

    innerloop identify runs/looped-linear-...

    innerloop identify newton:steps=4 dims=5

    innerloop identify runs/looped-linear-... --candidates ridge,ols --shift scaled-inputs:factor=3
    """
    console = Console()
    subjects = read_subjects(words, task)
    if len(subjects.learners) != 1:
        raise ConfigurationError(
            f"{len(subjects.learners)} learners were named: give one at a time."
        )
    length = subjects.points if points is None else points
    with progress_bar() as advance:
        answer = identify_learner(
            subjects.learners[0], subjects.task, points=length, prompts=prompts, steps=steps,
            battery=battery.value, shifts=shifted_tasks(subjects.task, shift) if shift else None,
            noise=noise, families=_names(candidates), seed=seed,
            progress=lambda name, done, total: advance(f"fitting {name}", done, total),
        )  # fmt: skip
    title = f"{subjects.labels[0]} on {describe(subjects.name, subjects.task)}, {length} points"
    console.print(_ranking_table(answer, title))
    if len(answer.shifts):
        console.print(_shift_table(answer))
    if answer.progression is not None:
        console.print(_step_table(answer))
    console.print(f"[bold]{escape(answer.summary())}[/]")
    settings = {
        "task": subjects.name if task else None,
        "battery": None if battery is Batteries.QUICK else battery.value,
        "shift": "-".join(shift or []) or None, "candidates": "-".join(candidates or []) or None,
        "noise": noise, "points": points, "prompts": None if prompts == PROMPTS else prompts,
        "steps": steps, "seed": seed or None,
    }  # fmt: skip
    stem = file_name(words, subjects.labels, settings)
    image, csv = save_figure_and_table(draw_identification(answer), answer.ranking, output / stem)
    console.print(f"figure {as_place(image)}, numbers {as_place(csv)}", soft_wrap=True)
    asked = {"task": describe(subjects.name, subjects.task), "seed": seed}
    write_json(json, {**asked, **as_json(answer)})


def as_json(answer: Identification) -> dict[str, Any]:
    """All of an answer in plain values; what is not a number is null."""
    progression = None if answer.progression is None else answer.progression.table()
    return {
        "learner": answer.learner,
        "family": answer.family,
        "equivalents": list(answer.equivalents),
        "parameters": answer.parameters,
        "edges": list(answer.edges),
        "statement": answer.statement(),
        "unexplained": answer.unexplained,
        "sureness": answer.sureness,
        "prompts": answer.prompts,
        "points": answer.points,
        "mixture": [list(part) for part in answer.mixture],
        "ranking": _records(answer.ranking),
        "shifts": _records(answer.shifts),
        "steps": None if progression is None else _records(progression),
    }


def _names(given: list[str] | None) -> list[str] | None:
    """Names, which may be joined by commas."""
    return None if given is None else [name for text in given for name in text.split(",") if name]


def _records(table: pd.DataFrame) -> Any:
    """The rows of a table in plain values."""
    return json_module.loads(str(table.to_json(orient="records", double_precision=15)))


def _ranking_table(answer: Identification, title: str) -> Table:
    shown = Table(title=escape(title), title_justify="left", caption_justify="left")
    shown.caption = escape(
        "SPD: squared prediction difference / E[y²], 90% interval; SimW: cosine of induced weights"
    )
    shown.add_column("algorithm", style="cyan", overflow="fold")
    for name in ("unexplained", "SPD", "90% interval", "SimW"):
        shown.add_column(name, justify="right", no_wrap=True)
    same = {answer.family, *answer.equivalents}
    for row in answer.ranking.to_dict("records"):
        similar = row["sim_w"]
        known = similar is not None and not math.isnan(similar)
        shown.add_row(
            escape(str(row["algorithm"])),
            f"{row['unexplained']:.2g}",
            f"{row['spd']:.2g}",
            f"{row['low']:.2g} .. {row['high']:.2g}",
            f"{similar:.4f}" if known else "-",
            style="bold" if row["family"] in same else None,
        )
    return shown


def _shift_table(answer: Identification) -> Table:
    """What the answer leaves unexplained under each shift, and what comes closest there."""
    title = f"under shifts: {answer.algorithm}, as fitted above"
    shown = Table(title=escape(title), title_justify="left", caption_justify="left")
    shown.caption = escape(
        f"holds: at most {answer.threshold:.0%} of the predictions (or of the labels, where these "
        "are larger) are left unexplained"
    )
    shown.add_column("shift", style="cyan")
    for name in ("unexplained", "90% interval", "holds"):
        shown.add_column(name, justify="right", no_wrap=True)
    shown.add_column("closest there", overflow="fold")
    for row in answer.shifts.to_dict("records"):
        if row["note"]:
            shown.add_row(escape(str(row["shift"])), "-", "-", "-", escape(str(row["note"])))
            continue
        closest = f"{row['closest_family']}: {row['closest_unexplained']:.2g}"
        interval = f"{row['low']:.2g} .. {row['high']:.2g}"
        shown.add_row(
            escape(str(row["shift"])), f"{row['unexplained']:.2g}", interval,
            "yes" if row["holds"] else "no",
            "the same" if row["closest"] == answer.algorithm else escape(closest),
        )  # fmt: skip
    return shown


def _step_table(answer: Identification) -> Table:
    """A handful of steps with the iterations that they match, and how well lines fit."""
    assert answer.progression is not None
    best, table = answer.progression.best, answer.progression.table()
    shown = Table(title="step by step: the best-matching iteration (SimE)", title_justify="left")
    shown.caption_justify = "left"
    fits = [
        f"{name}: linear R² {linear:.2f}, exponential R² {exponential:.2f}"
        for name, (linear, exponential) in answer.progression.fits().items()
        if not math.isnan(linear)
    ]
    shown.caption = escape("\n".join(fits))
    shown.add_column("step", justify="right")
    for name in best:
        shown.add_column(escape(name), justify="right")
    for step in spread(len(table), 8):
        row = table.iloc[step]
        cells = [f"{int(row[name])} ({row[f'SimE with {name}']:.3f})" for name in best]
        shown.add_row(str(step), *cells)
    return shown
