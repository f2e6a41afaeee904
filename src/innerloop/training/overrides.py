"""`key=value` words over a configuration: `task.dims=5 model.backbone.loops=20`."""

import re
from collections.abc import Sequence
from typing import Any

from omegaconf import OmegaConf
from omegaconf.errors import OmegaConfBaseException
from pydantic import ValidationError

from innerloop.core.errors import ConfigurationError, unknown
from innerloop.core.explain import explain
from innerloop.core.settings import parse_settings, written_as
from innerloop.models.block import BlockShape
from innerloop.training.config import FOLLOWS_TASK, RunConfig
from innerloop.training.optimizer import PRESETS

_NAMED: tuple[tuple[str, str, frozenset[str]], ...] = (
    ("task", "name", frozenset({"dims", "dtype"})),
    ("model", "kind", frozenset()),
    ("model.backbone", "kind", frozenset(BlockShape.model_fields)),
)
"""Parts that become another thing where one key changes, and the settings that they then keep."""


def with_overrides(config: RunConfig, words: Sequence[str]) -> RunConfig:
    """The configuration with some settings changed; a mistake is one sentence.

    The model's sizes follow the task unless they are given. Another task keeps the dimensions of
    the one before; a stack in place of a loop, or the other way round, the shape of its blocks.
    """
    if not words:
        return config
    base: dict[str, Any] = config.model_dump(mode="json")
    for key in FOLLOWS_TASK:
        base["model"].pop(key, None)
    base, words = _with_preset(base, words)
    given = parse_settings(words)
    for place, name, kept in _NAMED:
        _forget_former(base, given, place, name, kept)
    try:
        merged = OmegaConf.to_container(OmegaConf.merge(base, given))
        return RunConfig.model_validate(merged)
    except ValidationError as error:
        problem = _misplaced(_explained(error), base, given) or _explained(error)
        raise ConfigurationError(problem) from error
    except OmegaConfBaseException as error:
        reason = str(error).split("\n")[0].rstrip(".")
        raise ConfigurationError(
            f"the settings {' '.join(words)!r} do not go together: {reason}."
        ) from error


def _with_preset(
    base: dict[str, Any], words: Sequence[str]
) -> tuple[dict[str, Any], Sequence[str]]:
    """Put the optimiser that a word names in the place of the former, and take the word out.

    First, wherever it comes: `optimizer.learning_rate=3e-4` then changes the one that was named.
    """
    named = [word for word in words if re.match(r"optimizer=[^{]", word)]  # not written out
    name = parse_settings(named).get("optimizer")
    if name is None:
        return base, words
    if str(name) not in PRESETS:
        raise ConfigurationError(unknown("optimizer", str(name), PRESETS))
    base = {**base, "optimizer": PRESETS[name]().model_dump(mode="json")}
    return base, [word for word in words if word not in named]


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
