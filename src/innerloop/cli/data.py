"""`innerloop data`: which data sets are known and which are here; `get` downloads some."""

from collections.abc import Iterable
from pathlib import Path
from typing import Annotated

import typer
from rich.markup import escape
from rich.table import Table

from innerloop.cli.console import Console
from innerloop.cli.options import DataFolder, json_file, write_json
from innerloop.cli.progress import progress_bar
from innerloop.data.catalog import DATASETS, find_dataset
from innerloop.data.download import Row, download
from innerloop.data.folder import data_folder
from innerloop.data.reading import is_here

app = typer.Typer(add_completion=False, pretty_exceptions_enable=False)


@app.callback(invoke_without_command=True)
def data(
    context: typer.Context,
    folder: DataFolder = None,
    json: Annotated[Path | None, json_file("the table")] = None,
) -> None:
    """List the data sets that are known, and which of them are here.

    For example:

    innerloop data

    innerloop data get ag_news

    innerloop data --data ~/corpora
    """
    if context.invoked_subcommand is not None:
        return
    rows = [
        {
            "name": known.name, "kind": known.kind, "here": is_here(known), "title": known.title,
            "source": known.source.words,
        }
        for known in DATASETS.values()
    ]  # fmt: skip
    console = Console(highlight=False)
    table = Table(
        title=f"Data sets in {data_folder()}", title_justify="left", title_style="bold",
        caption="Get one: innerloop data get ag_news. Nothing else uses the network.",
        caption_justify="left",
    )  # fmt: skip
    for heading in ("name", "kind", "here"):
        table.add_column(heading, no_wrap=True, style="cyan" if heading == "name" else "")
    table.add_column("what it is", overflow="fold")
    for row in rows:
        table.add_row(
            str(row["name"]), str(row["kind"]), "yes" if row["here"] else "-",
            escape(str(row["title"])),
        )  # fmt: skip
    console.print(table)
    write_json(json, rows)


@app.command("get")
def get(
    names: Annotated[list[str], typer.Argument(metavar="NAME...", help="See `innerloop data`.")],
    folder: DataFolder = None,
    again: Annotated[
        bool, typer.Option("--again", help="Get it even if it is here, and replace it.")
    ] = False,
) -> None:
    """Download data sets into the data folder: from OpenML, or by the `datasets` library."""
    console = Console(highlight=False, soft_wrap=True)
    chosen = [find_dataset(name) for name in dict.fromkeys(names)]
    for known in chosen:
        if is_here(known) and not again:
            console.print(f"{known.name} is here already: --again replaces it.", markup=False)
            continue
        with progress_bar() as advance:

            def watch(rows: Iterable[Row], title: str, total: int) -> Iterable[Row]:
                for done, row in enumerate(rows):
                    if done % 100 == 0:
                        advance(title, done, total)
                    yield row

            written = download(known.name, watch=watch)
        for path in written:
            console.print(str(path), markup=False)
