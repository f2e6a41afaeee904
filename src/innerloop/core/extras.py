"""Packages that are not needed by all, imported where they are used."""

import importlib
from types import ModuleType

from innerloop.core.errors import InnerloopError


def import_extra(module: str, extra: str, what: str) -> ModuleType:
    """A package of one of the extras; the sentence of its absence says what needs it."""
    try:
        return importlib.import_module(module)
    except ModuleNotFoundError as error:
        if error.name is None or error.name.partition(".")[0] != module.partition(".")[0]:
            raise
        raise InnerloopError(
            f"{what} needs the package {module}: pip install 'innerloop[{extra}]'."
        ) from error
