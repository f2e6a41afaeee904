"""Learners: their names, their traits, and what those that do not iterate answer."""

import dataclasses
from collections.abc import Callable
from typing import Literal

import pytest
import torch
from pydantic import Field
from pydantic.dataclasses import dataclass
from torch import Tensor

from innerloop.core.config import STRICT
from innerloop.core.errors import NotSupportedError
from innerloop.core.learner import Learner, OneShot, Traits
from innerloop.core.prompt import Prompt
from tests.contract.broken import PrefixMoments

Draw = Callable[..., Prompt]


class Zero(OneShot):
    traits = Traits()

    def init(self, prompt: Prompt) -> Tensor:
        return torch.zeros(prompt.prediction_shape, dtype=torch.float64)


@dataclass(frozen=True, config=STRICT)
class Settings(Zero):
    penalty: float = Field(ge=0)
    rounds: int = 10
    kind: Literal["plain", "fancy"] = "plain"
    start: float | None = None
    function: Callable[[Tensor], Tensor] = torch.relu


def test_name_without_settings_is_the_class() -> None:
    assert Zero().name == "Zero"
    assert PrefixMoments().name == "PrefixMoments"


@pytest.mark.parametrize(
    ("learner", "name"),
    [
        (Settings(0.1), "Settings(penalty=0.1)"),
        (Settings(1.0), "Settings(penalty=1)"),
        (Settings(1e-4, 10), "Settings(penalty=0.0001)"),
        (Settings(0.1, 20), "Settings(penalty=0.1, rounds=20)"),
        (Settings(0.1, kind="fancy"), "Settings(penalty=0.1, kind=fancy)"),
        (Settings(0.1, start=2.5), "Settings(penalty=0.1, start=2.5)"),
        (Settings(0.1, function=torch.tanh), "Settings(penalty=0.1, function=tanh)"),
    ],
)
def test_name_tells_what_is_not_the_default(learner: Settings, name: str) -> None:
    assert learner.name == name


def test_name_tells_required_settings_and_no_defaults_of_plain_dataclasses() -> None:
    @dataclasses.dataclass(frozen=True)
    class Plain(Zero):
        must: int
        may: int = 3

    assert Plain(1).name == "Plain(must=1)"
    assert Plain(1, 4).name == "Plain(must=1, may=4)"


def test_name_takes_tensors() -> None:
    @dataclasses.dataclass(frozen=True, eq=False)
    class Started(Zero):
        start: Tensor | None = None

    assert Started().name == "Started"
    assert Started(torch.zeros(2)).name.startswith("Started(start=")


def test_name_does_not_compare_a_default_with_itself() -> None:
    nothing = torch.zeros(2)  # comparing it gives two answers, which are no truth value

    @dataclasses.dataclass(frozen=True, eq=False)
    class Started(Zero):
        start: Tensor = dataclasses.field(default_factory=lambda: nothing)

    assert Started().name == "Started"


def test_name_does_not_tell_a_default_that_is_constrained() -> None:
    @dataclass(frozen=True, config=STRICT)
    class Constrained(Zero):
        rounds: int = Field(default=10, ge=1)
        sizes: tuple[int, ...] = Field(default_factory=tuple)

    assert Constrained(11).name == "Constrained(rounds=11)"
    assert Constrained().name == "Constrained"


def test_different_settings_have_different_names() -> None:
    assert Settings(0.1234567).name != Settings(0.12345671).name


def test_settings_are_checked_and_frozen() -> None:
    with pytest.raises(ValueError, match="greater than or equal to 0"):
        Settings(-1.0)
    with pytest.raises(dataclasses.FrozenInstanceError):
        Settings(1.0).penalty = 2.0  # pyright: ignore[reportAttributeAccessIssue]
    assert Settings("0.5").penalty == 0.5  # pyright: ignore[reportArgumentType]


def test_asking_for_the_name_leaves_learners_equal() -> None:
    one, other = Settings(0.1), Settings(0.1)
    assert one.name
    assert one == other
    assert hash(one) == hash(other)


def test_traits_promise_little_by_default() -> None:
    assert Traits() == Traits(
        causal=True, order_invariant=False, rotation_equivariant=False, linear_in_y=False
    )
    with pytest.raises(dataclasses.FrozenInstanceError):
        Traits().causal = False  # pyright: ignore[reportAttributeAccessIssue]
    with pytest.raises(TypeError):
        Traits(True)  # pyright: ignore[reportCallIssue]


def test_a_learner_must_write_init_step_and_read() -> None:
    assert Learner.__abstractmethods__ == {"init", "step", "read"}
    assert OneShot.__abstractmethods__ == {"init"}


def test_one_shot_answers_in_the_prompts_type(random_prompt: Draw) -> None:
    prompt = random_prompt(dtype=torch.float32)
    state = Zero().init(prompt)
    assert Zero().step(prompt, state, 0) is state
    assert Zero().read(prompt, state).dtype == torch.float32


def test_what_a_learner_does_not_have_is_said(random_prompt: Draw) -> None:
    learner, prompt = Zero(), random_prompt()
    with pytest.raises(NotSupportedError, match=r"Zero has no weights .* Fit weights"):
        learner.weights(prompt)
    with pytest.raises(NotSupportedError, match="Zero has no moving part"):
        _ = learner.moving
    with pytest.raises(NotSupportedError, match="Zero has no hidden states: it is not a model"):
        _ = learner.hidden_states
