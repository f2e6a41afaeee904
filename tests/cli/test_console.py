"""What is printed is text: nothing in a label or a message commands the terminal."""

from io import StringIO

import pytest
from rich.table import Table

from innerloop.cli.console import Console
from innerloop.core.words import printable

EVIL = "a\x1b[2J\x07b\x9b31mc\u202ed\x00\udcff"


COMMANDS = ("\x1b[2J", "\x07", "\x9b", "\u202e", "\x00", "\udcff")


@pytest.mark.parametrize("form", ["text", "markup", "table"])
def test_control_characters_never_reach_the_terminal(form: str) -> None:
    screen = StringIO()
    console = Console(file=screen, force_terminal=True, highlight=False, width=200)
    if form == "table":
        table = Table(title=EVIL)
        table.add_column(EVIL)
        table.add_row(EVIL)
        console.print(table)
    else:
        console.print(EVIL if form == "text" else f"[red]{EVIL}[/]", markup=form == "markup")
    printed = screen.getvalue()
    assert "[2J" in printed  # the letters are there
    assert [command for command in COMMANDS if command in printed] == []


def test_its_own_colours_stay() -> None:
    screen = StringIO()
    Console(file=screen, force_terminal=True, color_system="truecolor").print("[red]a[/]\tb\nc")
    assert "\x1b[31m" in screen.getvalue()


def test_printable_text_is_as_it_was() -> None:
    text = "E[y²], naïve, 日本語, a\tb\nc"
    assert printable(text) == text
    assert printable("a\x1bb") == "a\ufffdb"
