"""`innerloop runs`: what has been trained here; `rm` deletes, `export` packs, `ship` publishes."""

import math
import shutil
import time
import zipfile
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.markup import escape
from rich.table import Table

from innerloop.cli.console import Console, as_place
from innerloop.cli.options import RunsFolder, json_file, write_json
from innerloop.core.errors import ConfigurationError, InnerloopError, unknown
from innerloop.core.files import require_file_place, write_atomically
from innerloop.core.named import import_class
from innerloop.core.settings import written_as
from innerloop.core.task import Task
from innerloop.models.checkpoint import CONFIG
from innerloop.models.pretrained import CARD
from innerloop.report.words import count, duration
from innerloop.training.config import FOLLOWS_TASK, RunConfig
from innerloop.training.families import Scale
from innerloop.training.lock import LOCK, locked
from innerloop.training.recipes import RECIPES
from innerloop.training.run import METRICS, NotImportedError, Run
from innerloop.training.ship import ship as ship_run
from innerloop.training.store import Store

app = typer.Typer(add_completion=False, pretty_exceptions_enable=False)

OwnTasks = Annotated[
    list[str] | None,
    typer.Option(
        "--task", metavar="MODULE:CLASS",
        help="Import a task of one's own first, so that runs of it can be read; may be repeated.",
    ),
]  # fmt: skip
Named = Annotated[str, typer.Argument(metavar="RUN", help="Its name in the list, or its folder.")]


@app.callback(invoke_without_command=True)
def runs(
    context: typer.Context,
    store: RunsFolder = None,
    task: OwnTasks = None,
    json: Annotated[Path | None, json_file("the table")] = None,
) -> None:
    """List the runs: recipe, what differs from it, error and age.

    For example:

    innerloop runs

    innerloop runs rm looped-linear-0123456789abcdef

    innerloop runs export looped-linear-0123456789abcdef run.zip
    """
    if context.invoked_subcommand is not None:
        return
    _import_tasks(task)
    kept = Store(store)
    known = [describe(run) for run in kept.runs()]
    unread = [describe_unread(path, error) for path, error in kept.unread().items()]
    rows = sorted([*known, *unread], key=lambda row: row["age"])
    console = Console(highlight=False)
    if rows:
        console.print(_table(rows, f"Runs in {kept.root}"))
    else:
        console.print(f"{kept.root} holds no runs: train one with `innerloop train`.", markup=False)
    write_json(json, rows)


@app.command("rm")
def remove(
    names: Annotated[
        list[str], typer.Argument(metavar="RUN...", help="Names in the list, or folders.")
    ],
    store: RunsFolder = None,
    task: OwnTasks = None,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")] = False,
) -> None:
    """Delete runs, with their weights and metrics; asks first."""
    _import_tasks(task)
    chosen = list(
        {run.path: run for run in (find_run(Store(store), name) for name in names)}.values()
    )
    console = Console(highlight=False, soft_wrap=True)
    for run in chosen:
        console.print(str(run.path), markup=False)
    if not yes:
        typer.confirm(f"Delete {count(len(chosen), 'run')}?", abort=True)
    for run in chosen:
        with locked(run.path):  # not one that is being trained
            run.clear()
        shutil.rmtree(run.path)
    console.print(f"{count(len(chosen), 'run')} deleted")


@app.command("export")
def export(
    name: Named,
    file: Annotated[Path, typer.Argument(help="The archive to write, as run.zip.")],
    store: RunsFolder = None,
    task: OwnTasks = None,
) -> None:
    """Pack a run into a zip file, which can be unpacked into another folder of runs."""
    if file.suffix != ".zip":
        raise ConfigurationError(f"{file} is not named as an archive: write it as {file.stem}.zip.")
    require_file_place(file)
    _import_tasks(task)
    run = find_run(Store(store), name)
    write_atomically(file, lambda place: _pack(run, place))
    console = Console(highlight=False, soft_wrap=True)
    console.print(f"{run.name} written to {as_place(file)}")
    console.print(f"Use it elsewhere: unzip {file} -d runs", markup=False)


@app.command("ship")
def ship(
    name: Named,
    folder: Annotated[
        Path, typer.Argument(help="The folder to write, as src/innerloop/weights/NAME.")
    ],
    store: RunsFolder = None,
) -> None:
    """Write a finished run as pretrained weights: for developers of innerloop.

    The folder has weights, configuration, training curve, and a card to fill in; `innerloop` loads
    it by its name once its hash stands in models/pretrained.py.
    """
    run = find_run(Store(store), name)
    written = ship_run(run, folder)
    console = Console(highlight=False, soft_wrap=True)
    console.print(f"{run.name} written to {as_place(folder)}")
    console.print(f"Fill in {folder / CARD}, and put this into SHIPPED:", markup=False)
    console.print(f'    "{folder.name}": "{written}",', markup=False)


def find_run(store: Store, name: str) -> Run:
    """The run that a name of the list or a folder means."""
    known = {run.name: run for run in store.runs()}
    if name in known:
        return known[name]
    for folder in (Path(name), store.root / name):
        if (folder / CONFIG).is_file():
            return Run.open(folder)  # which says what is wrong with it
    if Path(name).is_dir():
        return Run.open(Path(name))
    raise ConfigurationError(unknown(f"run of {store.root}", name, known))


def describe(run: Run) -> dict[str, Any]:
    """A run in plain values: where it comes from, how far it is, and its last error."""
    recipe, scale, differs = nearest_recipe(run)
    return {
        "run": run.name,
        "recipe": recipe,
        "scale": scale,
        "differs": differs,
        "steps": run.config.steps,
        **_progress(run),
        "age": _age(run.path),
        "note": None,
    }


def describe_unread(folder: Path, error: InnerloopError) -> dict[str, Any]:
    """The same keys for a run that cannot be read, with a note why, and what to add."""
    nothing = dict.fromkeys(("recipe", "scale", "differs", "steps", "step", "error"))
    state, note = "unreadable", str(error)
    if isinstance(error, NotImportedError):
        state = "not imported"
        if not error.task.startswith("__main__:"):  # of a script, which cannot be named
            note = f"task {error.task} is not imported; add --task {error.task}"
    return {"run": folder.name, **nothing, "state": state, "age": _age(folder), "note": note}


def _import_tasks(names: Sequence[str] | None) -> None:
    """Import the tasks that a user has named: a file may not do so by itself."""
    for name in names or ():
        import_class(name, Task, "task")


def nearest_recipe(run: Run) -> tuple[str, Scale, dict[str, str]]:
    """The recipe and scale that a run differs least from, and the settings that differ.

    Of all recipes only that of its own name is looked at, if there is one.
    """
    named = run.name.rpartition("-")[0]
    names = [named] if named in RECIPES else list(RECIPES)
    own = _written(run.config)
    known: list[tuple[str, Scale, dict[str, str]]] = [
        (name, scale, _differences(own, _recipe_settings(name, scale)))
        for name in names
        for scale in RECIPES[name].scales
    ]
    return min(known, key=lambda place: len(place[2]))


def _differences(own: dict[str, str], usual: dict[str, str]) -> dict[str, str]:
    return {key: value for key, value in own.items() if usual.get(key) != value}


@cache
def _recipe_settings(recipe: str, scale: Scale) -> dict[str, str]:
    return _written(RECIPES[recipe].build(scale))


def _written(config: RunConfig) -> dict[str, str]:
    """The settings of a configuration as a user writes them, but those that follow the task."""
    follows = {f"model.{key}" for key in FOLLOWS_TASK}
    written = written_as(config.model_dump(mode="json"))
    return {key: value for key, value in written if key not in follows}


def _progress(run: Run) -> dict[str, Any]:
    """How far a run is; a damaged one says so, and does not hide the others."""
    try:
        errors = run.metrics().get("error")
        error = math.nan if errors is None else errors.dropna().iloc[-1:].sum(min_count=1)
        state = "diverged" if run.diverged else "finished" if run.finished else "not finished"
        return {"step": run.step, "state": state, "error": None if math.isnan(error) else error}
    except InnerloopError:
        return {"step": None, "state": "damaged", "error": None}


def _age(folder: Path) -> float:
    """Seconds since it was last trained."""
    metrics = folder / METRICS
    changed = (metrics if metrics.exists() else folder).stat().st_mtime
    return max(0.0, time.time() - changed)


def _table(rows: Sequence[dict[str, Any]], title: str) -> Table:
    table = Table(title=escape(title), title_justify="left", title_style="bold")
    table.caption_justify = "left"
    table.caption = escape(
        "The newest first. error: mean squared error / E[y²] after the most examples, on held-out "
        "prompts"
    )
    table.add_column("run, and its recipe with what differs", overflow="fold")
    for heading in ("steps", "error", "age"):
        table.add_column(heading, justify="right", no_wrap=True)
    for row in rows:
        table.add_row(
            f"[cyan]{escape(row['run'])}[/]\n  {escape(row['note'] or _source(row))}",
            "-" if row["note"] else _steps(row),
            "-" if row["error"] is None else f"{row['error']:.3g}",
            duration(row["age"]),
        )
    return table


def _source(row: dict[str, Any]) -> str:
    """The recipe of a run, and what differs from it, as a user writes both."""
    differs = " ".join(f"{key}={value}" for key, value in row["differs"].items())
    return f"{row['recipe']} --scale {row['scale']} {differs}".rstrip()


def _steps(row: dict[str, Any]) -> str:
    """`1,000`, or how far it is: `200/1,000`, and what is wrong with it below."""
    if row["state"] == "finished":
        return f"{row['step']:,}"
    step = "?" if row["step"] is None else f"{row['step']:,}"
    return f"{step}/{row['steps']:,}\n{row['state']}"


def _pack(run: Run, place: Path) -> None:
    with zipfile.ZipFile(place, "w", zipfile.ZIP_DEFLATED) as archive:
        for path in sorted(run.path.rglob("*")):
            if path.is_file() and path.name != LOCK:
                archive.write(path, Path(run.name) / path.relative_to(run.path))
