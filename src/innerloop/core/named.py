"""Things of other packages, named on the command line: `mypackage.studies:fig1`."""

import sys
from importlib import import_module
from pathlib import Path
from typing import TypeVar

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
    module, _, name = text.partition(":")
    if not is_named(text):
        raise ConfigurationError(
            f"{text!r} does not name a {what}: write module:name, as mypackage.studies:fig1."
        )
    here = str(Path.cwd())
    if here not in sys.path:
        sys.path.insert(0, here)  # stays, so that processes that are started find it too
    try:
        home = import_module(module)
    except ModuleNotFoundError as error:
        # A module that the named one imports may be missing as well: that is another mistake.
        if error.name is None or not f"{module}.".startswith(f"{error.name}."):
            raise
        raise ConfigurationError(
            f"there is no module {error.name!r} for {text!r}: install its package, or go to the "
            "folder that it is in."
        ) from error
    known = [key for key, value in vars(home).items() if isinstance(value, kind)]
    thing = getattr(home, name, None)
    if thing is None:
        raise ConfigurationError(unknown(f"{what} of {module}", name, known))
    if not isinstance(thing, kind):
        raise ConfigurationError(
            f"{text} is of the type {type(thing).__name__}, expected a {what}"
            + (f": {module} has {', '.join(known)}." if known else ".")
        )
    return thing
