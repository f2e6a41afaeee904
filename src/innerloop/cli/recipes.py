"""`innerloop recipes`: what can be trained by name."""

from pathlib import Path
from typing import Annotated

import typer
from rich.markup import escape
from rich.table import Table

from innerloop.cli.console import Console
from innerloop.cli.options import ScaleName, json_file, write_json
from innerloop.cli.specs import described
from innerloop.core.settings import written_as
from innerloop.models.table import build
from innerloop.report.words import duration
from innerloop.training.estimate import training_seconds
from innerloop.training.families import read_scale
from innerloop.training.recipes import RECIPES, find_recipe


def recipes(
    name: Annotated[
        str | None, typer.Argument(help="A recipe to print as a configuration.")
    ] = None,
    scale: ScaleName = "laptop",
    json: Annotated[Path | None, json_file("the table")] = None,
) -> None:
    """List the recipes: what `innerloop train` can train by name, or all about one."""
    console = Console()
    if name is not None:
        settings = settings_of_recipe(name, scale)
        console.print(f"[bold]{name}[/] ({RECIPES[name].paper}): {RECIPES[name].title}")
        console.print(_settings_table(settings))
        train = f"Train it: innerloop train {name} --scale {scale} [KEY=VALUE ..]"
        console.print(train, markup=False)
        write_json(json, settings)
        return
    size = read_scale(scale)
    rows = [_row(known, scale) for known, recipe in RECIPES.items() if size in recipe.scales]
    table = Table(title=f"Recipes at {scale} size", title_justify="left", title_style="bold")
    table.add_column("recipe", min_width=max(map(len, RECIPES)))  # no name is broken
    for heading in ("parameters", "steps", "time"):
        table.add_column(heading, justify="right", no_wrap=True)
    table.add_column("paper", max_width=len("akyurek2022"))
    for row in rows:
        table.add_row(
            f"[cyan]{row['name']}[/]\n  {escape(str(row['title']))}", f"{row['parameters']:,}",
            f"{row['steps']:,}", str(row["time"]), str(row["paper"]),
        )  # fmt: skip
    console.print(table)
    console.print(
        "Times are estimates for one core. All about one: innerloop recipes looped-linear."
    )
    console.print("Train it: innerloop train looped-linear")
    write_json(json, rows)


def settings_of_recipe(name: str, scale: str) -> list[dict[str, str]]:
    """The settings of a recipe as a user writes them, with what each is."""
    config = find_recipe(name, scale)
    texts = {**described(config), "task.name": "the family of problems: see `innerloop tasks`"}
    return [
        {"key": key, "value": value, "description": texts[key]}
        for key, value in written_as(config.model_dump(mode="json"))
    ]


def _settings_table(settings: list[dict[str, str]]) -> Table:
    table = Table.grid(padding=(0, 2, 0, 0))
    table.add_column(overflow="fold", min_width=max(map(_width, settings)))  # nothing is broken
    table.add_column(style="dim")
    for row in settings:
        table.add_row(f"  [cyan]{row['key']}[/]={escape(row['value'])}", escape(row["description"]))
    return table


def _width(row: dict[str, str]) -> int:
    return len(f"  {row['key']}={row['value']}")


def _row(name: str, scale: str) -> dict[str, str | int]:
    config = find_recipe(name, scale)
    return {
        "name": name,
        "title": RECIPES[name].title,
        "parameters": build(config.model).parameter_count,
        "steps": config.steps,
        # About what one core takes; the papers' size is not for one.
        "time": "GPU" if scale == "paper" else duration(training_seconds(config)),
        "paper": RECIPES[name].paper,
    }
