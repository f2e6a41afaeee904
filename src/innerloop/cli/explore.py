"""`innerloop explore`: a page where one watches transformers learn in context."""

import webbrowser
from pathlib import Path
from typing import Annotated, Any

import typer

from innerloop.cli.console import Console, as_place
from innerloop.cli.subjects import is_run, note_unfinished
from innerloop.core.errors import ConfigurationError
from innerloop.explore.gallery import gallery
from innerloop.explore.page import explore_page, write_explore_page
from innerloop.explore.server import served
from innerloop.explore.sheet import sheet
from innerloop.models.checkpoint import load
from innerloop.models.pretrained import SHIPPED, pretrained
from innerloop.training.interrupt import interruptible
from innerloop.training.run import Run


def explore(
    models: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[RUN|MODEL...]",
            help="Folders of runs or models with one or two inputs, or names of models that come "
            "with innerloop. They stand before those of the page.",
        ),
    ] = None,
    export: Annotated[
        Path | None,
        typer.Option(
            metavar="DIR",
            help="Write the page as DIR/index.html, one file that needs neither server nor "
            "network, and leave.",
        ),
    ] = None,
    port: Annotated[int, typer.Option(min=0, max=65535, help="Port; 0: any that is free.")] = 0,
    open_browser: Annotated[
        bool, typer.Option("--open/--no-open", help="Open it in the browser.")
    ] = True,
) -> None:
    """Watch transformers learn in context, on a page in the browser.

    Drag the examples of a problem with one or two inputs, and see what each model predicts after
    every loop, beside gradient descent, Newton's method, ridge and least squares. The models run in
    the page; it is served on this machine only.

    For example:

    innerloop explore

    innerloop explore --export page

    innerloop train looped-line seed=1 && innerloop explore runs/looped-line-...
    """
    sheets = _together([_own(word) for word in models or ()], gallery())
    console = Console()
    if export is not None:
        path = write_explore_page(sheets, export)
        console.print(f"page {as_place(path)}", soft_wrap=True)
        return
    with interruptible() as interruption, served(explore_page(sheets), port) as address:
        console.print(f"page {as_place(address)}, Ctrl-C ends it", soft_wrap=True)
        if open_browser:
            webbrowser.open(address)
        interruption.wait()


def _together(own: list[dict[str, Any]], others: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The user's models, then those of the page; the page knows each by its name."""
    names = [sheet["name"] for sheet in own]
    for name in names:
        if names.count(name) > 1:
            raise ConfigurationError(
                f"two of the models are called {name!r}, and the page knows a model by its name: "
                "give one of them, or rename a folder."
            )
    return own + [sheet for sheet in others if sheet["name"] not in names]


def _own(word: str) -> dict[str, Any]:
    """The sheet of a model that the user names."""
    folder = Path(word)
    if word in SHIPPED:
        return sheet(pretrained(word), name=word, title=word, about="It comes with innerloop.")
    if is_run(folder):
        run = Run.open(folder)
        note_unfinished(run)
        about = f"Trained for {run.step} steps on {run.config.task_name}."
        return sheet(run.model(), name=folder.name, title=folder.name, about=about)
    if not folder.is_dir():
        raise ConfigurationError(
            f"{word!r} is neither the folder of a run or a model nor one of "
            f"{', '.join(SHIPPED)}: give one of these, or nothing."
        )
    return sheet(load(folder), name=folder.name, title=folder.name, about=f"From {folder.name}.")
