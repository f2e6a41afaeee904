"""Configurations are frozen, closed, and take strings from a command line."""

import pytest
from pydantic import Field, ValidationError
from pydantic.dataclasses import dataclass

from innerloop.core.config import STRICT, Config


class Model(Config):
    width: int = Field(default=64, ge=1)
    rate: float = 1e-3
    causal: bool = True


class Run(Config):
    model: Model = Model()
    steps: int


def test_unknown_key_names_the_nearest_one() -> None:
    with pytest.raises(ValidationError, match="unknown key of Model 'witdh': did you mean 'width'"):
        Model(witdh=3)  # pyright: ignore[reportCallIssue]


def test_unknown_key_like_none_lists_them_all() -> None:
    with pytest.raises(ValidationError, match="choose from causal, rate, width"):
        Model(zzz=3)  # pyright: ignore[reportCallIssue]


def test_unknown_key_of_an_inner_configuration_names_its_owner() -> None:
    with pytest.raises(ValidationError, match="unknown key of Model 'widht'"):
        Run.model_validate({"steps": 1, "model": {"widht": 3}})


def test_configurations_are_frozen() -> None:
    with pytest.raises(ValidationError, match="frozen"):
        Model().__setattr__("width", 3)


def test_configurations_compare_and_hash_by_value() -> None:
    one, other = Run(steps=1), Run(steps=1, model=Model(width=64))
    assert one == other
    assert hash(one) == hash(other)


def test_strings_of_a_command_line_are_taken() -> None:
    run = Run.model_validate({"steps": "10", "model": {"rate": "0.1", "causal": "false"}})
    assert run == Run(steps=10, model=Model(rate=0.1, causal=False))


def test_configurations_survive_json() -> None:
    run = Run(steps=3, model=Model(rate=0.1))
    assert Run.model_validate_json(run.model_dump_json()) == run


def test_an_instance_is_taken_as_it_is() -> None:
    model = Model(width=3)
    assert Run.model_validate(Run(steps=1, model=model)).model is model


def test_strict_dataclasses_take_positions_and_refuse_unknown_keys() -> None:
    @dataclass(frozen=True, config=STRICT)
    class Setting:
        penalty: float = Field(ge=0)

    assert Setting(1) == Setting(penalty=1.0)
    with pytest.raises(ValidationError, match="penlaty"):
        Setting(penlaty=1)  # pyright: ignore[reportCallIssue]
