"""The one grammar of settings as text: `dims=5`, `task.dims=5`, `ridge:penalty=0.1,k=3`.

A key is a name, or names with dots between them, which lead into a part of a configuration. A value
is what YAML makes of it (0.1, true, null, [1, 2], {a: 1}); one with commas that begins with neither
bracket nor quote is a list, so that `1,2` is `[1, 2]`.
"""

import re
from collections.abc import Mapping, Sequence
from typing import Any

from omegaconf import OmegaConf
from omegaconf.errors import OmegaConfBaseException
from yaml import YAMLError

from innerloop.core.errors import ConfigurationError

_KEY = r"[A-Za-z_][A-Za-z0-9_]*(?:\.[A-Za-z_][A-Za-z0-9_]*)*"
_SETTING = re.compile(rf"({_KEY})=(.*)", re.DOTALL)
_NEXT_SETTING = re.compile(rf",(?={_KEY}=)")


def is_setting(word: str) -> bool:
    """Whether a word is `key=value` rather than the name of something."""
    return _SETTING.fullmatch(word) is not None


def parse_settings(words: Sequence[str]) -> dict[str, Any]:
    """`key=value` words as plain values; `a.b=1` becomes {"a": {"b": 1}}."""
    return nested([(key, _value(key, text)) for key, text in map(_split, words)])


def nested(given: Sequence[tuple[str, Any]]) -> dict[str, Any]:
    """Keys and values as nested settings: ("a.b", 1) becomes {"a": {"b": 1}}."""
    _require_apart([key for key, _ in given])
    settings: dict[str, Any] = {}
    for key, value in given:
        *parts, last = key.split(".")
        place = settings
        for part in parts:
            place = place.setdefault(part, {})
        place[last] = value
    return settings


def parse_spec(text: str) -> tuple[str, dict[str, Any]]:
    """`name:key=value,key=value` as a name and its settings."""
    name, colon, rest = text.partition(":")
    if not name or (colon and not rest):
        raise ConfigurationError(f"{text!r} is not a name: write name or name:key=value,key=value.")
    return name, parse_settings(_NEXT_SETTING.split(rest)) if rest else {}


def written_as(settings: Mapping[str, Any], before: str = "") -> list[tuple[str, str]]:
    """Nested settings as a user writes them: ("model.backbone.loops", "20"), in order."""
    written: list[tuple[str, str]] = []
    for key, value in settings.items():
        if isinstance(value, Mapping):
            written += written_as(value, f"{before}{key}.")
        else:
            written.append((f"{before}{key}", "null" if value is None else str(value)))
    return written


def _split(word: str) -> tuple[str, str]:
    """The key and the value of a word, as they are written."""
    match = _SETTING.fullmatch(word)
    if match is None:
        raise ConfigurationError(
            f"{word!r} is not a setting: write key=value, for example dims=5 or task.dims=5."
        )
    return match[1], match[2]


def _require_apart(keys: Sequence[str]) -> None:
    """Refuse a key that is given twice, or beside a part of itself."""
    for key in keys:
        if keys.count(key) > 1:
            raise ConfigurationError(f"the key {key!r} is given twice: keep one of them.")
        inside = [other for other in keys if other.startswith(f"{key}.")]
        if inside:
            raise ConfigurationError(
                f"both {key!r} and {inside[0]!r} are given, and one is a part of the other: keep "
                "one of them."
            )


def _value(key: str, text: str) -> Any:
    """What a value means."""
    if not text.strip():
        raise ConfigurationError(f"the key {key!r} has no value: write {key}=.., or {key}=null.")
    listed = "," in text and text.lstrip()[:1] not in ("[", "{", "'", '"')
    try:
        # By this library: plain YAML takes 1e-3 for a word.
        read = OmegaConf.to_container(
            OmegaConf.from_dotlist([f"value={f'[{text}]' if listed else text}"])
        )
        assert isinstance(read, dict)
        return read["value"]
    # A number that YAML cannot convert is a ValueError, and brackets may be nested too deeply.
    except (OmegaConfBaseException, YAMLError, ValueError, RecursionError) as error:
        raise ConfigurationError(
            f"the key {key!r} is {text!r}, which is no number, word, list as [1, 2] or mapping as "
            "{a: 1}: look at its brackets, quotes and colons."
        ) from error
