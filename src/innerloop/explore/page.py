"""The page as one file: its text, style, scripts and models."""

import json
from collections.abc import Sequence
from importlib import metadata, resources
from pathlib import Path
from typing import Any

from jinja2 import Environment, StrictUndefined

from innerloop.core.files import require_folder, write_atomically

FILE = "index.html"
SCRIPTS = (
    "transformer.js", "learners.js", "race.js", "problem.js", "plot.js", "panel.js", "tables.js",
    "page.js",
)  # fmt: skip
"""In one scope: names are used by those behind."""


def explore_page(sheets: Sequence[dict[str, Any]]) -> str:
    """The page with these models, as HTML that needs nothing beside it."""
    assets = resources.files("innerloop.explore").joinpath("assets")

    def text(name: str) -> str:
        return assets.joinpath(name).read_text("utf-8")

    environment = Environment(autoescape=False, undefined=StrictUndefined)
    return environment.from_string(text("page.html.j2")).render(
        style=text("style.css"),
        script="\n".join(text(name) for name in SCRIPTS),
        # Labels may come from a stranger's file: within a script element only "<" could end it.
        sheets=json.dumps(list(sheets)).replace("<", "\\u003c"),
        version=metadata.version("innerloop"),
    )


def write_explore_page(sheets: Sequence[dict[str, Any]], folder: Path) -> Path:
    """Write the page into a folder, whole or not at all, and return where it is."""
    require_folder(folder)
    page = explore_page(sheets)
    return write_atomically(folder / FILE, lambda file: file.write_text(page, "utf-8"))
