"""`key=value` words over a configuration: `task.dims=5 model.backbone.loops=20`."""

import re
from collections.abc import Mapping, Sequence
from typing import Any

from omegaconf import OmegaConf
from omegaconf.errors import OmegaConfBaseException
from pydantic import BaseModel, ValidationError

from innerloop.core.errors import ConfigurationError, unknown
from innerloop.core.explain import explain
from innerloop.core.named import import_class, is_named
from innerloop.core.settings import nested, parse_settings, written_as
from innerloop.core.task import Task
from innerloop.models.block import BlockShape
from innerloop.training.config import FOLLOWS_TASK, RunConfig
from innerloop.training.optimizer import PRESETS
from innerloop.training.task_field import read_task, write_task

_NAMED: tuple[tuple[str, str, frozenset[str]], ...] = (
    ("task", "name", frozenset({"dims", "dtype"})),
    ("model", "kind", frozenset()),
    ("model.backbone", "kind", frozenset(BlockShape.model_fields)),
)
"""Parts that become another thing where one key changes, and the settings that they then keep."""
_BY_NAME = re.compile(r"(task|optimizer)=([^{].*)", re.DOTALL)
"""A part that is named rather than written out: its other settings may stand beside it."""


def with_overrides(config: RunConfig, words: Sequence[str]) -> RunConfig:
    """The configuration with some settings changed, as `key=value`; a mistake is one sentence.

    The model's sizes follow the task unless they are given. Another task keeps the dimensions of
    the one before, unless it has its own; a stack in place of a loop, or the other way round, the
    shape of its blocks. A task `module:class` is imported, which runs its code.
    """
    return _changed(config, parse_settings([_BY_NAME.sub(r"\1.name=\2", word) for word in words]))


def with_settings(config: RunConfig, settings: Mapping[str, Any]) -> RunConfig:
    """The same with values of Python by key, which may have dots: objects, names, or mappings."""
    given = [
        (f"{key}.name" if isinstance(value, str) and key in ("task", "optimizer") else key, value)
        for key, value in settings.items()
    ]
    return _changed(config, nested(given))


def _changed(config: RunConfig, given: dict[str, Any]) -> RunConfig:
    """The configuration with nested settings put over its own."""
    if not given:
        return config
    base: dict[str, Any] = config.model_dump(mode="json")
    for key in FOLLOWS_TASK:
        base["model"].pop(key, None)
    try:
        for key in [key for key, value in given.items() if isinstance(value, BaseModel)]:
            base[key] = _written(given.pop(key))
        _name_optimizer(base, given)
        _import_task(base["task"], given.get("task"))
        for place, name, kept in _NAMED:
            _forget_former(base, given, place, name, kept)
        merged = OmegaConf.to_container(OmegaConf.merge(base, given))
        return RunConfig.model_validate(merged)
    except ValidationError as error:
        problem = _misplaced(_explained(error), base, given) or _explained(error)
        raise ConfigurationError(problem) from error
    except OmegaConfBaseException as error:
        reason = str(error).split("\n")[0].rstrip(".")
        shown = " ".join(f"{key}={value}" for key, value in written_as(given))
        raise ConfigurationError(f"the settings {shown!r} do not go together: {reason}.") from error


def _written(part: BaseModel) -> dict[str, Any]:
    """A whole part that is given as an object, in plain values."""
    if not isinstance(part, Task):
        return part.model_dump(mode="json")
    try:
        return write_task(read_task(part))
    except ValueError as error:
        raise ConfigurationError(f"{error}.") from error


def _name_optimizer(base: dict[str, Any], given: dict[str, Any]) -> None:
    """Put the optimiser that is named in the place of the former: settings beside it change it."""
    asked = given.get("optimizer")
    if not isinstance(asked, dict) or "name" not in asked:
        return
    name = str(asked.pop("name"))
    if name not in PRESETS:
        raise ConfigurationError(unknown("optimizer", name, PRESETS))
    base["optimizer"] = PRESETS[name]().model_dump(mode="json")


def _import_task(former: dict[str, Any], asked: Any) -> None:
    """Import the class of a task that a user has named: then a configuration may name it, too.

    Where it has its own dimensions or type, those of the former task are forgotten.
    """
    name = asked.get("name") if isinstance(asked, dict) else None
    if not isinstance(name, str) or not is_named(name):
        return
    own = import_class(name, Task, "task").model_fields
    for key, field in Task.model_fields.items():
        if name != former["name"] and own[key].default != field.default:
            former.pop(key, None)


def _forget_former(
    base: dict[str, Any], given: dict[str, Any], place: str, name: str, kept: frozenset[str]
) -> None:
    """Drop the settings of the thing that a part was, where it becomes another one."""
    for step in place.split(".")[:-1]:
        base, given = base.get(step, {}), given.get(step, {})
        if not isinstance(given, dict):
            return
    last = place.split(".")[-1]
    former, asked = base.get(last), given.get(last)
    if not isinstance(former, dict) or not isinstance(asked, dict):
        return
    if asked.get(name, former[name]) != former[name]:
        base[last] = {key: value for key, value in former.items() if key in kept}


def _misplaced(problem: str, base: dict[str, Any], given: dict[str, Any]) -> str | None:
    """A better sentence about an unknown key that is a setting of a part: `noise`, `task.noise`."""
    known = [key for key, _ in written_as(base)]
    for key, _ in written_as(given):
        last = key.split(".")[-1]
        meant = [repr(other) for other in known if other.endswith(f".{last}") and other != key]
        if meant and "unknown key" in problem and repr(last) in problem:
            return f"unknown key {key!r}: did you mean {' or '.join(meant)}?"
    return None


def _explained(error: ValidationError) -> str:
    """The first complaint as a sentence; where a list is too short it names the list."""
    first = error.errors(include_url=False)[0]
    *path, last = first["loc"] or ("",)
    if first["type"] == "missing" and isinstance(last, int):
        key = ".".join(str(part) for part in path)
        return f"the key {key!r} is {first['input']!r}: give at least {last + 1} values."
    return explain(error, RunConfig)
