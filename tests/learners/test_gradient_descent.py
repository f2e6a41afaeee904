import math
from collections.abc import Callable

import numpy as np
import pytest
import torch
from pydantic import ValidationError

import innerloop as il
from innerloop.core.errors import ConfigurationError, FixedPointError
from innerloop.core.prompt import Prompt
from innerloop.core.tolerances import PUBLIC_CODE, REFERENCE
from innerloop.learners.gradient_descent import GradientDescent, largest_eigenvalues

Draw = Callable[..., Prompt]
EPSILON = float(np.finfo(np.float64).eps)


def loop(learner: GradientDescent, prompt: Prompt) -> np.ndarray:
    """The weights (K + 1, B, n, d, k), one prompt and one prefix at a time."""
    xs, ys = prompt.xs.numpy(), prompt.ys.numpy()
    batch, points, dims = xs.shape
    weights = np.zeros((learner.steps + 1, batch, points, dims, ys.shape[2]))
    for b in range(batch):
        for i in range(points):
            x, y = xs[b, :i], ys[b, :i]
            number = i if learner.average and i else 1
            largest = np.linalg.norm(x, 2) ** 2 / number if i else 0.0
            size = learner.step_size or (1 / largest if largest else 0.0)
            w = np.zeros((dims, ys.shape[2]))
            if learner.start is not None:
                w += np.array(learner.start)[:, None]
            weights[0, b, i] = w
            for k in range(learner.steps):
                w = w - size * x.T @ (x @ w - y) / number
                weights[k + 1, b, i] = w
    return weights


def well_conditioned(prompt: Prompt) -> Prompt:
    """Inputs near 3 times the axes first, so that gradient descent is quick at every prefix."""
    xs = prompt.xs.clone()
    xs[:, : prompt.dims] = 3 * torch.eye(prompt.dims) + 0.3 * xs[:, : prompt.dims]
    return Prompt(xs=xs, ys=prompt.ys)


@pytest.mark.parametrize(
    "learner",
    [
        GradientDescent(12),
        GradientDescent(12, average=True),
        GradientDescent(12, 0.02),
        GradientDescent(12, 0.1, average=True),
        GradientDescent(12, start=(1.0, -2.0, 0.5, 3.0)),
    ],
    ids=lambda learner: learner.name,
)
@pytest.mark.parametrize("outputs", [1, 3])
def test_equals_a_loop_at_every_step(
    learner: GradientDescent, outputs: int, random_prompt: Draw
) -> None:
    prompt = random_prompt(batch=3, points=11, dims=4, outputs=outputs)
    expected = loop(learner, prompt)  # (K + 1, B, n, d, k)
    for k, state in enumerate(il.iterate(learner, prompt)):
        np.testing.assert_allclose(state.weights.numpy(), expected[k], rtol=0, atol=REFERENCE)


def test_more_prompts_than_fit_the_cache(random_prompt: Draw) -> None:
    # 1300 prompts of 41 x 41 residuals are eight chunks.
    prompt = random_prompt(batch=1300, points=41, dims=3)
    learner = GradientDescent(2)
    some = torch.tensor([0, 170, 699, 1299])
    whole = learner.weights(prompt)[some]
    np.testing.assert_allclose(whole, loop(learner, prompt.select(some))[-1], atol=REFERENCE)


@pytest.mark.parametrize("points", [16, 32, 64, 128])
def test_stays_below_the_bound_of_chen2025(points: int, generator: torch.Generator) -> None:
    dims, draws, steps = 4, 25, 200
    xs = torch.randn(draws, points + 1, dims, generator=generator, dtype=torch.float64)
    theta = torch.randn(draws, dims, 1, generator=generator, dtype=torch.float64)
    prompt = Prompt(xs=xs, ys=xs @ theta)
    kappa = torch.linalg.cond(xs[:, :points]) ** 2  # (B,)
    size = theta.norm(dim=1)[:, 0]  # (B,)
    # A step rounds by at most (d (d + 2) + 1) eps |theta|, since trace(S) / L <= d; the contraction
    # 1 - 1 / kappa adds kappa of those up, and y is rounded as well: twice.
    floor = 2 * kappa * (dims * (dims + 2) + 1) * EPSILON * size  # (B,)
    for t, state in enumerate(il.iterate(GradientDescent(steps), prompt)):
        error = (state.weights[:, points] - theta).norm(dim=1)[:, 0]  # (B,)
        bound = torch.exp(-t / (2 * kappa)) * size  # (B,)
        assert bool((error <= bound + floor).all()), f"step {t}"


@pytest.mark.parametrize(("points", "dims"), [(9, 4), (4, 7), (1, 3)])
def test_largest_eigenvalues(points: int, dims: int, random_prompt: Draw) -> None:
    prompt = random_prompt(batch=5, points=points, dims=dims)
    largest = largest_eigenvalues(prompt)  # (B, n)
    for i in range(points):
        expected = np.linalg.norm(prompt.xs[:, :i].numpy(), 2, axis=(1, 2)) ** 2 if i else 0.0
        # Rounding to within d eps, relative.
        np.testing.assert_allclose(largest[:, i], expected, rtol=10 * dims * EPSILON)


def test_stays_at_the_start_without_inputs(random_prompt: Draw) -> None:
    prompt = random_prompt(batch=2, points=5, dims=2)
    nothing = Prompt(xs=torch.zeros_like(prompt.xs), ys=prompt.ys)
    for size in (None, 0.1):
        learner = GradientDescent(5, size, start=(1.0, 2.0))
        weights = learner.weights(nothing)[..., 0]  # (B, n, d)
        assert torch.equal(weights, torch.tensor([1.0, 2.0]).double().expand_as(weights))
    tiny = Prompt(xs=1e-170 * prompt.xs, ys=prompt.ys)  # The squares underflow.
    assert bool(GradientDescent(5).weights(tiny).isfinite().all())


@pytest.mark.parametrize(("factor", "converges"), [(1.9, True), (2.1, False)])
def test_steps_up_to_two_over_l_converge(
    factor: float, converges: bool, random_prompt: Draw
) -> None:
    # In one dimension a step contracts by |1 - size L|; 0.9^400 is 5e-19 and 1.1^400 is 4e16.
    prompt = random_prompt(batch=1, points=3, dims=1)
    learner = GradientDescent(400, factor / float(largest_eigenvalues(prompt)[0, 2]))
    expected = np.linalg.lstsq(prompt.xs[0, :2].numpy(), prompt.ys[0, :2].numpy(), rcond=None)[0]
    error = abs(float(learner.weights(prompt)[0, 2, 0, 0]) - float(expected[0, 0]))
    assert (error < REFERENCE) is converges


def test_a_start_of_the_wrong_length_is_refused(random_prompt: Draw) -> None:
    with pytest.raises(ConfigurationError, match="2 numbers and the prompt 3 dimensions"):
        il.predict(GradientDescent(1, start=(0.0, 1.0)), random_prompt(dims=3))


def test_configuration() -> None:
    assert GradientDescent(3, step_size="0.1").step_size == 0.1  # pyright: ignore[reportArgumentType]
    assert GradientDescent(3).name == "GradientDescent(steps=3)"
    for wrong in ({"steps": -1}, {"steps": 1, "step_size": 0}, {"steps": 1, "step_size": math.inf}):
        with pytest.raises(ValidationError):
            GradientDescent(**wrong)  # pyright: ignore[reportArgumentType]


def test_fixed_point_is_least_squares_and_anderson_finds_it_sooner(random_prompt: Draw) -> None:
    prompt = well_conditioned(random_prompt(batch=6, points=9, dims=4))
    steps: dict[str, torch.Tensor] = {}
    for kind in ("none", "anderson"):
        result = il.run_to_fixed_point(
            GradientDescent(1), prompt, tolerance=1e-12, max_steps=20_000, acceleration=kind
        )
        steps[kind] = result.steps
        for b in range(6):
            for i in range(1, 9):
                x, y = prompt.xs[b, :i].numpy(), prompt.ys[b, :i].numpy()
                expected = np.linalg.lstsq(x, y, rcond=None)[0]
                np.testing.assert_allclose(result.state.weights[b, i], expected, atol=REFERENCE)
    assert bool((2 * steps["anderson"] < steps["none"]).all())


def test_divergence_is_reported(random_prompt: Draw) -> None:
    prompt = random_prompt(batch=3, points=6, dims=3)
    with pytest.raises(FixedPointError, match="3 diverged"):
        il.run_to_fixed_point(GradientDescent(1, 10.0), prompt)


def test_public_code(reference: dict[str, np.ndarray]) -> None:
    prompt = Prompt.from_arrays(reference["xs"], reference["ys"])
    for steps in (1, 10, 50):
        answer = il.predict(GradientDescent(steps, 0.01), prompt)[..., 0]  # (B, n)
        np.testing.assert_allclose(answer, reference[f"gd_0.01_{steps}"], rtol=0, atol=PUBLIC_CODE)
