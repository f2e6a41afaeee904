"""The code that a study's numbers come from: its own module, and all that it measures with.

A module is written out as its syntax tree without what changes no number: comments, docstrings,
error messages, what a study says of itself, and how it draws. The form is our own: `ast.dump` gives
another text on each version of Python.
"""

import ast
from collections.abc import Callable, Iterator
from functools import cache
from importlib.util import find_spec, resolve_name
from inspect import getfile
from itertools import groupby
from pathlib import Path
from typing import Any

ROOMS = ("analysis", "circuits", "core", "learners", "models", "studies", "tasks")
"""Rooms of this package that are followed: what training changes is in the weights of a run."""
_UNSAID = ("ctx", "kind", "type_comment")
"""Fields of a syntax tree that follow from others or say nothing."""
_SAYS = ("title", "smaller", "notes", "minutes")
"""Arguments by name that are texts for readers, or estimates of time."""


def code_of(measure: Callable[..., Any], *kinds: type) -> dict[str, str]:
    """The code of a study's function, by module, with that of the kinds it is given at run time.

    Kinds are classes that no import names, such as the models and tasks of its runs. Imports are
    followed within the rooms above and within the study's own package.
    """
    own = (measure.__module__ or "").partition(".")[0]
    others = () if own in ("", "innerloop", "__main__") else (f"{own}.",)
    followed = (*(f"innerloop.{room}." for room in ROOMS), *others)
    start = Path(getfile(measure))
    if not start.is_file():  # written in a shell: there is nothing to read but its byte code
        code = measure.__code__
        return {own: repr((code.co_code.hex(), code.co_consts, code.co_names))}
    known: dict[str, str] = {}
    left = [(measure.__module__, start)]
    left += [(kind.__module__, Path(getfile(kind))) for kind in kinds]
    while left:
        module, path = left.pop()
        if module not in known:
            known[module], imported = _read(module, path, path.stat().st_mtime_ns)
            left += [
                (name, file)
                for name in imported
                if name.startswith(followed) and (file := _file_of(name)) is not None
            ]
    return dict(sorted(known.items()))


@cache
def _read(module: str, path: Path, _changed: int) -> tuple[str, tuple[str, ...]]:
    """What a module computes, as text, and the modules that it takes names from."""
    tree = ast.parse(path.read_text("utf-8"))
    package = module if path.name == "__init__.py" else module.rpartition(".")[0]
    return written_out(tree), tuple(dict.fromkeys(_sources(tree, package)))


def written_out(node: Any) -> str:
    """A syntax tree as text: the same on every version of Python, whatever fields it adds.

    What is empty is left out, and so are docstrings, what is raised, texts for readers, and
    functions that draw.
    """
    if isinstance(node, ast.Raise):
        return "Raise"
    if isinstance(node, ast.JoinedStr):  # how its texts are cut into pieces depends on the version
        groups = groupby(node.values, lambda part: isinstance(part, ast.Constant))
        parts = [
            ascii("".join(str(part.value) for part in several if isinstance(part, ast.Constant)))
            if text
            else ", ".join(written_out(part) for part in several)
            for text, several in groups
        ]
        return f"JoinedStr({', '.join(part for part in parts if part != ascii(''))})"
    if isinstance(node, ast.AST):
        fields = (
            f"{name}={written_out(value)}"
            for name, value in sorted(ast.iter_fields(node))
            if name not in _UNSAID and value is not None and value != []
        )
        return f"{type(node).__name__}({', '.join(fields)})"
    if isinstance(node, list):
        return f"[{', '.join(written_out(part) for part in node if not _is_shown(part))}]"
    return ascii(node)  # not repr: which letters it escapes depends on the version


def _is_shown(node: Any) -> bool:
    """Whether this is for readers alone: a docstring, a text that a study says, what draws."""
    if isinstance(node, ast.keyword):
        return node.arg in _SAYS
    if isinstance(node, ast.FunctionDef):
        return _draws(node)
    if isinstance(node, ast.ImportFrom):
        return (node.module or "").partition(".")[0] == "matplotlib"
    return isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)


def _draws(function: ast.FunctionDef) -> bool:
    """Whether it says that it makes a figure, or draws into axes: numbers are written before."""
    arguments = function.args
    taken = [each.annotation for each in (*arguments.args, *arguments.kwonlyargs)]
    return _names(function.returns, "Figure") or any(_names(each, "Axes") for each in taken)


def _names(annotation: ast.expr | None, kind: str) -> bool:
    return annotation is not None and any(
        isinstance(node, ast.Name) and node.id == kind for node in ast.walk(annotation)
    )


def _sources(tree: ast.AST, package: str) -> Iterator[str]:
    """The modules that a syntax tree takes names from, behind the packages that re-export them."""
    packages: dict[str, str] = {}  # names here that are packages, whose attributes are taken
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            for alias in node.names:
                top = alias.name.partition(".")[0]
                packages[alias.asname or top] = alias.name if alias.asname else top
                yield alias.name
        elif isinstance(node, ast.ImportFrom):
            for alias in node.names:
                source = _defining(_absolute(node, package), alias.name)
                packages[alias.asname or alias.name] = source
                yield source
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute):
            first, *names = ast.unparse(node).split(".")  # `il.learners.OLS`, or no names
            if first in packages and all(map(str.isidentifier, names)):
                source = packages[first]
                for name in names:
                    source = _defining(source, name) if _is_package(source) else source
                yield source


def _absolute(node: ast.ImportFrom, package: str) -> str:
    """The module that names are imported from, where dots stand for the package."""
    return resolve_name("." * node.level + (node.module or ""), package)


@cache
def _defining(module: str, name: str) -> str:
    """The module that a name of a module comes from; a package's own file only hands names on."""
    if _file_of(f"{module}.{name}") is not None:
        return f"{module}.{name}"
    file = _file_of(module)
    if file is None or not _is_package(module):
        return module
    for node in ast.walk(ast.parse(file.read_text("utf-8"))):
        if isinstance(node, ast.ImportFrom):
            for alias in node.names:
                if (alias.asname or alias.name) == name:
                    return _defining(_absolute(node, module), alias.name)
    return module


def _is_package(module: str) -> bool:
    file = _file_of(module)
    return file is not None and file.name == "__init__.py"


@cache
def _file_of(module: str) -> Path | None:
    """The file of a module; None if there is no such module, or it has no file."""
    try:
        spec = find_spec(module)
    except (ImportError, ValueError, AttributeError):  # its parent is no package
        return None
    return None if spec is None or not spec.has_location else Path(spec.origin or "")
