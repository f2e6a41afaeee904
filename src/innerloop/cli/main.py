"""The command `innerloop`: one file a verb, put together here."""

import sys
from importlib import metadata
from typing import Annotated

import typer
from rich.console import Console
from rich.markup import escape

from innerloop.cli.demo import demo
from innerloop.cli.evaluate import evaluate
from innerloop.cli.listing import learners, tasks
from innerloop.core.errors import InnerloopError

app = typer.Typer(
    help="innerloop: a laboratory for the learning algorithms inside transformers.\n\n"
    "Start with `innerloop demo`, look around with `innerloop tasks` and `innerloop learners`, "
    "then compare learners with `innerloop evaluate`.",
    add_completion=False,
    pretty_exceptions_enable=False,
)
for _verb in (tasks, learners, evaluate, demo):
    app.command()(_verb)


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
        Console(stderr=True, soft_wrap=True).print(
            f"[red]error:[/] {escape(str(error))}", highlight=False
        )
        sys.exit(2)
