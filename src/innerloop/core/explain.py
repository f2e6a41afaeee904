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
        reason = _reason(first["msg"])
        end = "" if reason.endswith("?") else "."
        return f"{reason}{end}" if owner in reason else f"{owner}: {reason}{end}"
    # A union complains once an alternative; the paths differ in what a user has not written.
    reasons = [_reason(other["msg"]) for other in complaints if _keys(kind, other["loc"]) == place]
    reason = ", or ".join(dict.fromkeys(reasons))
    end = "" if reason.endswith("?") else "."
    # A nested configuration is named by its key; printed whole, it would hide the reason.
    given = first["input"]
    value = "" if isinstance(given, dict | BaseModel) else f" is {given!r}"
    return f"the key {'.'.join(place)!r} of {owner}{value}: {reason}{end}"


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
    return {part.__name__: part for part in parts if isinstance(part, type) and _is_config(part)}


def _is_config(part: type[Any]) -> bool:
    return hasattr(part, "__pydantic_fields__")


def _reason(message: str) -> str:
    sentence = message.removeprefix("Value error, ")
    return (sentence[:1].lower() + sentence[1:]).rstrip(".")
