"""One self-contained HTML page: text, figures drawn into it, tables. No network, no scripts."""

import base64
import math
import re
from dataclasses import dataclass
from importlib import resources
from io import StringIO
from pathlib import Path

import pandas as pd
from jinja2 import Environment, StrictUndefined
from markupsafe import Markup, escape
from matplotlib import rc_context
from matplotlib.figure import Figure

from innerloop.core.files import write_atomically


@dataclass(frozen=True, slots=True, kw_only=True)
class Cell:
    """A cell of a table that is more than a word."""

    text: str
    detail: tuple[str, ...] = ()
    """Smaller lines below it."""
    link: str = ""
    """The anchor of a section of the page."""
    mark: str = ""
    """A kind of answer, shown by colour as well as by the text: confirmed, contradicted, .."""

    def __str__(self) -> str:
        return self.text


@dataclass(frozen=True, slots=True, kw_only=True)
class Fact:
    """A heading with a sentence, of a list of such."""

    heading: str
    text: str
    code: bool = False
    """Whether it is to be typed."""


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class Folded:
    """A table that is shown when a reader opens it."""

    title: str
    table: pd.DataFrame


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class Section:
    """A heading with what comes under it, in this order: text, figure, table, facts, the rest."""

    title: str
    level: int = 2
    """Of the heading."""
    anchor: str = ""
    """What links to it are called."""
    text: str = ""
    """Paragraphs, with an empty line between two."""
    figure: Figure | bytes | None = None
    """To be drawn, or a PNG."""
    description: str = ""
    """What the figure shows, for a reader who cannot see it."""
    table: pd.DataFrame | None = None
    facts: tuple[Fact, ...] = ()
    folded: tuple[Folded, ...] = ()

    @property
    def paragraphs(self) -> list[str]:
        """The text, a paragraph each."""
        return [part.strip() for part in self.text.split("\n\n") if part.strip()]


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class Page:
    """A title, a summary, and sections."""

    title: str
    summary: str = ""
    sections: tuple[Section, ...] = ()
    footer: str = ""


def render_page(page: Page) -> str:
    """The page as HTML; all text is escaped, figures are drawn as SVG or put in as PNG."""
    environment = Environment(
        autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True
    )
    text = resources.files("innerloop.report").joinpath("page.html.j2").read_text("utf-8")
    return environment.from_string(text).render(
        page=page, prose=_prose, svg=_svg, png=_png, cell=_cell,
        drawn=lambda figure: isinstance(figure, bytes),
        special=lambda value: isinstance(value, Cell),
        number=lambda value: isinstance(value, int | float),
    )  # fmt: skip


def write_page(page: Page, path: Path) -> Path:
    """Write the page to a file, whole or not at all."""
    text = render_page(page)
    return write_atomically(path, lambda file: file.write_text(text, "utf-8"))


def _svg(figure: Figure) -> Markup:
    """A figure as an <svg> element, the same at every run."""
    # Letters as shapes: the page looks the same whatever fonts its reader has.
    with rc_context({"svg.fonttype": "path", "svg.hashsalt": "innerloop"}):
        text = StringIO()
        figure.savefig(text, format="svg", metadata={"Date": None, "Creator": None})
    drawn = text.getvalue()
    return Markup(drawn[drawn.index("<svg") :])  # drawn here, of escaped labels


def _prose(text: str) -> Markup:
    """Escaped text, with what stands between backticks as code."""
    return Markup(re.sub(r"`([^`]+)`", r"<code>\1</code>", str(escape(text))))


def _png(picture: bytes) -> str:
    """A picture as an address that holds it."""
    return f"data:image/png;base64,{base64.b64encode(picture).decode()}"


def _cell(value: object) -> str:
    """A number with three digits, none as a dash; anything else as it is."""
    if isinstance(value, float):
        return "-" if math.isnan(value) else f"{value:.3g}"
    return str(value)
