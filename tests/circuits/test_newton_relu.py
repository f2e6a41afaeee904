"""Newton's method as ReLU attention, against the learner that shares no line with it."""

import pytest
import torch

from innerloop.circuits import compile
from innerloop.core.iterate import trajectory
from innerloop.core.tolerances import EXACT_CIRCUIT
from innerloop.learners import Newton
from innerloop.tasks import LinearRegression


@pytest.mark.parametrize("dims", [1, 2, 5, 8])
def test_every_step_is_newtons(dims: int) -> None:
    """At every prefix, with fewer and with more examples than dimensions."""
    circuit = compile("newton-relu", dims=dims, steps=12, points=14, start=1e-4)
    generator = torch.Generator().manual_seed(dims)
    prompt = LinearRegression(dims=dims).sample(3, 14, generator=generator).to(dtype=torch.float64)
    with torch.no_grad():
        found = trajectory(circuit, prompt).predictions  # (13, 3, 14, 1)
    expected = trajectory(Newton(steps=12, start=1e-4), prompt).predictions
    assert found.shape == expected.shape
    assert float((found - expected).abs().max()) < EXACT_CIRCUIT * max(1, expected.abs().max())


def test_forty_steps_do_not_blow_up() -> None:
    """With query x and key M x an antisymmetric part of M would double at every step."""
    circuit = compile("newton-relu", dims=8, steps=40, points=5)
    prompt = LinearRegression(dims=8).sample(4, 5, generator=torch.Generator().manual_seed(0))
    prompt = prompt.to(dtype=torch.float64)
    alpha = (5**0.5 + 8**0.5 + 2) ** -4
    with torch.no_grad():
        found = trajectory(circuit, prompt).predictions  # (41, 4, 5, 1)
    expected = trajectory(Newton(steps=40, start=alpha), prompt).predictions
    assert float((found - expected).abs().max()) < EXACT_CIRCUIT


@pytest.mark.parametrize("steps", [1, 4, 9])
def test_steps_in_three_more_layers_and_linear_width(steps: int) -> None:
    """fu2023 theorem 1: O(k) layers and O(d) width; here k + 3 layers and 4 d + 4 numbers."""
    for dims in (1, 3, 16):
        blueprint = compile("newton-relu", dims=dims, steps=steps, points=7).blueprint
        assert blueprint.layers == steps + 3
        assert blueprint.residual.width == 4 * dims + 4
