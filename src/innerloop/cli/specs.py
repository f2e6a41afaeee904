"""Tasks, learners and shifts by the names and settings of the command line."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, TypeVar

from pydantic import BaseModel, ValidationError

from innerloop.core.errors import ConfigurationError, unknown
from innerloop.core.explain import explain, fields_of

Thing = TypeVar("Thing")


def find(kind: str, name: str, table: Mapping[str, type[Thing]]) -> type[Thing]:
    """The entry of a table by its name, or its class's, with any capitals and hyphens."""
    wanted = _bare(name)
    for known, entry in table.items():
        if wanted in (_bare(known), _bare(entry.__name__)):
            return entry
    raise ConfigurationError(unknown(kind, name, table))


def build(kind: type[Thing], settings: Mapping[str, Any]) -> Thing:
    """An instance of a class with these settings; a mistake is one sentence."""
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
    shown: bool
    """Whether a user gives it; a shift takes its task, and the task's sizes, from elsewhere."""


def settings_of(kind: type[Any]) -> list[Setting]:
    """The settings of a class, in order."""
    return [
        Setting(
            key=name,
            required=field.is_required(),
            default=field.default,
            description=field.description or "",
            shown=not field.exclude and name != "task",
        )
        for name, field in fields_of(kind).items()
    ]


def described(config: BaseModel, before: str = "") -> dict[str, str]:
    """What each setting of a configuration is, by the key that a user writes: `task.dims`."""
    texts: dict[str, str] = {}
    for name, field in type(config).model_fields.items():
        value = getattr(config, name)
        if isinstance(value, BaseModel):
            texts |= described(value, f"{before}{name}.")
        else:
            texts[f"{before}{name}"] = field.description or ""
    return texts


def _bare(name: str) -> str:
    return re.sub(r"[^a-z0-9]", "", name.lower())
