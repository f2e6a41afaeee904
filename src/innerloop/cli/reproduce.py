"""`innerloop reproduce`: studies from nothing, with a verdict on every claim."""

import os
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.markup import escape
from rich.table import Table

from innerloop.cli.console import Console, as_place
from innerloop.cli.engine_options import (
    Address,
    CpusPerRun,
    Engine,
    EngineName,
    GpusPerRun,
    Workers,
    cores,
    read_cluster,
)
from innerloop.cli.jobs_progress import shown_progress
from innerloop.cli.options import (
    DataFolder,
    ResultsFolder,
    RunsFolder,
    ScaleName,
    json_file,
    write_json,
)
from innerloop.core.errors import ConfigurationError
from innerloop.core.files import read_json, require_folder
from innerloop.report.study_page import write_study_page
from innerloop.report.words import SIGNS, count, duration, measured, tally, verdicts, why
from innerloop.studies.claim import Verdict
from innerloop.studies.reproduce import Outcome, Plan, make_plan
from innerloop.studies.reproduce import reproduce as outcomes_of
from innerloop.studies.result import CLAIMS, Result
from innerloop.studies.seeds import Seeds, read_seeds
from innerloop.studies.study import Study
from innerloop.studies.table import STUDIES, find_studies
from innerloop.training.families import Scale, read_scale
from innerloop.training.interrupt import interruptible
from innerloop.training.store import Store

VARIABLE = "INNERLOOP_RESULTS"
"""The environment variable that says where results are kept."""
STYLES: dict[Verdict, str] = {
    "confirmed": "bold blue", "contradicted": "bold yellow", "inconclusive": "bold",
    "exploratory": "dim", "not at this size": "dim",
}  # fmt: skip
"""Beside the words; most people can tell these two colours apart."""


def reproduce(
    names: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[PAPER|PAPER/ID|MODULE:NAME...]",
            help="A paper, one of its studies (see `studies`), or one of your own.",
        ),
    ] = None,
    all_: Annotated[bool, typer.Option("--all", help="Every study.")] = False,
    scale: ScaleName = "laptop",
    seeds: Annotated[
        str,
        typer.Option(
            help="Trainings of every model: their number, as 3, or the seeds, as 3-5. Three are "
            "needed for a verdict on trained models."
        ),
    ] = "1",
    engine: EngineName = Engine.LOCAL,
    workers: Workers = None,
    address: Address = None,
    cpus_per_run: CpusPerRun = None,
    gpus_per_run: GpusPerRun = None,
    runs: RunsFolder = None,
    results: ResultsFolder = None,
    data: DataFolder = None,
    again: Annotated[
        bool,
        typer.Option(
            "--again", help="Measure again what has been measured, and replace its results."
        ),
    ] = False,
    json: Annotated[Path | None, json_file("all claims")] = None,
) -> None:
    """Reproduce figures, tables and theorems of the papers, with a verdict on every claim.

    What they need is trained once and shared; what is there already is not done again. Ctrl-C saves
    and leaves; the same command goes on from there. A claim that is contradicted is a finding: the
    exit code is 1 only where a study could not be done. With --all, studies whose data sets are not
    here are skipped.

    For example:

    innerloop reproduce yang2024/fig2

    innerloop reproduce chen2025 gao2025/thm4.1

    innerloop reproduce fu2023/fig3 --seeds 3

    innerloop reproduce --all --scale smoke
    """
    cluster = read_cluster(
        engine, workers=workers, address=address, cpus=cpus_per_run, gpus=gpus_per_run
    )
    size, own = read_scale(scale), read_seeds(seeds)
    chosen = _at(size, _chosen(names or [], all_))
    store, folder = Store(runs), results_folder(results)
    require_folder(store.root)
    require_folder(folder)
    console = Console(highlight=False)
    plan = make_plan(chosen, scale=size, seeds=own, store=store, results=folder, again=again)
    several = max(1, min(workers or cores(), len(plan.jobs.all)))
    _tell_plan(console, plan, scale=size, seeds=own, workers=None if cluster else several)
    outcomes: list[Outcome] = []
    with interruptible() as interruption, shown_progress(console) as listener:
        for outcome in outcomes_of(
            chosen, scale=size, seeds=own, store=store, results=folder, workers=several,
            cluster=cluster, again=again, listener=listener, stop=interruption, plan=plan,
        ):  # fmt: skip
            outcomes.append(outcome)
            _tell_outcome(console, outcome)
    if len(outcomes) > 1:
        console.print(_summary(outcomes))
    write_json(json, [record(outcome) for outcome in outcomes])
    if interruption():
        Console(stderr=True, soft_wrap=True).print(
            f"stopped after {len(outcomes)} of {count(len(chosen), 'study')}; runs are saved: give "
            "the same command again to go on."
        )
        raise typer.Exit(interruption.exit_code)
    # With --all, nobody has asked for the studies whose data are not here.
    if any(outcome.result is None and not (outcome.skipped and all_) for outcome in outcomes):
        raise typer.Exit(1)


def results_folder(given: Path | None) -> Path:
    """Where results are kept."""
    return given if given is not None else Path(os.environ.get(VARIABLE) or "results")


def _chosen(names: Sequence[str], all_: bool) -> list[Study]:
    """The studies that were named, each once, in the order in which they were."""
    if bool(names) == all_:
        raise ConfigurationError(
            "name papers or studies, as yang2024 or yang2024/fig2, or give --all: see "
            "`innerloop studies`."
        )
    chosen = [study for name in names for study in find_studies(name)] if names else STUDIES
    return list(dict.fromkeys(chosen))


def _at(scale: Scale, chosen: Sequence[Study]) -> list[Study]:
    """The studies that have a scale; refused if none of them does."""
    have = [study for study in chosen if scale in study.scales]
    if not have:
        raise ConfigurationError(
            f"{', '.join(study.name for study in chosen)} cannot be done at {scale} scale: take "
            f"{' or '.join(dict.fromkeys(one for study in chosen for one in study.scales))}."
        )
    return have


def _tell_plan(
    console: Console, plan: Plan, *, scale: Scale, seeds: Seeds, workers: int | None
) -> None:
    """What will be done, and how long it may take."""
    left, jobs = plan.left, plan.jobs
    studies = count(len(plan.known) + len(plan.refused) + len(left), "study")
    console.print(
        f"{studies} at {scale} scale, {count(len(seeds), 'seed')}: "
        f"{len(plan.known)} measured already, {len(left)} to measure"
    )
    if not left:
        return
    needed = {config.key() for study in left for config in study.seeded_runs(scale, seeds).values()}
    console.print(
        f"{count(len(jobs.runs), 'run')} to train, {len(needed) - len(jobs.runs)} trained "
        f"already; {'a Ray cluster' if workers is None else count(workers, 'worker')}"
    )
    console.print(f"expected: {_expected(plan, scale, seeds, workers)}")


def _expected(plan: Plan, scale: Scale, seeds: Seeds, workers: int | None) -> str:
    """How long it may take: by what is known of cores, or what the studies say of a GPU."""
    if scale == "paper":
        minutes = len(seeds) * sum(study.minutes[scale] for study in plan.left)
        return f"about {duration(60 * minutes)} on a GPU, less where runs exist or are shared"
    minutes = sum(job.minutes * (1 - job.share) for job in plan.jobs.all)
    if workers is None:
        return f"about {duration(60 * minutes)} of one core, divided by those of the cluster"
    minutes /= workers
    return f"about {duration(60 * minutes)} with a core for each worker and nothing else to do"


def _tell_outcome(console: Console, outcome: Outcome) -> None:
    """A study's claims, each with its verdict, and where its page is."""
    study, result = outcome.study, outcome.result
    console.print(f"\n[bold cyan]{study.name}[/] [bold]{escape(study.title)}[/]", soft_wrap=True)
    if result is None:
        console.print(f"  {_fate(outcome)} {escape(outcome.error)}", soft_wrap=True)
        return
    console.print(_claims(result))
    for note in result.notes:
        console.print(f"  note: {escape(note)}", soft_wrap=True)
    known = " (measured already)" if outcome.known else ""
    page = write_study_page(result)
    console.print(f"  page {as_place(page)}{known}", soft_wrap=True)


def _claims(result: Result) -> Table:
    """Verdicts, each with its claim, what was measured and the criterion."""
    table = Table.grid(padding=(0, 1, 0, 0))
    table.add_column(no_wrap=True)
    table.add_column(overflow="fold")
    for judged in result.claims:
        claim = judged.claim
        reading = f"{claim.quantity}: {measured(judged)}, criterion {claim.criterion}"
        reason = f" ({why(judged)})" if why(judged) else ""
        table.add_row(
            f"  [{STYLES[judged.verdict]}]{SIGNS[judged.verdict]} {judged.verdict}[/]",
            f"{escape(claim.sentence)}\n[dim]{escape(reading + reason)}[/]",
        )
    return table


def _summary(outcomes: Sequence[Outcome]) -> Table:
    """One row per study, and what could not be done."""
    results = [outcome.result for outcome in outcomes if outcome.result is not None]
    table = Table(title="Summary", title_justify="left", title_style="bold")
    table.add_column("study", style="cyan", no_wrap=True)
    table.add_column("claims")
    table.add_column("time", justify="right", no_wrap=True)
    for outcome in outcomes:
        result = outcome.result
        if result is None:
            table.add_row(outcome.study.name, _fate(outcome), "-")
        else:
            number = Counter(judged.verdict for judged in result.claims)
            time = duration(result.training_seconds + result.seconds)
            table.add_row(outcome.study.name, verdicts(number), time)
    skipped = sum(outcome.skipped for outcome in outcomes)
    failed = len(outcomes) - len(results) - skipped
    table.caption = tally(results) + (f"; {failed} failed" if failed else "")
    table.caption += f"; {skipped} skipped" if skipped else ""
    table.caption_justify = "left"
    for outcome in outcomes:
        if outcome.result is None:
            table.caption += escape(f"\n{outcome.study.name}: {outcome.error}")
    return table


def _fate(outcome: Outcome) -> str:
    """What became of a study without a result."""
    return "[dim]skipped[/]" if outcome.skipped else "[bold red]failed[/]"


def record(outcome: Outcome) -> dict[str, Any]:
    """An outcome as JSON has it: what claims.json holds, or what went wrong."""
    if outcome.result is None:
        return {"study": outcome.study.name, "error": outcome.error}
    claims = read_json(outcome.result.folder / CLAIMS, missing="reproduce the study again")
    return {"study": outcome.study.name, "error": "", **claims}
