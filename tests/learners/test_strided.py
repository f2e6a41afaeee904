"""Several steps as one: the same iterates, fewer of them."""

import pytest
import torch

from innerloop.core.iterate import trajectory
from innerloop.learners import OLS, GradientDescent, Newton, Strided
from innerloop.tasks.linear import LinearRegression


@pytest.mark.parametrize("inner", [GradientDescent(9), Newton(9)])
def test_strides_are_the_steps_of_the_learner(inner: GradientDescent | Newton) -> None:
    task = LinearRegression(dims=3, dtype="float64")
    prompt = task.sample(4, 7, generator=torch.Generator().manual_seed(0))
    strides = (2, 0, 1, 5)
    learner = Strided(inner, strides)
    taken = torch.tensor((0, *strides)).cumsum(dim=0)  # (5,)
    expected = trajectory(inner, prompt).predictions[taken]  # (5, B, n, k)
    assert torch.equal(trajectory(learner, prompt).predictions, expected)
    assert torch.equal(trajectory(learner, prompt, steps=6).predictions[4:], expected[[4, 4, 4]])
    last = GradientDescent(8) if isinstance(inner, GradientDescent) else Newton(8)
    assert torch.equal(learner.weights(prompt), last.weights(prompt))


def test_hidden_states_are_those_of_models_alone() -> None:
    assert not Strided(Newton(3), (1, 2)).has_hidden_states
    assert not OLS().has_hidden_states
