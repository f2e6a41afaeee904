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
    """Say which of the choices was probably meant, whatever its capitals, or list them all."""
    known = {choice.lower(): choice for choice in sorted(choices)}
    close = get_close_matches(name.lower(), known, n=1, cutoff=0.5)
    if close:
        return f"did you mean {known[close[0]]!r}?"
    if not known:
        return "there is nothing to choose from."
    return f"choose from {', '.join(known.values())}."


def unknown(kind: str, name: str, choices: Iterable[str]) -> str:
    """One sentence for a name that is not among the choices."""
    return f"unknown {kind} {name!r}: {nearest(name, choices)}"


_UNKNOWN = {"extra_forbidden", "unexpected_keyword_argument"}


def explain(error: ValidationError, owner: str, keys: Iterable[str]) -> str:
    """Turn pydantic's first complaint about `owner` into one sentence."""
    complaints = error.errors(include_url=False)
    # A misspelt key is often missing as well: say what was written, not what was not.
    first = next((found for found in complaints if found["type"] in _UNKNOWN), complaints[0])
    names = list(keys)
    place = [
        names[part] if isinstance(part, int) and part < len(names) else str(part)
        for part in first["loc"]
    ]
    if first["type"] in _UNKNOWN:
        return unknown(f"key of {owner}", place[-1], names)
    if first["type"] in {"missing", "missing_argument", "missing_keyword_only_argument"}:
        return f"{owner} needs a value for {place[-1]!r}."
    reasons = [_reason(first["msg"])]
    if not place:
        return f"{owner}: {reasons[0]}"
    # A union complains once an alternative, about the same value; the path then ends in the name
    # of a type, which a user has not written.
    siblings = [other for other in complaints if other["loc"][:1] == first["loc"][:1]]
    if len(siblings) > 1 and all(other["input"] is first["input"] for other in siblings):
        place = place[:1]
        reasons = list(dict.fromkeys(_reason(other["msg"]) for other in siblings))
    told = ", or ".join(reasons)
    end = "" if told.endswith("?") else "."
    return f"the key {'.'.join(place)!r} of {owner} is {first['input']!r}: {told}{end}"


def _reason(message: str) -> str:
    sentence = message.removeprefix("Value error, ")
    return (sentence[:1].lower() + sentence[1:]).rstrip(".")
