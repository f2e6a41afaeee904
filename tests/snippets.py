"""The code of README.md and of the pages of docs/, block by block.

A block of ```python is run, and every command of ```sh that calls innerloop is understood by it. A
comment on the line before a block says otherwise:

<!-- file: NAME.py -->     the block is that file, in the current folder
<!-- slow: WHY -->         it is run with the slow tests only
<!-- last: WHY -->         it is run after the other blocks of its page
<!-- not run: WHY -->      it is not run
"""

import re
import shlex
import sys
import textwrap
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[1]
PAGES = {path.name: path for path in [*sorted((ROOT / "docs").glob("*.md")), ROOT / "README.md"]}
"""The pages with code by name; docs/README.md, the list of pages, has none."""

BLOCK = re.compile(
    r"^(?:<!-- (?P<kind>file|slow|last|not run): (?P<why>[^\n]+) -->\n)?"
    r"^(?P<indent> *)```(?P<language>\w*)\n(?P<text>.*?)^(?P=indent)```$",
    flags=re.DOTALL | re.MULTILINE,
)
HEADING = re.compile(r"^#+ (.*)$", flags=re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Block:
    """A block of code, and where it stands."""

    page: str
    line: int
    heading: str
    language: str
    kind: str
    """What the comment before it says; empty where there is none."""
    why: str
    text: str

    def run(self, names: dict[str, Any]) -> None:
        """Execute it in a namespace; a traceback names the page and its line."""
        exec(compile("\n" * self.line + self.text, self.page, "exec"), names)


def blocks(page: str, language: str = "python") -> list[Block]:
    """The blocks of one page in a language, from top to bottom."""
    return [block for block in all_blocks(page) if block.language == language]


def all_blocks(page: str) -> Iterator[Block]:
    """The blocks of one page, whatever they are in."""
    text = PAGES[page].read_text("utf-8")
    for match in BLOCK.finditer(text):
        before = text[: match.start("language")]
        yield Block(
            page=page, line=before.count("\n") + 1, heading=HEADING.findall(before)[-1],
            language=match["language"], kind=match["kind"] or "", why=match["why"] or "",
            text=textwrap.dedent(match["text"]),
        )  # fmt: skip


def commands(page: str) -> list[list[str]]:
    """The words of every command of a page that calls innerloop."""
    texts = [block.text.replace("\\\n", " ") for block in blocks(page, "sh")]  # a line may go on
    lines = [line for text in texts for line in text.splitlines()]
    words = [shlex.split(line, comments=True) for line in lines]
    return [line[1:] for line in words if line[:1] == ["innerloop"]]


@contextmanager
def folder_of(pages: Iterable[str], folder: Path) -> Iterator[Path]:
    """A current folder with the files of some pages, whose modules are forgotten afterwards."""
    files = [block for page in pages for block in blocks(page) if block.kind == "file"]
    for block in files:
        (folder / block.why).write_text(block.text, "utf-8")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        patch.setattr(sys, "path", [*sys.path])
        yield folder
    for block in files:
        sys.modules.pop(Path(block.why).stem, None)
