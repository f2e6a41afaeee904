"""The pages of the API: for each package a table of its public names, and each name's docstring.

The names are those of `__all__`. Each is written about on one page, by the module that defines it:
`il.analysis.identify` is a function in a module of the same name, which would hide it if the page
were made of the package itself.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import griffe

PACKAGES = (
    "core", "data", "tasks", "tasks.shifts", "learners", "models", "language", "training",
    "circuits", "analysis", "analysis.drawing", "studies", "studies.nulls", "estimators", "",
)  # fmt: skip
"""What a user finds behind `il.`, and at last `il` itself."""


@dataclass(frozen=True, slots=True)
class Name:
    """A public name."""

    shown: str
    """As a user writes it, `il.tasks.LinearRegression`."""
    path: str
    """Where it is defined, `innerloop.tasks.linear.LinearRegression`."""
    summary: str
    """The first line of its docstring."""

    @property
    def row(self) -> str:
        """Its row in the table of a page; a bar in it would end the cell."""
        summary = self.summary.replace("|", "\\|")
        return f"| [`{self.shown}`][{self.path}] | {summary} |"

    @property
    def entry(self) -> str:
        """What makes mkdocstrings write about it."""
        label = self.shown.rpartition(".")[2]
        options = f"{{heading: {self.shown}, toc_label: {label}, heading_level: 2}}"
        return f"::: {self.path}\n    options: {options}"


def api_pages(source: Path) -> dict[str, str]:
    """Page -> its Markdown; a name that two packages export is written about in the first."""
    root = griffe.load("innerloop", search_paths=[source])
    assert isinstance(root, griffe.Module)
    written: set[str] = set()
    made: dict[str, str] = {}
    for package in PACKAGES:
        module = module_at(root, f"innerloop.{package}".rstrip("."))
        names = list(public_names(root, module))
        here = [name for name in names if name.path not in written]
        written |= {name.path for name in here}
        parts = [
            f"# il.{package}".rstrip("."),
            module.docstring.value if module.docstring else "",
            "\n".join(["| name | what it is |", "|---|---|", *(name.row for name in names)]),
            *(name.entry for name in here),
        ]
        made[f"api/{package or 'il'}.md"] = "\n\n".join(parts) + "\n"
    return made


def public_names(root: griffe.Module, module: griffe.Module) -> Iterator[Name]:
    """What a module exports, or defines where it has no `__all__`; modules are left out."""
    own = [
        name
        for name, member in module.members.items()
        if not (member.is_alias or name.startswith("_") or member.docstring is None)
    ]
    for name in map(str, module.exports or own):
        thing = definition(root, module, name).members[name]
        if isinstance(thing, griffe.Module):
            continue
        if thing.docstring is None:
            raise ValueError(f"{thing.path} is public and has no docstring: write one.")
        shown = "il" + f"{module.path}.{name}".removeprefix("innerloop")
        yield Name(shown, thing.path, thing.docstring.value.splitlines()[0])


def definition(root: griffe.Module, module: griffe.Module, name: str) -> griffe.Module:
    """The module that defines what a module exports, which may have it from another one."""
    while name in module.imports:
        parent = module.imports[name].rpartition(".")[0]
        if parent == module.path:
            break  # a module inside this package
        module = module_at(root, parent)
    return module


def module_at(root: griffe.Module, path: str) -> griffe.Module:
    """The module of a path that begins with `innerloop`; never a function of that name."""
    for part in path.split(".")[1:]:
        inner = root.members[part]
        assert isinstance(inner, griffe.Module), f"{path} is no module"
        root = inner
    return root
