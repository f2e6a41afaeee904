"""Tasks: sampling and scales."""

from typing import Any

import pytest
import torch
from pydantic import ValidationError
from torch import Tensor

from innerloop.core.errors import ConfigurationError, PromptError
from innerloop.core.prompt import Prompt
from innerloop.core.task import Task


class Copying(Task):
    """Y is x, in every coordinate."""

    scales: tuple[float, ...] | float = 1.0
    spoilt: bool = False

    def draw(self, batch: int, points: int, generator: torch.Generator) -> Prompt:
        shape = (batch, points, self.dims)
        xs = torch.randn(shape, generator=generator, dtype=torch.float64).to(self.torch_dtype)
        if self.spoilt:
            xs[0, 0, 0] = torch.nan
        return Prompt(xs=xs, ys=xs.clone())

    def scale(self) -> Tensor:
        return torch.tensor(self.scales)


def copying(**settings: Any) -> Copying:
    return Copying(**settings)


def test_sample_has_the_sizes_asked_for(generator: torch.Generator) -> None:
    prompt = copying(dims=3).sample(4, 5, generator=generator)
    assert (prompt.batch, prompt.points, prompt.dims) == (4, 5, 3)
    assert prompt.xs.dtype == torch.float32


def test_sample_draws_in_the_type_asked_for(generator: torch.Generator) -> None:
    task = copying(dims=3, dtype="float64")
    assert task.torch_dtype == torch.float64
    assert task.sample(1, 1, generator=generator).xs.dtype == torch.float64


def test_the_same_generator_state_gives_the_same_prompts() -> None:
    one, other, third = (
        copying(dims=2).sample(3, 4, generator=torch.Generator().manual_seed(seed))
        for seed in (1, 1, 2)
    )
    assert torch.equal(one.xs, other.xs)
    assert not torch.equal(one.xs, third.xs)


@pytest.mark.parametrize(
    ("batch", "points", "name"), [(0, 5, "batch"), (5, 0, "points"), (-1, 5, "batch")]
)
def test_sample_refuses_to_draw_nothing(
    generator: torch.Generator, batch: int, points: int, name: str
) -> None:
    value = {"batch": batch, "points": points}[name]
    with pytest.raises(ConfigurationError, match=f"{name} is {value}, expected at least 1"):
        copying(dims=2).sample(batch, points, generator=generator)


def test_sample_needs_a_generator() -> None:
    with pytest.raises(TypeError, match="generator"):
        copying(dims=2).sample(1, 1)  # pyright: ignore[reportCallIssue]


def test_sample_refuses_numbers_that_are_not_finite(generator: torch.Generator) -> None:
    with pytest.raises(PromptError, match="xs holds 1 value that is not finite"):
        copying(dims=2, spoilt=True).sample(2, 2, generator=generator)


@pytest.mark.parametrize(
    ("scales", "expected"),
    [
        (2.0, [2.0, 2.0, 2.0]),
        ((2.0,), [2.0, 2.0, 2.0]),
        ((1.0, 5.0), [1.0, 5.0, 5.0]),
        ((1.0, 2.0, 3.0, 4.0), [1.0, 2.0, 3.0]),
    ],
)
def test_scale_at_every_position(scales: tuple[float, ...] | float, expected: list[float]) -> None:
    scale = copying(dims=2, scales=scales).scale_at(3)
    assert scale.dtype == torch.float64
    assert scale.tolist() == expected


def test_tasks_are_configurations() -> None:
    with pytest.raises(ValidationError, match="unknown key of Copying 'dim': did you mean 'dims'"):
        copying(dim=2)
    with pytest.raises(ValidationError, match="greater than or equal to 1"):
        copying(dims=0)
    with pytest.raises(ValidationError, match="float32"):
        copying(dims=2, dtype="float16")
    with pytest.raises(ValidationError, match="frozen"):
        copying(dims=2).__setattr__("dims", 3)
    assert copying(dims="2") == copying(dims=2)


def test_a_task_must_draw_and_have_a_scale() -> None:
    with pytest.raises(TypeError, match="draw"):
        Task.model_validate({"dims": 2})


def test_a_task_that_draws_other_sizes_is_caught(generator: torch.Generator) -> None:
    class Short(Copying):
        def draw(self, batch: int, points: int, generator: torch.Generator) -> Prompt:
            return super().draw(batch, max(1, points - 1), generator)

    with pytest.raises(PromptError, match="Short drew 3 prompts of 3 points, asked for 3 of 4"):
        Short.model_validate({"dims": 2}).sample(3, 4, generator=generator)
