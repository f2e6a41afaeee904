"""Files that should be the configuration of a run: any JSON in any place, and what is no JSON.

The places are those that pydantic's schema has in the configurations of all recipes: a new setting
is fuzzed without a line here.
"""

import json
from collections.abc import Mapping
from typing import Any

from hypothesis import strategies as st

from innerloop.training.recipes import RECIPES, find_recipe
from tests.fuzz.values import json_values
from tests.training.configs import stack, tiny

Place = tuple[str, ...]
"""The keys that lead to a setting or a group of them; none leads to all."""


def right_values() -> st.SearchStrategy[dict[str, Any]]:
    """Configurations as they should be: that of the template's run, others, and all recipes."""
    recipes = st.sampled_from(sorted(RECIPES)).map(lambda name: find_recipe(name, "smoke"))
    own = st.sampled_from([tiny(), tiny(), stack()])
    return st.one_of(own, recipes).map(lambda config: config.model_dump(mode="json"))


@st.composite
def wrong_values(draw: st.DrawFn) -> Any:
    """A configuration in which one or two places hold another value, or nothing, or more."""
    values: Any = draw(right_values())
    for _ in range(draw(st.sampled_from([1, 2]))):
        places = _places(values)
        place = draw(st.sampled_from([*places, *places, ()]))
        change = draw(st.sampled_from([_replace, _replace, _remove, _add]))
        values = change(values, place, draw(json_values))
    return values


@st.composite
def files(draw: st.DrawFn) -> bytes:
    """What a file `config.json` may hold."""
    text = json.dumps(draw(wrong_values()), ensure_ascii=draw(st.booleans()))
    content = text.encode("utf-8", "surrogatepass")
    length = draw(st.integers(0, len(content)))
    others = [
        content[:length],
        draw(st.binary(max_size=9)) + content,
        b'{"task": ' + b"[" * 200_000,
    ]
    return draw(st.sampled_from([content] * 12 + others))


def _places(values: Any, before: Place = ()) -> list[Place]:
    if not isinstance(values, Mapping):
        return [before]
    below = [place for key, value in values.items() for place in _places(value, (*before, key))]
    return [before, *below]


def _replace(values: Any, place: Place, new: Any) -> Any:
    if not place:
        return new
    return {**values, place[0]: _replace(values[place[0]], place[1:], new)}


def _remove(values: Any, place: Place, _: Any) -> Any:
    if len(place) < 2:
        return {key: value for key, value in values.items() if (key,) != place} if place else {}
    return {**values, place[0]: _remove(values[place[0]], place[1:], _)}


def _add(values: Any, place: Place, new: Any) -> Any:
    if place:
        return {**values, place[0]: _add(values[place[0]], place[1:], new)}
    return {**values, "": new} if isinstance(values, dict) else [values, new]
