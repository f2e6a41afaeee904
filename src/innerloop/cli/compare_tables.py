"""`innerloop compare-tables`: our estimators beside those of scikit-learn, on few rows."""

from pathlib import Path
from typing import Annotated

import typer
from rich.markdown import Markdown

from innerloop.cli.console import Console
from innerloop.cli.options import output_folder
from innerloop.cli.progress import progress_bar
from innerloop.core.arguments import expect_count
from innerloop.studies.real_tables import (
    ROWS,
    SPLITS,
    compare_on_tables,
    folder_tables,
    made_tables,
)
from innerloop.studies.table_ranks import write_comparison


def compare_tables(
    rows: Annotated[
        list[int] | None, typer.Option(help=f"Rows to learn from. Default: {ROWS}.")
    ] = None,
    splits: Annotated[int, typer.Option(help="Splits of each table.")] = SPLITS,
    data: Annotated[
        Path | None,
        typer.Option(help="Folder with tabular/*.csv.gz. Default: $INNERLOOP_DATA, if it is set."),
    ] = None,
    regression: Annotated[
        str, typer.Option(help="The model behind the regressor: a name or a folder.")
    ] = "tabular-regression",
    classification: Annotated[
        str, typer.Option(help="The model behind the classifier: a name or a folder.")
    ] = "tabular-classification",
    output: Annotated[Path, output_folder("tables and the figure")] = Path("compare-tables"),
) -> None:
    """Compare the estimators with those of scikit-learn on tables of few rows.

    Diabetes, Friedman's functions, and the tables of a data folder; mean ranks and errors with 90%
    intervals, and seconds.

    For example:

    innerloop compare-tables --splits 5 --rows 16 --rows 32
    """
    expect_count("splits", splits)
    for number in rows or ():
        expect_count("rows", number, least=8)
    tables = made_tables() + folder_tables(data)
    with progress_bar() as progress:
        found = compare_on_tables(
            tables, rows=rows or ROWS, splits=splits,
            ours={"regression": regression, "classification": classification}, progress=progress,
        )  # fmt: skip
    folder = write_comparison(found, output)
    console = Console(highlight=False)
    console.print(Markdown((folder / "tables.md").read_text("utf-8")))
    console.print(f"Written to {folder}", markup=False)
