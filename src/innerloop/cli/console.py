"""The terminal: labels and messages reach it as text, never as commands."""

from collections.abc import Iterable
from typing import Any

import rich.console
from rich.markup import escape
from rich.segment import Segment

from innerloop.core.words import printable


class Console(rich.console.Console):
    """Rich's, but that control characters in what is printed are replaced; its own are not."""

    def render(self, renderable: Any, options: Any = None) -> Iterable[Segment]:
        """What is printed, in pieces."""
        for piece in super().render(renderable, options):
            if piece.control or piece.text.isprintable():
                yield piece
            else:
                yield Segment(printable(piece.text), piece.style)


def as_place(path: object) -> str:
    """A file, folder or address as markup: coloured, whatever brackets are in its name."""
    return f"[cyan]{escape(str(path))}[/]"
