"""Text of the command line into tasks, learners and shifts: `ridge:penalty=0.1`, `dims=5`."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

from pydantic import ValidationError

from innerloop.core.errors import ConfigurationError, unknown
from innerloop.core.explain import explain, fields_of

Thing = TypeVar("Thing")

_SETTING = re.compile(r"^[A-Za-z_][A-Za-z0-9_]*=")
_NEXT_SETTING = re.compile(r",(?=[A-Za-z_][A-Za-z0-9_]*=)")


def is_setting(word: str) -> bool:
    """Whether a word is `key=value` rather than the name of something."""
    return bool(_SETTING.match(word))


def parse_settings(words: Sequence[str]) -> dict[str, str | list[str]]:
    """`key=value` words into a mapping; a value with commas is a list."""
    settings: dict[str, str | list[str]] = {}
    for word in words:
        key, equals, value = word.partition("=")
        if not equals or not key:
            raise ConfigurationError(
                f"{word!r} is not a setting: write key=value, for example penalty=0.1."
            )
        if key in settings:
            raise ConfigurationError(f"the key {key!r} is given twice: keep one of them.")
        settings[key] = value.split(",") if "," in value else value
    return settings


def parse_spec(text: str) -> tuple[str, dict[str, str | list[str]]]:
    """`name:key=value,key=value` into a name and its settings."""
    name, colon, rest = text.partition(":")
    if not name or (colon and not rest):
        raise ConfigurationError(f"{text!r} is not a name: write name or name:key=value,key=value.")
    return name, parse_settings(_NEXT_SETTING.split(rest)) if rest else {}


def find(kind: str, name: str, table: Mapping[str, type[Thing]]) -> type[Thing]:
    """The entry of a table by its name, or its class's, with any capitals and hyphens."""
    wanted = _bare(name)
    for known, entry in table.items():
        if wanted in (_bare(known), _bare(entry.__name__)):
            return entry
    raise ConfigurationError(unknown(kind, name, table))


def build(kind: type[Thing], settings: Mapping[str, Any]) -> Thing:
    """Make one of a class from settings as text; a mistake is one sentence."""
    try:
        return kind(**settings)
    except ValidationError as error:
        raise ConfigurationError(explain(error, kind)) from error


@dataclass(frozen=True, slots=True)
class Setting:
    """A setting of a task, learner or shift, as a user writes it."""

    key: str
    required: bool
    default: Any
    description: str
    told: bool
    """Whether a user gives it; a shift takes its task, and the task's sizes, from elsewhere."""


def settings_of(kind: type[Any]) -> list[Setting]:
    """The settings of a class, in order."""
    return [
        Setting(
            key=name,
            required=field.is_required(),
            default=field.default,
            description=field.description or "",
            told=not field.exclude and name != "task",
        )
        for name, field in fields_of(kind).items()
    ]


def written_as(settings: Mapping[str, Any], before: str = "") -> list[tuple[str, str]]:
    """Nested settings as a user writes them: ("model.backbone.loops", "20"), in order."""
    written: list[tuple[str, str]] = []
    for key, value in settings.items():
        if isinstance(value, Mapping):
            written += written_as(value, f"{before}{key}.")
        else:
            written.append((f"{before}{key}", str(value)))
    return written


def _bare(name: str) -> str:
    return re.sub(r"[^a-z0-9]", "", name.lower())
