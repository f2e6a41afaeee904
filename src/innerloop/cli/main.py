"""The command `innerloop`: its help, its version, and how mistakes end it."""

import io
import os
import sys
import unicodedata
from importlib import metadata
from typing import Annotated, NoReturn

import typer
from rich.markup import escape

from innerloop.cli.console import Console
from innerloop.cli.ctrl_c import CTRL_C
from innerloop.cli.verbs import LazyVerbs
from innerloop.core.errors import InnerloopError, is_out_of_memory
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
    """Run the command line; a user's mistake is one sentence and exit code 2.

    So is what the system refuses: a place that cannot be used, or memory that is not there.
    """
    words = sys.argv[1:] if arguments is None else arguments
    # A file's name need not be text: what cannot be encoded is printed as \udcff.
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")
    try:
        _require_plain(words)
        app(args=words)
    except InnerloopError as error:
        _leave(str(error))
    except OSError as error:
        place = "" if error.filename is None else f" {_printable(os.fsdecode(error.filename))!r}"
        _leave(f"cannot use{place}: {error.strerror or error}. Choose another place.")
    except Exception as error:
        if is_out_of_memory(error):
            _leave("this machine has not enough memory for that: take smaller sizes.")
        if not CTRL_C.pressed:
            raise
        print("Aborted.", file=sys.stderr)
        sys.exit(130)
    finally:
        CTRL_C.end()


def _leave(sentence: str) -> NoReturn:
    """Print what was wrong, in one line, and end."""
    # Signals wait: torchrun sends one to all processes as soon as one of them has failed.
    with interruptible():
        Console(stderr=True, soft_wrap=True).print(
            f"[red]error:[/] {escape(_printable(sentence))}", highlight=False
        )
    sys.exit(2)


def _require_plain(words: list[str]) -> None:
    """Refuse characters that a terminal would obey where a word is printed, and bytes of no text.

    Texts may have several lines.
    """
    for word in words:
        kinds = {unicodedata.category(character) for character in word if character not in "\n\t"}
        if "Cc" in kinds:
            raise InnerloopError(f"the word {word!r} holds a control character: leave it out.")
        if "Cs" in kinds:
            raise InnerloopError(f"the word {word!r} is not UTF-8: give files a name that is.")


def _printable(text: str) -> str:
    """The text with every character that cannot be shown as Python writes it."""
    return "".join(c if c.isprintable() else repr(c)[1:-1] for c in text)
