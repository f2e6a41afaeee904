"""Errors that a user can act on: what was wrong, what was expected, what to do."""

from collections.abc import Iterable
from difflib import get_close_matches

from pydantic import ValidationError


class InnerloopError(ValueError):
    """A mistake in what the library was given; the message is one sentence for the user."""


class PromptError(InnerloopError):
    """Tensors that do not make a prompt."""


class ConfigurationError(InnerloopError):
    """A name, key or value that does not exist or is out of range."""


class ShiftError(InnerloopError):
    """A shift that makes no sense for the task it was applied to."""


class NotSupportedError(InnerloopError):
    """A learner was asked for something that its kind does not have."""


class FixedPointError(InnerloopError):
    """An iteration that did not reach its fixed point."""


class ContractViolation(AssertionError):
    """A learner that breaks the contract of `innerloop.core.checks`."""


def nearest(name: str, choices: Iterable[str]) -> str:
    """Say which of the choices was probably meant: ", did you mean 'ridge'?" or the whole list."""
    known = sorted(choices)
    close = get_close_matches(name.lower(), known, n=1, cutoff=0.5)
    if close:
        return f"did you mean {close[0]!r}?"
    return f"choose from {', '.join(known)}." if known else "there is nothing to choose from."


def unknown(kind: str, name: str, choices: Iterable[str]) -> str:
    """One sentence for a name that is not among the choices."""
    return f"unknown {kind} {name!r}: {nearest(name, choices)}"


def explain(error: ValidationError, owner: str, keys: Iterable[str]) -> str:
    """Turn pydantic's first complaint about `owner` into one sentence."""
    first = error.errors(include_url=False)[0]
    place = [str(part) for part in first["loc"]]
    if first["type"] in {"extra_forbidden", "unexpected_keyword_argument"}:
        return unknown(f"key of {owner}", place[-1], keys)
    if first["type"] in {"missing", "missing_argument", "missing_keyword_only_argument"}:
        return f"{owner} needs a value for {place[-1]!r}."
    reason = first["msg"].removeprefix("Value error, ")
    if not place:
        return f"{owner}: {reason}"
    # A union reports one complaint an alternative; the key is what the user can change.
    return f"the key {place[0]!r} of {owner} is {first['input']!r}: {_lower(reason)}."


def _lower(sentence: str) -> str:
    return (sentence[:1].lower() + sentence[1:]).rstrip(".")
