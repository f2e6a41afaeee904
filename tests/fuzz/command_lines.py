"""Command lines, by a grammar that is read off the commands themselves.

A new verb, option, learner, task or setting is fuzzed without a line here. A command line is right
and small in all its parts but one or two, so that it comes as far as the part that is wrong.
"""

import inspect
import types
import typing
from collections.abc import Iterator, Mapping
from enum import Enum
from pathlib import Path
from typing import Any

from hypothesis import strategies as st
from pydantic.fields import FieldInfo
from pydantic_core import PydanticUndefined

from innerloop.circuits.table import CIRCUITS
from innerloop.cli.verbs import VERBS
from innerloop.core.explain import fields_of
from innerloop.data.catalog import DATASETS
from innerloop.learners.table import LEARNERS
from innerloop.models.pretrained import SHIPPED
from innerloop.studies.table import PAPERS, STUDIES
from innerloop.tasks.shifts import SHIFTS
from innerloop.training.families import SCALES
from innerloop.training.recipes import RECIPES, find_recipe
from innerloop.training.task_field import KNOWN_TASKS
from tests.fuzz.template import FOLDERS, PLACES, RUN
from tests.fuzz.values import (
    TEXTS,
    hostile_integers,
    hostile_numbers,
    hostile_texts,
    small_integers,
    small_numbers,
)

Pair = tuple[str, str]
"""A word as it should be, and one that is wrong in its place."""
Pairs = list[Pair]
LARGE = 16
"""An option whose default is larger, such as 1280 prompts, is always given, and small."""


def commands() -> dict[tuple[str, ...], Any]:
    """Every command by the words that call it: ("evaluate",), ("runs", "rm")."""
    return {
        path: command
        for name, verb in VERBS.items()
        for path, command in _below((name,), verb.load(name))
    }


def _below(path: tuple[str, ...], command: Any) -> Iterator[tuple[tuple[str, ...], Any]]:
    yield path, command
    for name, part in getattr(command, "commands", {}).items():
        yield from _below((*path, name), part)


def command_lines() -> st.SearchStrategy[list[str]]:
    """Any command line."""
    lines = {path: _spoiled(_line(path, command)) for path, command in commands().items()}
    # As often as there is much to get wrong.
    places = [path for path, command in commands().items() for _ in range(1 + len(command.params))]
    return st.sampled_from(places).flatmap(lambda path: lines[path])


@st.composite
def _spoiled(draw: st.DrawFn, lines: st.SearchStrategy[Pairs]) -> list[str]:
    """A line with one or two words wrong, and now and then one too many or too few."""
    pairs = draw(lines)
    values = [place for place, (right, wrong) in enumerate(pairs) if right != wrong]
    number = draw(st.sampled_from([1, 0, 2, 1, 1, 1, 1, 1]))
    chosen = [draw(st.sampled_from(values)) for _ in range(number if values else 0)]
    words = [pair[place in chosen] for place, pair in enumerate(pairs)]
    if draw(_happens(0.08)):
        place = draw(st.integers(0, len(words) - 1))
        more = draw(st.sampled_from([[], words[place : place + 1] * 2, [draw(hostile_texts)]]))
        words[place : place + 1] = more
    return words


@st.composite
def _line(draw: st.DrawFn, path: tuple[str, ...], command: Any) -> Pairs:
    hints = typing.get_type_hints(inspect.unwrap(command.callback))
    pairs: Pairs = [(word, word) for word in path]
    for parameter in command.params:
        kind = hints[parameter.name]
        argument = parameter.param_type_name == "argument"
        always = parameter.required or _is_large(parameter)
        if not always and not draw(_happens(0.9 if argument else 0.12)):
            continue
        if kind is bool:
            pairs.append((parameter.opts[0], parameter.opts[0]))
            continue
        values = draw(_values(path[0], parameter.name, kind))
        if argument:
            pairs += values
        elif values:
            pairs += [(parameter.opts[-1], parameter.opts[-1]), values[0]]
    return pairs


def _happens(share: float) -> st.SearchStrategy[bool]:
    """True with a probability; the ends of a range, which hypothesis prefers, count as False."""
    return st.integers(0, 999).map(lambda number: 0 < number <= 1000 * share)


def _is_large(parameter: Any) -> bool:
    default = parameter.default
    return parameter.name == "scale" or (isinstance(default, int) and default >= LARGE)


def _values(verb: str, name: str, kind: Any) -> st.SearchStrategy[Pairs]:
    """The words that a parameter is given, by its name, or else by its type."""
    known = [NAMED[key] for key in (f"{verb} {name}", name) if key in NAMED]
    return known[0] if known else _by_type(kind)


def _by_type(kind: Any) -> st.SearchStrategy[Pairs]:
    plain = _plain(kind)
    enums = [part for part in plain if issubclass(part, Enum)]
    if Path in plain:
        return _one(st.just("out"), st.sampled_from(PLACES))
    if int in plain:
        return _one(small_integers.map(str), hostile_integers.map(str))
    if float in plain:
        return _one(small_numbers.map(str), hostile_numbers.map(str))
    if enums:
        return _one(st.sampled_from([str(member.value) for member in enums[0]]))
    return st.one_of(*NAMED.values())  # a word, and nobody knows of what


def _plain(kind: Any) -> list[type]:
    """The plain types that a type is made of: int and NoneType of `list[int] | None`."""
    if isinstance(kind, type) and not isinstance(kind, types.GenericAlias):
        return [kind]
    return [part for argument in typing.get_args(kind) for part in _plain(argument)]


def _one(
    right: st.SearchStrategy[str], wrong: st.SearchStrategy[str] | None = None
) -> st.SearchStrategy[Pairs]:
    either = hostile_texts if wrong is None else st.one_of(wrong, wrong, wrong, hostile_texts)
    return st.tuples(right, either).map(lambda pair: [pair])


def _setting(key: str, right: st.SearchStrategy[Any]) -> st.SearchStrategy[Pair]:
    """`key=value`, and the same with another value."""
    numbers = st.one_of(hostile_integers, hostile_numbers)
    wrong = st.one_of(numbers, numbers, numbers, st.sampled_from(TEXTS))
    return st.tuples(right, wrong).map(
        lambda pair: (f"{key}={_written(pair[0])}", f"{key}={_written(pair[1])}")
    )


def _written(value: Any) -> str:
    """A value as a user writes it."""
    if value is None or isinstance(value, bool):
        return {None: "null", True: "true", False: "false"}[value]
    return str(list(value)) if isinstance(value, tuple) else str(value)


def _like(value: Any) -> st.SearchStrategy[Any]:
    """Small values of the kind of one that is right, and that one."""
    if isinstance(value, bool):
        return st.booleans()
    small = {int: small_integers, float: small_numbers}.get(type(value), st.nothing())
    return st.one_of(st.just(value), small)


def _usual(field: FieldInfo) -> st.SearchStrategy[Any]:
    """Values that a field takes."""
    words = [part for part in typing.get_args(field.annotation) if isinstance(part, str)]
    if words:
        return st.sampled_from(words)
    if field.default is not PydanticUndefined and field.default is not None:
        return _like(field.default)
    return small_numbers if float in _plain(field.annotation) else small_integers


def _settings(kind: type[Any]) -> dict[str, st.SearchStrategy[Pair]]:
    """The settings of a class, by key."""
    fields = fields_of(kind).items()
    return {key: _setting(key, _usual(field)) for key, field in fields if key != "task"}


@st.composite
def _spec(draw: st.DrawFn, table: Mapping[str, type[Any]]) -> Pair:
    """A name with settings, `ridge:penalty=0.1`, and the same with one of them wrong."""
    name = draw(st.sampled_from(sorted(table)))
    settings, fields = _settings(table[name]), fields_of(table[name])
    more = draw(st.sets(st.sampled_from(sorted(settings)), max_size=2)) if settings else set()
    keys = [key for key in settings if key in more or fields[key].is_required()]
    pairs = [draw(settings[key]) for key in keys]
    if not pairs:
        return name, draw(hostile_texts)
    bad = draw(st.integers(0, len(pairs) - 1))
    spoiled = [pair[place == bad] for place, pair in enumerate(pairs)]
    return f"{name}:{','.join(pair[0] for pair in pairs)}", f"{name}:{','.join(spoiled)}"


@st.composite
def _some(draw: st.DrawFn, settings: Mapping[str, st.SearchStrategy[Pair]], most: int = 2) -> Pairs:
    """Some of the settings, each once."""
    if not settings:
        return []
    keys = draw(st.lists(st.sampled_from(sorted(settings)), max_size=most, unique=True))
    return [draw(settings[key]) for key in keys]


@st.composite
def _subjects(draw: st.DrawFn) -> Pairs:
    """What `evaluate` and others look at: learners, folders, and settings of the task."""
    folder = st.tuples(st.sampled_from(FOLDERS), st.sampled_from(PLACES))
    word = st.one_of(_spec(LEARNERS), _spec(LEARNERS), folder)
    words = [draw(word) for _ in range(draw(st.sampled_from([1, 1, 1, 2])))]
    task = draw(st.sampled_from([*["linear"] * 12, *KNOWN_TASKS]))
    settings = {"dims": _setting("dims", small_integers), **_settings(KNOWN_TASKS[task])}
    named = [("--task", "--task"), (task, draw(hostile_texts))] if task != "linear" else []
    first = [draw(settings.pop("dims"))] if draw(_happens(0.9)) else []
    return [*words, *named, *first, *draw(_some(settings))]


@st.composite
def _circuit(draw: st.DrawFn) -> Pairs:
    """A circuit, and settings of it."""
    name = draw(st.sampled_from(sorted(CIRCUITS)))
    return [(name, draw(hostile_texts)), *draw(_some(_settings(CIRCUITS[name])))]


@st.composite
def _recipe(draw: st.DrawFn) -> Pairs:
    """A recipe, and settings that are put over its own; two steps are enough."""
    name = draw(st.sampled_from(sorted(RECIPES)))
    known = find_recipe(name, "smoke").model_dump(mode="json")
    settings = {key: _setting(key, _like(value)) for key, value in _leaves(known, "")}
    settings["steps"] = _setting("steps", st.just(2))
    first = draw(settings.pop("steps"))
    return [(name, draw(hostile_texts)), first, *draw(_some(settings, 3))]


def _leaves(values: Mapping[str, Any], before: str) -> Iterator[tuple[str, Any]]:
    for key, value in values.items():
        if isinstance(value, Mapping):
            yield from _leaves(value, f"{before}{key}.")
        else:
            yield f"{before}{key}", value


def _among(*names: str) -> st.SearchStrategy[Pairs]:
    return _one(st.sampled_from(names), st.sampled_from([*PLACES, "ols", "linear", "yang2024"]))


_STUDIES = tuple(study.name for study in STUDIES)
NAMED: dict[str, st.SearchStrategy[Pairs]] = {
    "words": _subjects(),
    "inspect words": _one(st.sampled_from(FOLDERS), st.sampled_from(PLACES)),
    "compile words": st.just([]),  # they come with the algorithm
    "task": st.just([]),  # it comes with its settings
    "runs task": _among("os:PathLike", "tests.training.configs:tiny"),
    "explore models": _among(*FOLDERS, *SHIPPED),
    "recipe": _recipe(),
    "overrides": st.just([]),  # they come with the recipe
    "algorithm": _circuit(),
    "circuit": _among(*CIRCUITS, "circuit"),
    "shift": _spec(SHIFTS).map(lambda pair: [pair]),
    "scale": _among("smoke", "smoke", "smoke", *SCALES),
    "candidates": _among("ols", "ridge,ols", *LEARNERS),
    "seeds": _among("1", "2", "3-5", "0-0", "0-999999999", "999999999", "3-99999999999999999999"),
    "run": _among(*FOLDERS),
    "texts": _among("Shares fell."),
    "sentences": _among("Ein Hund."),
    "json": _among("out.json", "-"),
    "store": _among("runs", "new"),
    "runs runs": _among("runs"),
    "data": _among("empty"),
    "file": _among("out.zip"),
    "import file": _among("run/state.pt", "run/weights.safetensors", "file.txt"),
    "tasks name": _among(*KNOWN_TASKS, *SHIFTS),
    "learners name": _among(*LEARNERS),
    "recipes name": _among(*RECIPES),
    "studies name": _among(*PAPERS, *_STUDIES),
    "runs name": _among(*FOLDERS, Path(RUN).name),
    "runs names": _among(*FOLDERS, Path(RUN).name),
    "data names": _among(*DATASETS),
    "bench names": _among(*RECIPES),
    "reproduce names": _among(*PAPERS, *_STUDIES),
}
"""Words for parameters of these names, of one verb or of all; others get theirs by type."""
