"""What pydantic complains about, in one sentence for the user."""

import typing
from typing import Any

from pydantic import BaseModel, ValidationError
from pydantic.fields import FieldInfo

from innerloop.core.errors import unknown

_UNKNOWN = {"extra_forbidden", "unexpected_keyword_argument"}
_MISSING = {"missing", "missing_argument", "missing_keyword_only_argument"}


def fields_of(kind: type[Any]) -> dict[str, FieldInfo]:
    """The fields of a pydantic model or dataclass, by the name that a user writes."""
    fields = kind.model_fields if issubclass(kind, BaseModel) else kind.__pydantic_fields__
    return {field.alias or name: field for name, field in fields.items()}


def explain(error: ValidationError, kind: type[Any]) -> str:
    """Turn the first complaint about a `kind` into one sentence that names the key."""
    complaints = error.errors(include_url=False)
    # A misspelt key is often missing as well: say what was written, not what was not.
    first = next((one for one in complaints if one["type"] in _UNKNOWN), complaints[0])
    owner, last = kind.__name__, str(first["loc"][-1]) if first["loc"] else ""
    if first["type"] in _UNKNOWN and not fields_of(kind):
        return f"{owner} has no settings: leave {last!r} out."
    if first["type"] in _UNKNOWN:
        return unknown(f"key of {owner}", last, fields_of(kind))
    if first["type"] in _MISSING:
        whole = ".".join(_keys(kind, first["loc"])) or last
        return f"{owner} needs a value for {whole!r}."
    place = _keys(kind, first["loc"])
    if not place:
        reason = _sentence([first["msg"]])
        return reason if owner in reason else f"{owner}: {reason}"
    # A union complains once an alternative; the paths differ in what a user has not written.
    reasons = [other["msg"] for other in complaints if _keys(kind, other["loc"]) == place]
    # A nested configuration is named by its key; printed whole, it would hide the reason.
    given = first["input"]
    value = "" if isinstance(given, dict | BaseModel) else f" is {given!r}"
    return f"the key {'.'.join(place)!r} of {owner}{value}: {_sentence(reasons)}"


def _keys(kind: type[Any], path: tuple[int | str, ...]) -> list[str]:
    """The part of a complaint's path that the user wrote: keys of nested configurations, indices.

    Names of the alternatives of a union, which pydantic puts between, are left out.
    """
    keys: list[str] = []
    known = {kind.__name__: kind}
    for place, part in enumerate(path):
        if isinstance(part, int):
            argument = place == 0 and part < len(fields_of(kind))
            part = list(fields_of(kind))[part] if argument else str(part)
            keys.append(part)
        fields = {key: field for owner in known.values() for key, field in fields_of(owner).items()}
        if part in fields:
            keys += [] if keys[-1:] == [part] and place == 0 else [str(part)]
            known = _configurations(fields[str(part)].annotation)
    return keys


def _configurations(annotation: Any) -> dict[str, type[Any]]:
    """The configurations among the alternatives of a type, by name."""
    parts = [annotation, *typing.get_args(annotation)]
    kinds = [part for part in parts if isinstance(part, type)]
    return {kind.__name__: kind for kind in kinds if hasattr(kind, "__pydantic_fields__")}


def _sentence(messages: list[str]) -> str:
    """What pydantic says, each thing once, as the end of a sentence."""
    plain = [message.removeprefix("Value error, ") for message in messages]
    reasons = [(reason[:1].lower() + reason[1:]).rstrip(".") for reason in plain]
    reason = ", or ".join(dict.fromkeys(reasons))
    return reason if reason.endswith("?") else f"{reason}."
