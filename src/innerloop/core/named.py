"""Things of other packages, named on the command line: `mypackage.studies:fig1`."""

import sys
from collections.abc import Callable
from importlib import import_module
from inspect import isabstract
from pathlib import Path
from types import ModuleType
from typing import Any, TypeVar

from innerloop.core.errors import ConfigurationError, unknown

Thing = TypeVar("Thing")


def is_named(text: str) -> bool:
    """Whether a text is `module:name` with a module that could be imported."""
    module, colon, name = text.partition(":")
    words = [*module.split("."), name]
    return bool(colon) and all(word.isidentifier() for word in words)


def import_named(text: str, kind: type[Thing], what: str) -> Thing:
    """The object that `module:name` stands for, of a kind, which messages call `what`.

    The module is imported as Python would from the current folder, which runs its code: a name must
    come from the user, never from a file that somebody else could have written.
    """
    return _imported(text, lambda thing: isinstance(thing, kind), what)


def import_class(text: str, base: type[Thing], what: str) -> type[Thing]:
    """The class that `module:name` stands for, derived from a base; imported as by import_named."""
    return _imported(text, lambda thing: is_subclass(thing, base), what)


def import_class_or_instance(text: str, base: type[Thing], what: str) -> type[Thing] | Thing:
    """A class derived from a base, or an object of one; imported as by import_named."""
    return _imported(text, lambda thing: isinstance(thing, base) or is_subclass(thing, base), what)


def class_in_memory(text: str, base: type[Thing]) -> type[Thing] | None:
    """The class that `module:name` stands for, if its module has been imported already.

    For names in files: nothing is imported, and no code of the module runs.
    """
    module, _, name = text.partition(":")
    home = sys.modules.get(module)
    thing = None if home is None else vars(home).get(name)
    return thing if is_subclass(thing, base) else None


def name_of_class(kind: type[Any]) -> str | None:
    """The `module:name` by which a class is found again; None if there is no such name."""
    name = f"{kind.__module__}:{kind.__qualname__}"
    return name if is_named(name) and class_in_memory(name, kind) is kind else None


def is_subclass(thing: object, base: type[Any]) -> bool:
    """Whether a thing is a class derived from a base, of which there can be objects."""
    return isinstance(thing, type) and issubclass(thing, base) and not isabstract(thing)


def _imported(text: str, fits: Callable[[Any], bool], what: str) -> Any:
    """What `module:name` stands for, if it fits."""
    module, _, name = text.partition(":")
    if not is_named(text):
        raise ConfigurationError(
            f"{text!r} does not name a {what}: write module:name, as mypackage.studies:fig1."
        )
    home = _module(text, module)
    known = [key for key, value in vars(home).items() if fits(value)]
    thing = getattr(home, name, None)
    if thing is None:
        raise ConfigurationError(unknown(f"{what} of {module}", name, known))
    if not fits(thing):
        given = "a class" if isinstance(thing, type) else f"of the type {type(thing).__name__}"
        raise ConfigurationError(
            f"{text} is {given}, expected a {what}"
            + (f": {module} has {', '.join(known)}." if known else ".")
        )
    return thing


def _module(text: str, module: str) -> ModuleType:
    here = str(Path.cwd())
    if here not in sys.path:
        sys.path.insert(0, here)  # stays, so that processes that are started find it too
    try:
        return import_module(module)
    except ModuleNotFoundError as error:
        # A module that the named one imports may be missing as well: that is another mistake.
        if error.name is None or not f"{module}.".startswith(f"{error.name}."):
            raise
        raise ConfigurationError(
            f"there is no module {error.name!r} for {text!r}: install its package, or go to the "
            "folder that it is in."
        ) from error
