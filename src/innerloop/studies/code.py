"""The code that a study's numbers come from: its own module, and those that it measures with."""

import ast
import inspect
from collections.abc import Callable, Iterator
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any

MEASURING = ("innerloop.studies.", "innerloop.analysis.")
"""Modules that are followed: what is below them, models and learners, has tests of its own."""


def code_of(measure: Callable[..., Any]) -> list[str]:
    """What the modules say that a study stands in and measures with, in a fixed order.

    Comments, docstrings and the form of lines are left out: they change no number.
    """
    path = Path(inspect.getfile(measure))
    if not path.is_file():  # written in a shell
        code = measure.__code__
        return [code.co_code.hex(), repr(code.co_consts), repr(code.co_names)]
    package = (measure.__module__ or "").rpartition(".")[0]
    followed = (*MEASURING, f"{package}.") if package else MEASURING
    found: dict[Path, str] = {}
    left = [path]
    while left:
        file = left.pop()
        if file not in found:
            found[file], imported = _read(file, file.stat().st_mtime_ns)
            for module in imported:
                if module.startswith(followed):
                    left += _file_of(module)
    return [found[file] for file in sorted(found)]


@cache
def _read(path: Path, _changed: int) -> tuple[str, tuple[str, ...]]:
    """What a module says, and the names of all that it imports, modules or not."""
    tree = ast.parse(path.read_text("utf-8"))
    for node in ast.walk(tree):
        body = getattr(node, "body", None)
        if isinstance(body, list):
            node.body = [part for part in body if not _is_text(part)]  # pyright: ignore
    return ast.dump(tree), tuple(dict.fromkeys(_imported(tree)))


def _is_text(node: ast.AST) -> bool:
    """A docstring, of a module, a class, a function or a constant."""
    return isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)


def _imported(tree: ast.AST) -> Iterator[str]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module is not None and node.level == 0:
            yield node.module
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


@cache
def _file_of(module: str) -> tuple[Path, ...]:
    """Where a module stands; nothing if the name is something in a module."""
    try:
        spec = find_spec(module)
    except ModuleNotFoundError:  # its parent is no package
        return ()
    if spec is None or spec.origin is None:
        return ()
    path = Path(spec.origin)
    # A package's own file only joins what stands in others.
    return () if path.name == "__init__.py" else (path,)
