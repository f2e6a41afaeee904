"""`innerloop report`: all that has been reproduced, in one page."""

from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Annotated

import typer

from innerloop.cli.console import Console, as_place
from innerloop.cli.options import ResultsFolder, RunsFolder
from innerloop.cli.reproduce import results_folder
from innerloop.core.errors import ConfigurationError
from innerloop.core.files import require_file_place, require_folder
from innerloop.report.joined import choose, joined_page
from innerloop.report.markdown import WRITTEN, require_place, write_docs, write_summary
from innerloop.report.page import write_page
from innerloop.report.words import changed_since, tally
from innerloop.studies.measuring import TrainingTime, training_time
from innerloop.studies.result import Result, read_results, redrawn
from innerloop.studies.table import STUDIES
from innerloop.training.families import read_scale
from innerloop.training.run import Run
from innerloop.training.store import Store


def report(
    results: ResultsFolder = None,
    scale: Annotated[
        str | None, typer.Option(help="Only this one. Default: the largest that each study has.")
    ] = None,
    output: Annotated[Path, typer.Option("--output", "-o", help="The page to write.")] = Path(
        "report.html"
    ),
    docs: Annotated[
        Path | None,
        typer.Option(
            help="Folder for the same as Markdown, with pictures and tables. Results that it holds "
            "already stay; without new ones its pages say which are out of date by the code as it "
            "is now."
        ),
    ] = None,
    readme: Annotated[
        Path | None,
        typer.Option(
            help="With --docs: a file that gets a summary, between the lines `<!-- results -->` "
            "and `<!-- end of results -->`."
        ),
    ] = None,
    redraw: Annotated[
        bool,
        typer.Option(
            "--redraw",
            help="Draw the pictures of the results anew, from their tables, with the code as it is "
            "now; where only the drawing of a study has changed, nothing need be measured again.",
        ),
    ] = False,
    runs: RunsFolder = None,
) -> None:
    """Join all that `innerloop reproduce` has written into one page that needs nothing else.

    For example:

    innerloop report

    innerloop report --scale laptop --docs docs/results --readme README.md
    """
    folder = results_folder(results)
    wanted = None if scale is None else read_scale(scale)
    require_file_place(output)
    if docs is not None:
        require_folder(docs)
    if readme is not None:
        if docs is None:
            raise ConfigurationError("--readme links into the pages of --docs: give both.")
        require_place(readme)
    known, refused = read_results(folder)
    console = Console(highlight=False, soft_wrap=True)
    for reason in refused:
        console.print(f"left out: {reason}", markup=False)
    chosen = choose(known, wanted)
    if not chosen and not (docs is not None and (docs / WRITTEN).is_file()):
        at = f" at {wanted} scale" if wanted else ""
        raise ConfigurationError(
            f"{folder} holds no results{at}: write some with `innerloop reproduce`."
        )
    if redraw:
        chosen = [drawn_anew(result) for result in chosen]
    if chosen:
        page = write_page(joined_page(chosen), output)
        console.print(tally(chosen))
        console.print(f"page {as_place(page)}")
    if docs is not None:
        written = write_docs(docs, chosen, training=partial(time_of_runs, Store(runs)))
        console.print(f"pages {as_place(docs / 'README.md')}: {tally(written)}")
        if readme is not None:
            console.print(f"summary {as_place(write_summary(readme, written, docs))}")


def drawn_anew(result: Result) -> Result:
    """A result with its picture drawn anew, if its study is the one that has measured it."""
    for study in STUDIES:
        if study.name == result.name and not changed_since(result):
            return redrawn(result, study)
    return result


def time_of_runs(store: Store, results: Sequence[Result]) -> TrainingTime | None:
    """How long the runs of all studies took, each counted once; None if some are not here."""
    names = {name for result in results for name in result.runs}
    known: dict[str, Run] = {run.name: run for run in store.runs()}
    if not names <= set(known):
        return None
    return training_time(known[name] for name in names)
