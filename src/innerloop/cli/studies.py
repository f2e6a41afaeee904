"""`innerloop studies`: what can be reproduced, and the last verdicts on this machine."""

import textwrap
from collections.abc import Iterable, Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.markup import escape
from rich.table import Table

from innerloop.cli.console import Console
from innerloop.cli.options import ResultsFolder, json_file, write_json
from innerloop.cli.reproduce import STYLES, results_folder
from innerloop.core.settings import written_as
from innerloop.report.joined import choose
from innerloop.report.words import SIGNS, changed_since, duration, measured, seeds, why
from innerloop.studies.claim import Claim, Judged
from innerloop.studies.result import Result, read_results
from innerloop.studies.result_record import in_json
from innerloop.studies.study import Study
from innerloop.studies.table import PAPERS, STUDIES, find_studies
from innerloop.training.config import FOLLOWS_TASK, RunConfig


def studies(
    name: Annotated[
        str | None,
        typer.Argument(
            metavar="[PAPER|PAPER/ID|MODULE:NAME]", help="A paper, or a study to describe."
        ),
    ] = None,
    results: ResultsFolder = None,
    json: Annotated[Path | None, json_file("the table")] = None,
) -> None:
    """List the studies with the last verdicts on this machine, or describe one.

    For example:

    innerloop studies

    innerloop studies yang2024/fig2
    """
    chosen = STUDIES if name is None else find_studies(name)
    known, refused = read_results(results_folder(results))
    last = {result.name: result for result in choose(known)}
    console = Console(highlight=False)
    for reason in refused:
        console.print(f"left out: {reason}", markup=False, soft_wrap=True)
    if name is not None and ("/" in name or ":" in name):
        for study in chosen:
            _tell(console, study, last.get(study.name))
    else:
        console.print(_table(chosen, last))
        console.print("All about one: innerloop studies yang2024/fig2")
        console.print("Reproduce it: innerloop reproduce yang2024/fig2")
    if json is not None:  # the keys of all runs take a while
        write_json(json, [_record(study, last.get(study.name)) for study in chosen])


def _table(chosen: Iterable[Study], last: Mapping[str, Result]) -> Table:
    """One row per study, the papers one after the other."""
    table = Table(title="Studies", title_justify="left", title_style="bold")
    table.add_column("study")
    table.add_column("laptop", justify="right", no_wrap=True)
    table.add_column("verdicts here", overflow="fold", max_width=24)
    paper = ""
    for study in chosen:
        if study.paper != paper:
            paper = study.paper
            table.add_section()
            table.add_row(f"[bold]{escape(PAPERS.get(paper, paper))}[/]")
        also = f" ({', '.join(study.also)})" if study.also else ""
        table.add_row(
            f"[cyan]{study.name}[/]{also}\n  {escape(study.title)}",
            duration(60 * study.minutes["laptop"]), _verdicts(last.get(study.name)),
        )  # fmt: skip
    return table


def _verdicts(result: Result | None) -> str:
    """The last verdicts on a study with their scale, and whether it has changed since."""
    if result is None:
        return "-"
    changed = ", changed since" if changed_since(result) else ""
    return f"{result.verdicts} [dim]({result.scale}{changed})[/]"


def _tell(console: Console, study: Study, result: Result | None) -> None:
    """Print all that a study declares, and its last verdicts."""
    console.print(f"[bold cyan]{study.name}[/] [bold]{escape(study.title)}[/]", soft_wrap=True)
    also = f" (also {', '.join(study.also)})" if study.also else ""
    console.print(f"{escape(PAPERS.get(study.paper, study.paper))}{also}", soft_wrap=True)
    console.print("\n[bold]Claims[/]")
    judged = {one.claim.name: one for one in result.claims} if result is not None else {}
    for claim in study.claims:
        for line in _claim_lines(claim, judged.get(claim.name)):
            console.print(line, soft_wrap=True)
    if result is not None:
        changed = "; the study has changed since" if changed_since(result) else ""
        console.print(
            f"Measured at {result.scale} scale, {seeds(result)}, on "
            f"{result.finished}{changed}: {escape(str(result.folder))}",
            soft_wrap=True,
        )
    console.print("\n[bold]Scales[/]")
    for scale in study.scales:
        sizes = study.smaller.get(scale, "as in the paper")
        console.print(
            f"  {scale}, about {duration(60 * study.minutes[scale])}: {escape(sizes)}",
            soft_wrap=True,
        )
        for label, config in study.runs(scale).items():
            console.print(
                f"    run [cyan]{escape(label)}[/]: {escape(_run(config))}", soft_wrap=True
            )
    console.print(f"\nReproduce it: innerloop reproduce {study.name}")


def _claim_lines(claim: Claim, judged: Judged | None) -> list[str]:
    paper = f"; the paper has {claim.paper}" if claim.paper else ""
    about = "exact" if claim.exact else "over trainings"
    lines = [
        f"  [cyan]{claim.name}[/] {escape(claim.sentence)}",
        f"    measured ({about}): {escape(claim.quantity + paper)}",
        f"    criterion: {claim.criterion} ({escape(claim.criterion.reason)})",
    ]
    if claim.premise is not None:
        needs = f"{claim.premise.quantity}: {claim.premise.criterion}"
        lines.append(f"    premise: {escape(needs)} ({escape(claim.premise.criterion.reason)})")
    if claim.excludes:
        lines.append(f"    must not hold of: {escape('; '.join(claim.excludes))}")
    if judged is not None:
        style, reason = STYLES[judged.verdict], f" ({why(judged)})" if why(judged) else ""
        lines.append(
            f"    here: {measured(judged)}, [{style}]{SIGNS[judged.verdict]} {judged.verdict}[/]"
            f"{escape(reason)}"
        )
    return lines


def _run(config: RunConfig) -> str:
    """A run in a few words: what differs from the defaults."""
    task = written_as(config.task.model_dump(mode="json", exclude_defaults=True))
    model = written_as(
        config.model.model_dump(mode="json", exclude_defaults=True, exclude=set(FOLLOWS_TASK))
    )
    words = [f"{key}={value}" for key, value in (*task, *model)]
    run = " ".join([config.task_name, *words, f"points={config.points}", f"steps={config.steps}"])
    return textwrap.shorten(run, 200, placeholder=" ..")


def _record(study: Study, result: Result | None) -> dict[str, Any]:
    """A study as JSON has it, with the keys by which the store knows its runs."""
    runs = {scale: study.runs(scale).items() for scale in study.scales}
    return {
        "study": study.name,
        "also": list(study.also),
        "title": study.title,
        "minutes": dict(study.minutes),
        "smaller": dict(study.smaller),
        "claims": [in_json(asdict(claim.statement)) for claim in study.claims],
        "runs": {
            scale: {label: config.key() for label, config in own} for scale, own in runs.items()
        },
        "found": None
        if result is None
        else {
            "scale": result.scale,
            "seeds": list(result.seeds),
            "changed_since": changed_since(result),
            "verdicts": {judged.claim.name: judged.verdict for judged in result.claims},
        },
    }
