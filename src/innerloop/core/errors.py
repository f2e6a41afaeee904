"""Errors that a user can act on: what was wrong, what was expected, what to do."""

from collections.abc import Iterable
from difflib import get_close_matches


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


class RangeError(InnerloopError):
    """Numbers that floating point has no room for, or of which rounding leaves no digit."""


class AnswerShapeError(InnerloopError):
    """A learner's answer that is not a tensor of the shape that the prompt asks for."""


class IgnoredQueriesError(AnswerShapeError):
    """A learner answered at x_i where other queries were asked."""


class ContractViolation(AssertionError):
    """A learner that breaks the contract of `innerloop.core.checks`."""


def nearest(name: str, choices: Iterable[str]) -> str:
    """Say which of the choices was probably meant, whatever its capitals, or list them all."""
    known = {choice.lower(): choice for choice in sorted(choices)}
    begins = [choice for choice in known if name and choice.startswith(name.lower())]
    close = begins[:1] or get_close_matches(name.lower(), known, n=1, cutoff=0.5)
    if close:
        return f"did you mean {known[close[0]]!r}?"
    if not known:
        return "there is nothing to choose from."
    return f"choose from {', '.join(known.values())}."


def unknown(kind: str, name: str, choices: Iterable[str]) -> str:
    """One sentence for a name that is not among the choices."""
    return f"unknown {kind} {name!r}: {nearest(name, choices)}"


def is_out_of_memory(error: Exception) -> bool:
    """Whether an error says that there is no memory left: torch's are RuntimeErrors like others."""
    texts = ("can't allocate memory", "not enough memory", "out of memory", "Storage size calc")
    return isinstance(error, MemoryError) or any(text in str(error) for text in texts)
