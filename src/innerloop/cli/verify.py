"""`innerloop verify`: circuits against the algorithms that they run, step by step."""

import re
from collections.abc import Sequence
from dataclasses import asdict
from math import isfinite
from pathlib import Path
from typing import Annotated, Any

import typer
from rich import box
from rich.markup import escape
from rich.table import Table

from innerloop.cli.compile import read_compiled
from innerloop.cli.console import Console
from innerloop.cli.options import json_file, spread, write_json
from innerloop.cli.progress import progress_bar
from innerloop.cli.subjects import looks_like_folder
from innerloop.core.errors import ConfigurationError
from innerloop.models.checkpoint import load
from innerloop.report.words import count
from innerloop.studies.circuits import (
    SEEDS,
    TABLE,
    Case,
    Summary,
    compare,
    rows_of,
    verify_circuit,
)
from innerloop.studies.equality import Equality

CAPTION = (
    "error: the worst |circuit - algorithm| / max(1, |algorithm|) after so many steps, over all "
    "sizes, seeds, prompts and prefixes. tolerance: the largest bound that is stated, and how many "
    "times the worst error it is."
)
SHOWN = 4
"""Steps that the table shows the error of: the first, the last, and some between."""

FOLDER_PROMPTS = 32
"""Prompts of a seed for a folder: weights that were changed may show on few of them."""


def verify(
    circuit: Annotated[
        str | None,
        typer.Argument(
            metavar="[CIRCUIT|DIR]",
            help="A circuit (see `innerloop compile`), or a folder that `compile` has written.",
        ),
    ] = None,
    all_: Annotated[bool, typer.Option("--all", help="Every circuit.")] = False,
    dims: Annotated[
        str | None, typer.Option(help="Dimensions to compare at, as 1,2,5. Default: the table's.")
    ] = None,
    points: Annotated[
        str | None, typer.Option(help="Points of a prompt, as 4,11. Default: the table's.")
    ] = None,
    seeds: Annotated[int, typer.Option(help="Seeds of the prompts, at each size.")] = SEEDS,
    json: Annotated[Path | None, json_file("the errors of every size and step")] = None,
) -> None:
    """Compare circuits with their algorithms after every step, at every prefix.

    A circuit holds if no error is beyond the bound that it states; exact ones state 1e-10.

    For example:

    innerloop verify --all

    innerloop verify newton-relu --dims 3,20 --points 41

    innerloop verify models/newton
    """
    if (circuit is None) != all_:
        raise ConfigurationError(
            "name one circuit or folder, or give --all: see `innerloop compile`."
        )
    if circuit is not None and looks_like_folder(circuit):
        if dims or points:
            raise ConfigurationError(
                f"{circuit} was compiled for one size: leave --dims and --points out."
            )
        groups = [_folder(Path(circuit), seeds)]
    else:
        rows = TABLE if circuit is None else rows_of(circuit)
        groups = _compare(rows, _numbers("dims", dims), _numbers("points", points), seeds)
    summaries = [Summary(cases) for cases in groups]
    console = Console(highlight=False)
    console.print(verdict_table(summaries))
    all_cases = [case for cases in groups for case in cases]
    for case in all_cases:
        if not case.holds:  # where it fails first
            size = f"d={case.blueprint.dims}, n={case.blueprint.points}"
            console.print(escape(f"{size}: {case.verification}"), soft_wrap=True)
    write_json(json, [_record(case) for case in all_cases])
    if not all(summary.holds for summary in summaries):
        raise typer.Exit(1)


def verdict_table(summaries: Sequence[Summary]) -> Table:
    """One row per circuit: its sizes, its errors, what it states, and whether that holds."""
    # Four lines each: as many columns as there are numbers would not fit a terminal of 80.
    table = Table(box=box.SIMPLE_HEAD, padding=(0, 1, 0, 0), pad_edge=False)
    table.caption, table.caption_justify = CAPTION, "left"
    table.add_column("circuit and algorithm", overflow="fold")
    table.add_column("size and mask", no_wrap=True)
    for heading in ("step", "error", "tolerance"):
        table.add_column(heading, justify="right", no_wrap=True)
    table.add_column("verdict", no_wrap=True)
    for summary in summaries:
        blueprints = [case.blueprint for case in summary.cases]
        first, algorithm = blueprints[0], summary.cases[0].verification.algorithm
        norm = "" if first.norm == "none" else f", {first.norm} norm"
        errors, loose = summary.errors, summary.looseness
        steps = spread(len(errors), SHOWN)
        table.add_row(
            f"[cyan]{escape(first.name)}[/]\n{escape(_without_settings(algorithm))}"
            f"\n{escape(first.form + norm)}",
            f"{max(own.layers for own in blueprints)} layers\n"
            f"{count(max(own.heads for own in blueprints), 'head')}\n"
            f"width {max(case.shape.width for case in summary.cases)}\n{first.mask}",
            "\n".join(str(step) for step in steps),
            "\n".join(f"{errors[step]:.1e}" for step in steps),
            f"{summary.bound:.1e}" + ("" if loose is None else f"\n{loose:.1f} x"),
            "holds" if summary.holds else "[red]fails[/]",
        )
        table.add_section()
    return table


def _compare(
    rows: Sequence[Equality],
    dims: Sequence[int] | None,
    points: Sequence[int] | None,
    seeds: int,
) -> list[list[Case]]:
    """The cases of each row, with a bar that moves from size to size."""
    sizes = [len(dims or row.dims) * len(points or row.points) for row in rows]
    groups: list[list[Case]] = []
    with progress_bar() as advance:
        for row in rows:
            groups.append([])
            for case in verify_circuit(row, dims=dims, points=points, seeds=seeds):
                groups[-1].append(case)
                advance("sizes of circuits", sum(map(len, groups)), sum(sizes))
    return groups


def _folder(folder: Path, seeds: int) -> list[Case]:
    """The weights of a folder, as they are, against the algorithm that they were compiled from."""
    settings = read_compiled(folder)
    model = load(folder)
    (row, *_) = rows_of(settings.blueprint().name)  # what it equals does not depend on its form
    return [compare(row, settings, model=model, seeds=seeds, prompts=FOLDER_PROMPTS)]


def _record(case: Case) -> dict[str, Any]:
    """A case as JSON has it: one entry per step."""
    blueprint = case.blueprint
    return {
        "circuit": blueprint.name,
        "form": blueprint.form,
        "norm": blueprint.norm,
        "source": blueprint.source,
        "algorithm": case.verification.algorithm,
        "dims": blueprint.dims,
        "points": blueprint.points,
        "layers": blueprint.layers,
        "heads": blueprint.heads,
        "width": case.shape.width,
        "mask": blueprint.mask,
        "holds": case.holds,
        "steps": [
            {"step": step, "error": error if isfinite(error) else None, **asdict(bound)}
            for step, (error, bound) in enumerate(zip(case.errors, case.bounds, strict=True))
        ],
    }


def _numbers(name: str, text: str | None) -> list[int] | None:
    """`1,2,5` into numbers."""
    if text is None:
        return None
    try:
        numbers = [int(word) for word in text.split(",")]
    except ValueError as error:
        raise ConfigurationError(f"--{name} is {text!r}: write numbers, as 1,2,5.") from error
    if any(number < 1 for number in numbers):
        raise ConfigurationError(f"--{name} is {text!r}: every number is at least 1.")
    return numbers


def _without_settings(name: str) -> str:
    """A learner's name without its settings in brackets, which differ from size to size."""
    while (shorter := re.sub(r"\([^()]*\)", "", name)) != name:
        name = shorter
    return name
