"""Errors are one sentence: what was wrong, what was expected, what to do."""

from collections.abc import Callable
from typing import Literal

import pytest
from pydantic import Field, ValidationError
from pydantic.dataclasses import dataclass

from innerloop.core import errors
from innerloop.core.config import STRICT, Config
from innerloop.core.errors import InnerloopError, nearest, unknown
from innerloop.core.explain import explain


class Inner(Config):
    loops: int = Field(default=3, ge=1)
    width: int = Field(default=3, ge=1)
    start: float | Literal["paper"] = "paper"


class Outer(Config):
    dims: int = Field(ge=1)
    start: float | Literal["paper"] = "paper"
    model: Inner = Inner()
    sizes: tuple[int, ...] = ()


@dataclass(frozen=True, config=STRICT)
class Positional:
    penalty: float = Field(ge=0)
    rounds: int = 3


def explained(make: Callable[[], object], owner: str = "Outer") -> str:
    with pytest.raises(ValidationError) as raised:
        make()
    return explain(raised.value, Positional if owner == "Positional" else Outer)


def test_all_errors_of_the_library_are_value_errors_of_one_kind() -> None:
    kinds = [
        value
        for value in vars(errors).values()
        if isinstance(value, type) and value.__module__ == errors.__name__
    ]
    assert len(kinds) > 5
    for kind in set(kinds) - {errors.ContractViolation}:
        assert issubclass(kind, InnerloopError)
        assert issubclass(kind, ValueError)
    # A breach of the contract is a bug of the learner, not of what a user gave.
    assert issubclass(errors.ContractViolation, AssertionError)


@pytest.mark.parametrize(
    ("name", "choices", "sentence"),
    [
        ("rigde", ["ols", "ridge", "lasso"], "did you mean 'ridge'?"),
        ("RIDGE", ["ols", "ridge"], "did you mean 'ridge'?"),
        ("zzz", ["ridge", "ols"], "choose from ols, ridge."),
        ("zzz", [], "there is nothing to choose from."),
    ],
)
def test_nearest(name: str, choices: list[str], sentence: str) -> None:
    assert nearest(name, choices) == sentence


@pytest.mark.parametrize("name", ["ols", "OLSS", "Ols"])
def test_nearest_does_not_look_at_capitals(name: str) -> None:
    assert nearest(name, ["OLS", "Ridge"]) == "did you mean 'OLS'?"


def test_nearest_takes_any_iterable() -> None:
    assert nearest("b", (choice for choice in "ab")) == "did you mean 'b'?"


def test_unknown() -> None:
    assert unknown("task", "linaer", ["linear"]) == (
        "unknown task 'linaer': did you mean 'linear'?"
    )


def test_unknown_key_of_a_configuration_is_explained() -> None:
    sentence = explained(lambda: Outer(dims=1, strat=2))  # pyright: ignore[reportCallIssue]
    assert "unknown key of Outer 'strat': did you mean 'start'?" in sentence


def test_unknown_key_of_a_dataclass_is_explained() -> None:
    sentence = explained(
        lambda: Positional(penalty=1, round=2),  # pyright: ignore[reportCallIssue]
        "Positional",
    )
    assert sentence == "unknown key of Positional 'round': did you mean 'rounds'?"


def test_missing_value_is_explained() -> None:
    assert explained(lambda: Outer()) == (  # pyright: ignore[reportCallIssue]
        "Outer needs a value for 'dims'."
    )
    assert explained(lambda: Positional(), "Positional") == (  # pyright: ignore[reportCallIssue]
        "Positional needs a value for 'penalty'."
    )


def test_missing_value_of_a_part_is_named_whole() -> None:
    class Whole(Config):
        part: Outer

    with pytest.raises(ValidationError) as raised:
        Whole.model_validate({"part": {}})
    assert explain(raised.value, Whole) == "Whole needs a value for 'part.dims'."


def test_value_out_of_range_is_explained() -> None:
    assert explained(lambda: Outer(dims=0)) == (
        "the key 'dims' of Outer is 0: input should be greater than or equal to 1."
    )
    assert explained(lambda: Positional(penalty=-1), "Positional") == (
        "the key 'penalty' of Positional is -1: input should be greater than or equal to 0."
    )


def test_value_of_a_wrong_type_is_explained() -> None:
    sentence = explained(lambda: Outer(dims="many"))  # pyright: ignore[reportArgumentType]
    assert sentence.startswith("the key 'dims' of Outer is 'many': input should be a valid integer")
    assert sentence.endswith(".")


def test_value_that_no_alternative_takes_is_explained_by_its_key() -> None:
    sentence = explained(
        lambda: Outer(dims=1, start="papers")  # pyright: ignore[reportArgumentType]
    )
    assert sentence.startswith("the key 'start' of Outer is 'papers': ")
    assert sentence.count("'start'") == 1


def test_all_alternatives_are_named() -> None:
    sentence = explained(
        lambda: Outer(dims=1, start="papers")  # pyright: ignore[reportArgumentType]
    )
    assert "'paper'" in sentence


def test_value_inside_another_configuration_is_explained_by_its_own_key() -> None:
    sentence = explained(
        lambda: Outer(dims=1, model={"loops": 0})  # pyright: ignore[reportArgumentType]
    )
    assert sentence.startswith("the key 'model.loops' of Outer is 0: ")


def test_unknown_key_inside_another_configuration_is_explained() -> None:
    sentence = explained(
        lambda: Outer(dims=1, model={"lops": 1})  # pyright: ignore[reportArgumentType]
    )
    assert sentence.endswith("unknown key of Inner 'lops': did you mean 'loops'?")


def test_positional_value_is_explained_by_its_key() -> None:
    sentence = explained(lambda: Positional(-1), "Positional")
    assert sentence.startswith("the key 'penalty' of Positional is -1")


def test_value_inside_a_sequence_is_explained_by_its_place() -> None:
    sentence = explained(lambda: Outer.model_validate({"dims": 1, "sizes": [1, "x"]}))
    assert sentence.startswith("the key 'sizes.1' of Outer is 'x'")


def test_value_that_no_alternative_of_an_inner_key_takes_is_explained() -> None:
    sentence = explained(lambda: Outer.model_validate({"dims": 1, "model": {"start": "papers"}}))
    assert sentence.startswith("the key 'model.start' of Outer is 'papers'")


def test_first_of_two_wrong_values_of_one_inner_configuration_is_explained() -> None:
    sentence = explained(
        lambda: Outer.model_validate({"dims": 1, "model": {"loops": 0, "width": 0}})
    )
    assert sentence.startswith("the key 'model.loops' of Outer is 0")
