"""The pages of the site that are not files of docs/: README, changes, tutorials and the API.

Links are written for people who read the files in the repository. The same links work on the site:
one that leads to a file which has a page here is pointed at that page, and one that leads to any
other file of the repository, such as a test, is left as its text.
"""

import json
import posixpath
import re
from pathlib import Path

from api import api_pages  # mkdocs looks beside the hook, too
from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page
from tutorials import tutorial

ROOT = Path(__file__).parents[2]

OUTSIDE = {
    "README.md": "tour.md",
    "CHANGELOG.md": "changes.md",
    "CONTRIBUTING.md": "contributing.md",
}
"""File of the repository -> its page on the site."""

LINK = re.compile(r"(?<!!)\[(?P<text>[^\]]*)\]\((?P<path>[^)\s#:]+)(?P<anchor>#[^)\s]*)?\)")
IMAGE = re.compile(r"(?P<before>!\[[^\]]*\]\()(?P<path>[^)\s:]+)(?=\))")


def notebooks() -> dict[str, str]:
    """File of a tutorial -> its page on the site."""
    found = sorted((ROOT / "examples").glob("*.ipynb"))
    return {f"examples/{path.name}": f"tutorials/{path.stem}.md" for path in found}


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the pages that are made of other files."""
    made: dict[str, str | bytes] = {
        page: (ROOT / name).read_text("utf-8") for name, page in OUTSIDE.items()
    }
    for name, page in notebooks().items():
        made |= tutorial(json.loads((ROOT / name).read_text("utf-8")), page)
    made |= api_pages(ROOT / "src")
    for uri, content in made.items():
        files.append(File.generated(config, uri, content=content))
    return files


def on_page_markdown(markdown: str, *, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Point links between files of the repository at pages of the site."""
    pages = OUTSIDE | notebooks()
    here = page.file.src_uri
    origin = {made: name for name, made in pages.items()}.get(here, f"docs/{here}")

    def on_site(path: str) -> str | None:
        """Where a link leads on the site; None where only the repository has the file."""
        target = posixpath.normpath(posixpath.join(posixpath.dirname(origin), path))
        uri = pages.get(target)
        if target.startswith("docs/"):
            uri = target.removeprefix("docs/")
        elif uri is None:
            # A file that is nowhere stays as it is, for mkdocs to complain about.
            return None if (ROOT / target).exists() else path
        return posixpath.relpath(uri, posixpath.dirname(here) or ".")

    def link(match: re.Match[str]) -> str:
        path = on_site(match["path"])
        return (
            match["text"] if path is None else f"[{match['text']}]({path}{match['anchor'] or ''})"
        )

    def image(match: re.Match[str]) -> str:
        return match["before"] + (on_site(match["path"]) or match["path"])

    return IMAGE.sub(image, LINK.sub(link, markdown))
