"""Packages that import a name at its first use, so that `import innerloop` is quick.

The `__init__` of a package lists its names as imports under `if TYPE_CHECKING:`, where readers,
editors and type checkers look for them, and ends with `import_at_first_use(__name__)`. A new name
is one line there and one in `__all__`.
"""

import ast
import importlib
import importlib.util
import inspect
import sys
from types import ModuleType
from typing import Any


class LazyPackage(ModuleType):
    """A package whose names are imported when they are asked for, and then kept."""

    _sources: dict[str, tuple[str, str]]
    """Name -> the module that has it, and what it is called there."""

    def __getattr__(self, name: str) -> Any:
        module, called = self._sources.get(name, (self.__name__, name))
        if module != self.__name__:
            value = getattr(importlib.import_module(module), called)
        elif name.startswith("__") or importlib.util.find_spec(f"{module}.{called}") is None:
            raise AttributeError(f"module {self.__name__!r} has no attribute {name!r}")
        else:
            value = importlib.import_module(f"{module}.{called}")
        setattr(self, name, value)
        return value

    def __setattr__(self, name: str, value: Any) -> None:
        # Importing the module `analysis.error` would bind it to the name that the package promises
        # to a function: such names stay free until somebody asks for them.
        source, _ = self._sources.get(name, (self.__name__, name))
        if isinstance(value, ModuleType) and source != self.__name__:
            return
        super().__setattr__(name, value)

    def __dir__(self) -> list[str]:
        return sorted({*super().__dir__(), *self._sources})


def import_at_first_use(package: str) -> None:
    """Let a package import what its source lists under `if TYPE_CHECKING:` at first use."""
    module = sys.modules[package]
    module.__dict__["_sources"] = {
        alias.asname or alias.name: (node.module or "", alias.name)
        for block in ast.parse(inspect.getsource(module)).body
        if isinstance(block, ast.If) and ast.unparse(block.test) == "TYPE_CHECKING"
        for node in block.body
        if isinstance(node, ast.ImportFrom)
        for alias in node.names
    }
    module.__class__ = LazyPackage
