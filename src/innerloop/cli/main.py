"""The command `innerloop`: its help, its version, and how mistakes end it."""

import sys
from importlib import metadata
from typing import Annotated

import typer
from rich.markup import escape

from innerloop.cli.console import Console
from innerloop.cli.verbs import LazyVerbs
from innerloop.core.errors import InnerloopError
from innerloop.training.interrupt import interruptible

app = typer.Typer(
    help="innerloop: a laboratory for the learning algorithms inside transformers.\n\n"
    "Start with `innerloop demo`. Look around with `innerloop tasks`, `innerloop learners` and "
    "`innerloop recipes`; train a model with `innerloop train`, and compare it with any learner by "
    "`innerloop evaluate`; `innerloop identify` says which algorithm is inside, `innerloop "
    "inspect` what heads and MLPs do. Known algorithms become weights by `innerloop compile`, and "
    "are held to it by `innerloop verify`.\n\n"
    "`innerloop studies` lists the figures, tables and theorems of the papers, `innerloop "
    "reproduce` does them again, with a verdict on every claim, and `innerloop report` joins all "
    "in one page.",
    cls=LazyVerbs,
    add_completion=False,
    pretty_exceptions_enable=False,
)


@app.callback(invoke_without_command=True)
def _version(
    context: typer.Context,
    version: Annotated[
        bool, typer.Option("--version", help="Print the version and leave.")
    ] = False,
) -> None:
    if version:
        print(f"innerloop {metadata.version('innerloop')}")
        raise typer.Exit
    if context.invoked_subcommand is None:
        print(context.get_help())
        raise typer.Exit


def main(arguments: list[str] | None = None) -> None:
    """Run the command line; a user's mistake is one sentence and exit code 2."""
    try:
        app(args=arguments)
    except InnerloopError as error:
        # Signals wait: torchrun sends one to all processes as soon as one of them has failed.
        with interruptible():
            Console(stderr=True, soft_wrap=True).print(
                f"[red]error:[/] {escape(str(error))}", highlight=False
            )
        sys.exit(2)
