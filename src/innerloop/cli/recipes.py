"""`innerloop recipes`: what can be trained by name."""

from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from innerloop.cli.options import ScaleName, json_file, write_json
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
        config = find_recipe(name, scale)
        console.print(f"[bold]{name}[/] ({RECIPES[name].paper}): {RECIPES[name].title}")
        for key, value in written_as(config.model_dump(mode="json")):
            console.print(f"  [cyan]{key}[/]={escape(value)}", highlight=False, soft_wrap=True)
        console.print(f"Train it: innerloop train {name} --scale {scale} [KEY=VALUE ..]")
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
