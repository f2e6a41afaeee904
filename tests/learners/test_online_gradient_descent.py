from collections.abc import Callable

import numpy as np
import pytest
import torch
from pydantic import ValidationError

from innerloop.core.prompt import Prompt
from innerloop.core.tolerances import EXACT_CIRCUIT, REFERENCE
from innerloop.learners.online_gradient_descent import OnlineGradientDescent

Draw = Callable[..., Prompt]


def loop(prompt: Prompt, step_size: float | None, penalty: float) -> np.ndarray:
    """The weights (B, n, d, k), one example and one output at a time."""
    xs, ys = prompt.xs.numpy(), prompt.ys.numpy()
    weights = np.zeros((*xs.shape, ys.shape[2]))
    for b in range(xs.shape[0]):
        for o in range(ys.shape[2]):
            w = np.zeros(xs.shape[2])
            for i in range(xs.shape[1]):
                weights[b, i, :, o] = w
                x, y = xs[b, i], ys[b, i, o]
                size = 1 / (x @ x) if step_size is None else step_size
                w = w - size * (x * (x @ w - y) + penalty * w)
    return weights


@pytest.mark.parametrize(
    ("step_size", "penalty"), [(None, 0.0), (0.05, 0.0), (0.1, 0.5), (None, 0.3)]
)
@pytest.mark.parametrize("outputs", [1, 3])
def test_equals_a_loop(
    step_size: float | None, penalty: float, outputs: int, random_prompt: Draw
) -> None:
    prompt = random_prompt(batch=4, points=15, dims=5, outputs=outputs)
    weights = OnlineGradientDescent(step_size, penalty).weights(prompt)
    np.testing.assert_allclose(weights, loop(prompt, step_size, penalty), rtol=0, atol=REFERENCE)


def test_no_error_on_the_example_just_seen(random_prompt: Draw) -> None:
    prompt = random_prompt(batch=5, points=12, dims=4, outputs=2)
    weights = OnlineGradientDescent().weights(prompt)  # (B, n, d, k)
    again = (prompt.xs[:, :-1, :, None] * weights[:, 1:]).sum(dim=2)  # (B, n - 1, k)
    assert float((again - prompt.ys[:, :-1]).abs().max()) < EXACT_CIRCUIT


def test_the_step_is_the_gradient_of_the_stated_loss(random_prompt: Draw) -> None:
    prompt = random_prompt(batch=3, points=4, dims=3)
    size, penalty = 0.1, 0.7
    weights = OnlineGradientDescent(size, penalty).weights(prompt)[..., 0]  # (B, n, d)
    for i in range(3):
        w = weights[:, i].clone().requires_grad_()  # (B, d)
        error = (prompt.xs[:, i] * w).sum(dim=1) - prompt.ys[:, i, 0]  # (B,)
        loss = (error**2 / 2 + penalty * (w**2).sum(dim=1) / 2).sum()
        (gradient,) = torch.autograd.grad(loss, w)
        assert torch.allclose(weights[:, i + 1], weights[:, i] - size * gradient, atol=REFERENCE)


def test_an_input_of_zero_takes_no_step(random_prompt: Draw) -> None:
    prompt = random_prompt(batch=2, points=5, dims=3)
    xs = prompt.xs.clone()
    xs[:, 2] = 0
    weights = OnlineGradientDescent().weights(Prompt(xs=xs, ys=prompt.ys))
    assert torch.equal(weights[:, 3], weights[:, 2])
    tiny = Prompt(xs=2.0**-600 * xs, ys=prompt.ys)  # The squares underflow, the steps must not.
    assert torch.equal(OnlineGradientDescent().weights(tiny), 2.0**600 * weights)


def test_configuration() -> None:
    assert OnlineGradientDescent().name == "OnlineGradientDescent"
    assert OnlineGradientDescent("0.1").step_size == 0.1  # pyright: ignore[reportArgumentType]
    for wrong in ({"step_size": 0.0}, {"step_size": -1.0}, {"penalty": -0.1}):
        with pytest.raises(ValidationError):
            OnlineGradientDescent(**wrong)
