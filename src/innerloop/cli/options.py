"""What several verbs share: options, and how numbers are written as JSON."""

import json
import sys
from contextlib import redirect_stdout
from contextvars import ContextVar
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TextIO

import typer

from innerloop.core.files import require_file_place, require_folder, write_atomically
from innerloop.data.folder import use_folder

if TYPE_CHECKING:
    import pandas as pd

STDOUT = Path("-")
"""Where JSON is printed rather than written."""


_output: ContextVar[TextIO] = ContextVar("output")
"""The standard output, while `--json -` keeps it for the JSON."""


def _writable_folder(path: Path) -> Path:
    require_folder(path)
    return path


def _json_place(context: typer.Context, path: Path | None) -> Path | None:
    """Check the place of a file; with `-`, keep the output for the JSON alone."""
    if path == STDOUT:
        _output.set(sys.stdout)
        # What is printed for people goes to the error stream until the verb has ended.
        context.with_resource(redirect_stdout(sys.stderr))
    elif path is not None:
        require_file_place(path)
    return path


def _data_folder(folder: Path | None) -> Path | None:
    """Let the verb, and all processes that it starts, find data there."""
    if folder is not None:
        use_folder(folder)
    return folder


def json_file(what: str) -> Any:
    """The option `--json`, which says what is written; its place is checked before the work."""
    return typer.Option(
        "--json", metavar="FILE|-", callback=_json_place,
        help=f"Write {what} here as JSON, too; `-` prints it, and nothing else.",
    )  # fmt: skip


def output_folder(what: str) -> Any:
    """The option `--output`, which says what the folder is for; it is checked before the work."""
    return typer.Option("--output", "-o", help=f"Folder for {what}.", callback=_writable_folder)


ScaleName = Annotated[
    str,
    typer.Option("--scale", help="smoke (seconds), laptop (minutes), desk (hours), paper (a GPU)."),
]
RunsFolder = Annotated[
    Path | None, typer.Option(help="Folder of the runs. Default: $INNERLOOP_RUNS, else runs.")
]
ResultsFolder = Annotated[
    Path | None,
    typer.Option(help="Folder of the results. Default: $INNERLOOP_RESULTS, else results."),
]
DataFolder = Annotated[
    Path | None,
    typer.Option(
        "--data", callback=_data_folder,
        help="Folder of data sets. Default: $INNERLOOP_DATA, else the cache folder.",
    ),
]  # fmt: skip
Force = Annotated[bool, typer.Option("--force", help="Write over the model that the folder holds.")]
TaskName = Annotated[
    str | None, typer.Option(help="The task. Default: that of the first trained model, or linear.")
]
Points = Annotated[
    int | None,
    typer.Option(
        help="Points in a prompt: the last prediction sees one example less. "
        "Default: those of the run, or 2 dims + 1."
    ),
]
Steps = Annotated[int | None, typer.Option(help="Steps to take. Default: each learner's own.")]


def write_json(path: Path | None, values: Any) -> None:
    """Write plain values, where there is a place for them."""
    _write(path, json.dumps(values, indent=1))


def write_rows(path: Path | None, table: "pd.DataFrame") -> None:
    """Write the rows of a table, where there is a place for them."""
    _write(path, str(table.to_json(orient="records", indent=1)))


def _write(path: Path | None, text: str) -> None:
    if path == STDOUT:
        print(text, file=_output.get())
    elif path is not None:
        write_atomically(path, lambda file: file.write_text(text + "\n"))


def spread(total: int, most: int) -> list[int]:
    """At most so many of range(total): the first, the last, and evenly spread ones between."""
    shown = min(most, total)
    return sorted({round(i * (total - 1) / max(1, shown - 1)) for i in range(shown)})
