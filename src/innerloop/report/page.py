"""One self-contained HTML page: text, figures whose values can be read, tables. No network."""

import base64
import hashlib
import math
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from importlib import resources
from io import BytesIO
from pathlib import Path

import pandas as pd
from jinja2 import Environment, StrictUndefined
from markupsafe import Markup, escape
from matplotlib.figure import Figure

from innerloop.analysis.drawing import save_small
from innerloop.core.files import write_atomically
from innerloop.report.plot import Plot, plot

LARGEST = 150_000
"""Characters of a figure that can be read; a larger one is a PNG."""
FEWEST = 4
"""Places that a table of contents is worth having for."""


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
    tags: Mapping[str, str] = field(default_factory=dict)
    """What filters know its row by: `{"verdict": "confirmed"}`."""

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
    drawn_from: tuple[pd.DataFrame, ...] = ()
    """The figure's tables, whose columns mean, low and high hold the intervals."""
    description: str = ""
    """What the figure shows, for a reader who cannot see it."""
    table: pd.DataFrame | None = None
    facts: tuple[Fact, ...] = ()
    folded: tuple[Folded, ...] = ()
    tags: Mapping[str, str] = field(default_factory=dict)
    """What filters know it by; several values of one have a space between them."""

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
    filters: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    """What a reader can choose by, and the choices: values of tags, and their names."""

    @property
    def contents(self) -> list[Section]:
        """The sections that a table of contents leads to, if it is worth having."""
        places = [section for section in self.sections if section.anchor]
        return places if len(places) >= FEWEST else []


def render_page(page: Page) -> str:
    """The page as HTML; all text is escaped, and no script runs but the page's own."""
    environment = Environment(
        autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True
    )
    files = resources.files("innerloop.report")
    script = files.joinpath("page.js").read_text("utf-8")
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    figures = {index: _drawn(section, f"f{index}") for index, section in enumerate(page.sections)}
    return environment.from_string(files.joinpath("page.html.j2").read_text("utf-8")).render(
        page=page, figures=figures, prose=_prose, png=_png, cell=_cell, tags=_tags,
        script=Markup(script), digest=digest, safe=Markup,
        readable=lambda figure: isinstance(figure, Plot),
        special=lambda value: isinstance(value, Cell),
        number=lambda value: isinstance(value, int | float),
    )  # fmt: skip


def write_page(page: Page, path: Path) -> Path:
    """Write the page to a file, whole or not at all."""
    text = render_page(page)
    return write_atomically(path, lambda file: file.write_text(text, "utf-8"))


def _drawn(section: Section, name: str) -> Plot | bytes | None:
    """A section's figure: as SVG with its values, or as PNG where that would be too large."""
    if not isinstance(section.figure, Figure):
        return section.figure
    drawn = plot(section.figure, name, section.drawn_from)
    if drawn.size <= LARGEST:
        return drawn
    picture = BytesIO()
    save_small(section.figure, picture)
    return picture.getvalue()


def _tags(row: tuple[object, ...]) -> dict[str, str]:
    """What filters know a row of a table by."""
    own = [cell.tags for cell in row if isinstance(cell, Cell)]
    return {name: value for tags in own for name, value in tags.items()}


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
