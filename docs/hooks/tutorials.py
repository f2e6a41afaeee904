"""Notebooks as pages: their text, their code, and what it printed and drew when it was run."""

import posixpath
import re
from base64 import b64decode
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from latex2mathml.converter import convert

FORMULA = re.compile(r"\$([^$\n]+)\$")
MAGIC = re.compile(r"^%.*\n?", flags=re.MULTILINE)
"""Lines that are for Jupyter alone, as `%matplotlib inline`."""


def tutorial(notebook: dict[str, Any], page: str) -> dict[str, str | bytes]:
    """The page of a notebook, and its pictures, by their places on the site."""
    made: dict[str, str | bytes] = {}
    parts: list[str] = []
    for cell in notebook["cells"]:
        source = "".join(cell["source"])
        if cell["cell_type"] == "markdown":
            parts.append(FORMULA.sub(formula, source))
        elif code := MAGIC.sub("", source).strip():
            parts.append(fenced(code, "python"))
            for shown in shown_by(cell):
                if isinstance(shown, bytes):
                    name = f"{Path(page).stem}-{len(made)}.png"
                    made[posixpath.join(posixpath.dirname(page), name)] = shown
                    parts.append(f"![]({name})")
                else:
                    parts.append(fenced(shown, "text"))
    made[page] = "\n\n".join(parts) + "\n"
    return made


def formula(match: re.Match[str]) -> str:
    """TeX as MathML, which browsers draw without a script from elsewhere."""
    return f"<span>{convert(match[1])}</span>"  # a line that begins with <math> would be a block


def shown_by(cell: dict[str, Any]) -> Iterator[str | bytes]:
    """What a cell has printed, as text, and drawn, as PNG."""
    for output in cell["outputs"]:
        data = output.get("data", {})
        if "image/png" in data:
            yield b64decode("".join(data["image/png"]))
        elif text := "".join(output.get("text", data.get("text/plain", ""))):
            yield text


def fenced(text: str, language: str) -> str:
    """A block of code."""
    return f"````{language}\n{text.rstrip()}\n````"
