"""`innerloop sweep`: a recipe over a grid of settings, with a table and a figure of the errors."""

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import pandas as pd
import typer
from rich.markup import escape
from rich.table import Table

from innerloop.analysis.drawing import save_figure_and_table
from innerloop.analysis.sweep_figure import draw_sweep, sweep_averages
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
    RunsFolder,
    ScaleName,
    json_file,
    output_folder,
    write_rows,
)
from innerloop.core.files import require_folder, shortened, slug, write_atomically
from innerloop.core.words import count, duration
from innerloop.engine.sweep import SEED, Sweep, make_sweep
from innerloop.studies.seeds import read_seeds
from innerloop.training.interrupt import interruptible
from innerloop.training.recipes import find_recipe
from innerloop.training.store import Store


def sweep(
    recipe: Annotated[str, typer.Argument(help="A recipe: see `innerloop recipes`.")],
    settings: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[KEY=VALUE,VALUE...]",
            help="Settings of the recipe, each with one value, or with several and commas between "
            "them; a value that is a list has brackets.",
        ),
    ] = None,
    seeds: Annotated[
        str | None,
        typer.Option(help="Runs of every place: their number, as 3, or the seeds, as 3-5."),
    ] = None,
    scale: ScaleName = "laptop",
    engine: EngineName = Engine.LOCAL,
    workers: Workers = None,
    address: Address = None,
    cpus_per_run: CpusPerRun = None,
    gpus_per_run: GpusPerRun = None,
    retry: Annotated[
        bool, typer.Option("--retry", help="Start runs over that have diverged or are damaged.")
    ] = False,
    store: RunsFolder = None,
    data: DataFolder = None,
    output: Annotated[Path, output_folder("the figure and the CSV")] = Path("sweeps"),
    json: Annotated[Path | None, json_file("the table of all runs")] = None,
) -> None:
    """Train a recipe over a grid of settings and seeds, on this machine or on a Ray cluster.

    Runs that are finished are not trained again, and each is the one that `innerloop train` would
    make of the same settings. One that fails leaves the others alone; the exit code is 1 then.
    Ctrl-C saves and leaves; the same command goes on from there, bit for bit.

    For example:

    innerloop sweep looped-linear model.backbone.loops=4,8,16 --seeds 3

    innerloop sweep looped-linear task.noise=0,0.1,0.5 task.dims=2,5 steps=2000 --workers 2

    innerloop sweep standard-linear optimizer=fast,paper --seeds 3-5 --retry

    innerloop sweep looped-linear task.dims=5,10,20 --engine ray --cpus-per-run 2
    """
    cluster = read_cluster(
        engine, workers=workers, address=address, cpus=cpus_per_run, gpus=gpus_per_run
    )
    words = settings or []
    grid = make_sweep(
        recipe, find_recipe(recipe, scale), words, store=Store(store), retry=retry,
        seeds=None if seeds is None else read_seeds(seeds),
    )  # fmt: skip
    require_folder(grid.store.root)
    jobs = grid.jobs()
    several = workers or max(1, min(cores(), len(jobs)))
    console = Console(highlight=False)
    minutes = sum(job.minutes * (1 - job.share) for job in jobs)
    where = "a Ray cluster" if cluster else count(several, "worker")
    console.print(
        f"{count(len(grid.points), 'run')}: {len(jobs)} to train, {where}, about "
        f"{duration(60 * minutes)} of one core"
    )
    with interruptible() as interruption, shown_progress(console) as listener:
        table = grid.run(
            jobs, workers=several, cluster=cluster, stop=interruption, listener=listener
        )
    seeded = f"seeds {seeds}" if seeds else ""
    scaled = "" if scale == "laptop" else scale
    stem = shortened(slug(" ".join([recipe, *words, seeded, scaled])))
    _show(console, grid, table, output / stem)
    write_rows(json, table)
    states = list(table["state"])
    if interruption():
        Console(stderr=True, soft_wrap=True).print(
            f"stopped with {states.count('finished')} of {count(len(table), 'run')} finished; the "
            "others are saved: give the same command again to go on."
        )
        raise typer.Exit(interruption.exit_code)
    if set(states) != {"finished"}:
        raise typer.Exit(1)


def _show(console: Console, grid: Sweep, table: pd.DataFrame, place: Path) -> None:
    """Print and write the averages, what has failed, and the figure where there is one."""
    keys = grid.keys or (SEED,)
    averages = sweep_averages(table, keys)
    console.print(_printed(averages, keys, grid.recipe))
    for row in table.to_dict(orient="records"):
        if row["state"] != "failed":
            continue
        values = " ".join(f"{key}={row[key]}" for key in dict.fromkeys([*keys, SEED]))
        console.print(
            f"[bold red]failed[/] {escape(values)}: {escape(str(row['reason']))}", soft_wrap=True
        )
    if any(averages["finished"]):
        figure = draw_sweep(averages, keys, title=grid.recipe)
        image, csv = save_figure_and_table(figure, table, place)
        shown = f"figure {as_place(image)}, "
    else:  # nothing to draw
        csv, shown = place.with_name(f"{place.name}.csv"), ""
        write_atomically(csv, lambda file: table.to_csv(file, index=False))
    console.print(f"{shown}runs {as_place(csv)}", soft_wrap=True)


def _printed(averages: pd.DataFrame, keys: Sequence[str], recipe: str) -> Table:
    """One row per place of the grid; the lowest error is bold."""
    shown = Table(title=escape(recipe), title_justify="left", caption_justify="left")
    shown.caption = "error: mean over finished runs, on held-out prompts; 90% interval over seeds"
    for key in keys:
        shown.add_column(escape(key), style="cyan", overflow="fold")
    for column in ("finished", "error", "90% interval"):
        shown.add_column(column, justify="right", no_wrap=True)
    best = averages["mean"].min()
    for row in averages.to_dict(orient="records"):
        known = not pd.isna(row["mean"])
        several = known and row["finished"] > 1
        shown.add_row(
            *(escape(str(row[key])) for key in keys),
            f"{row['finished']} of {row['runs']}",
            f"{row['mean']:.3g}" if known else "-",
            f"{row['low']:.2g} .. {row['high']:.2g}" if several else "-",
            style="bold" if row["mean"] == best else "",
        )
    return shown
