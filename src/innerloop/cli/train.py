"""`innerloop train`: the run of a recipe with overrides: trained, resumed, or as it is."""

import signal
from contextlib import ExitStack
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import pandas as pd
import typer
from rich.markup import escape
from rich.table import Table

from innerloop.cli.console import Console, as_place
from innerloop.cli.options import DataFolder, RunsFolder, ScaleName, json_file, spread, write_rows
from innerloop.core.files import require_folder
from innerloop.core.machine import multiplies_bfloat16
from innerloop.core.words import count
from innerloop.training.config import RunConfig
from innerloop.training.distributed import joined
from innerloop.training.feasible import require_feasible
from innerloop.training.interrupt import Interruption, interruptible
from innerloop.training.overrides import with_overrides
from innerloop.training.progress import shown_progress
from innerloop.training.recipes import find_recipe
from innerloop.training.run import Run
from innerloop.training.store import Store
from innerloop.training.tracking import tracking
from innerloop.training.train import Listener, Report


class Track(StrEnum):
    """Where reports go beside the run's own files."""

    TENSORBOARD = "tensorboard"
    WANDB = "wandb"


def train(
    recipe: Annotated[str, typer.Argument(help="A recipe: see `innerloop recipes`.")],
    overrides: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[KEY=VALUE...]",
            help="Settings of the recipe to change, as `task.dims=5 steps=2000 optimizer=paper`.",
        ),
    ] = None,
    scale: ScaleName = "laptop",
    store: RunsFolder = None,
    data: DataFolder = None,
    track: Annotated[Track | None, typer.Option(help="Send reports to a tracker, too.")] = None,
    json: Annotated[Path | None, json_file("the metrics")] = None,
    fresh: Annotated[
        bool, typer.Option("--fresh", help="Start over, even if the run exists.")
    ] = False,
) -> None:
    """Train a recipe; a run that exists is returned, one that was interrupted goes on.

    Ctrl-C saves and leaves; the same command goes on from there, bit for bit.

    For example:

    innerloop train looped-linear

    innerloop train looped-linear steps=2000 seed=1

    innerloop train looped-linear task.dims=10 points=21 steps=3000 curriculum.dims.start=2
    curriculum.dims.every=0.05

    innerloop train standard-linear --scale smoke --json metrics.json

    torchrun --nproc-per-node 4 -m innerloop train looped-linear --scale paper device=cuda
    """
    with interruptible() as interruption, joined() as processes:
        config = with_overrides(find_recipe(recipe, scale), overrides or [])
        runs = Store(store)
        require_folder(runs.root)
        if processes.first and _slow_precision(config):
            Console(stderr=True, soft_wrap=True).print(
                "precision is bfloat16, and this processor has no units for it: "
                "precision=float32 is likely to be quicker."
            )
        with ExitStack() as stack:
            listeners: list[Listener] = []
            if processes.first:
                listeners.append(stack.enter_context(shown_progress(recipe)))
            if track is not None and processes.first:
                require_feasible(config)  # before a folder is made for what cannot run
                folder = runs.place(config, recipe) / "tracking"
                listeners.append(stack.enter_context(tracking(track.value, folder, config)))
            run = runs.train(
                config, name=recipe, report=_all_of(listeners), stop=interruption, fresh=fresh,
                processes=processes,
            )  # fmt: skip
        finished = processes.from_first(lambda: run.finished)
        if processes.first and finished:
            _show(run, config, json)
        elif processes.first:
            stopped(run, interruption)
    if not finished:
        # Without a signal of its own: another process of this training was asked to stop.
        raise typer.Exit(interruption.exit_code or 128 + signal.SIGTERM)


def _slow_precision(config: RunConfig) -> bool:
    """Whether products are in a type that the processor has to emulate."""
    return (config.device, config.precision) == ("cpu", "bfloat16") and not multiplies_bfloat16()


def _show(run: Run, config: RunConfig, json: Path | None) -> None:
    """Print the outcome of a finished run, and where it is."""
    write_rows(json, run.metrics())
    console = Console()
    console.print(summary(run, config))
    console.print(f"run {as_place(run.path)}", soft_wrap=True)


def stopped(run: Run, interruption: Interruption) -> typer.Exit:
    """Say up to where an interrupted run is saved; the exit that follows.

    That may be before the last step: weights that seem ruined are not saved.
    """
    Console(stderr=True, soft_wrap=True).print(
        f"stopped; the run is saved as of step {run.step} of {run.config.steps}: "
        "give the same command again to go on."
    )
    return typer.Exit(interruption.exit_code)


def summary(run: Run, config: RunConfig) -> Table:
    """The errors of a finished run, on the way and in the end."""
    model = run.model()
    title = f"{model.name} on {config.task_name}: {count(model.parameter_count, 'parameter')}"
    caption = (
        "error: share of wrong answers, on held-out texts"
        if config.task.form.classes
        else "error: mean squared error / E[y²] after the most examples, on held-out prompts"
    )
    # As wide as the words around it, which would be folded otherwise.
    table = Table(min_width=max(len(title), len(caption)), title_justify="left")
    table.title, table.caption, table.caption_justify = escape(title), escape(caption), "left"
    for column in ("step", "loss", "error"):
        table.add_column(column, justify="right", no_wrap=True)
    metrics = run.metrics()
    rows = metrics.dropna(subset=["error"]) if "error" in metrics else metrics.head(0)
    for place in spread(len(rows), 5):
        row = rows.iloc[place]
        loss = row.get("smoothed")
        shown = "-" if loss is None or pd.isna(loss) else f"{loss:.3g}"
        table.add_row(f"{row['step']:.0f}", shown, f"{row['error']:.3g}")
    return table


def _all_of(listeners: list[Listener]) -> Listener:
    def listen(report: Report) -> None:
        for listener in listeners:
            listener(report)

    return listen
