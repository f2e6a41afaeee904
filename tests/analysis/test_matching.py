"""Matching the steps of two learners, where the answer is known."""

import numpy as np
import pytest
import torch

from innerloop.analysis.matching import match, matched
from innerloop.analysis.similarity import sim_e, sim_w, spd
from innerloop.core.errors import ConfigurationError
from innerloop.core.prompt import Prompt
from innerloop.learners import GradientDescent, Newton
from innerloop.tasks import LinearRegression


def noisy_prompt(batch: int = 40) -> Prompt:
    """With noise residuals stay apart from rounding at every step."""
    task = LinearRegression(dims=4, noise=0.3)
    prompt = task.sample(batch, 9, generator=torch.Generator().manual_seed(0))
    return prompt.to(dtype=torch.float64)


@pytest.mark.parametrize("measure", ["sim_e", "sim_w", "spd"])
def test_a_learner_matches_itself_step_by_step(measure: str) -> None:
    learner = GradientDescent(steps=6, step_size=0.02)
    found = match(learner, learner, noisy_prompt(), measure=measure)  # pyright: ignore[reportArgumentType]
    assert found.best.tolist() == list(range(7))
    # Its last step might match a later one, so it is not among the fitted.
    assert found.fitted == range(1, 6)
    assert found.linear.slope == pytest.approx(1.0)
    assert found.linear.r_squared == pytest.approx(1.0)


def test_two_steps_of_half_the_size_match_one() -> None:
    """To first order; the slope of the best match is two."""
    slow = GradientDescent(steps=40, step_size=0.001)
    fast = GradientDescent(steps=10, step_size=0.002)
    found = match(fast, slow, noisy_prompt())
    assert found.linear.slope == pytest.approx(2.0, abs=0.1)


def test_newton_doubles_gradient_descent() -> None:
    """Newton's k-th residual is that of 2^k small steps on S^2: exponential, not linear."""
    found = match(Newton(steps=6), GradientDescent(steps=400), noisy_prompt())
    assert found.log_linear.r_squared > found.linear.r_squared
    assert found.log_linear.slope > 0.4


@pytest.mark.parametrize(("measure", "plain"), [("sim_e", sim_e), ("sim_w", sim_w), ("spd", spd)])
def test_every_entry_is_the_similarity_of_these_steps(measure: str, plain: object) -> None:
    first, second = GradientDescent(steps=3, step_size=0.02), Newton(steps=2)
    prompt = noisy_prompt(15)
    table = match(first, second, prompt, measure=measure).similarity  # pyright: ignore[reportArgumentType]
    assert table.shape == (4, 3)
    for i in range(4):
        for j in range(3):
            if measure == "sim_w" and i == 0:
                continue  # zero weights have no direction: 0 here, and 0 there
            value = plain(first, second, prompt, steps=(i, j), draws=2).mean  # pyright: ignore
            assert float(table[i, j]) == pytest.approx(value, abs=1e-9)


def test_an_iteration_that_diverges_is_no_match() -> None:
    wild = GradientDescent(steps=400, step_size=10.0)
    found = match(GradientDescent(steps=3, step_size=0.02), wild, noisy_prompt(), measure="spd")
    assert int(found.best.max()) == 0
    assert bool(torch.isfinite(found.value).all())


def test_fits_without_two_points_are_not_numbers() -> None:
    found = matched(torch.eye(2, dtype=torch.float64), "sim_e")
    assert np.isnan(found.linear.slope)


def test_unknown_measure_is_refused() -> None:
    learner = Newton(steps=1)
    with pytest.raises(ConfigurationError, match="unknown measure 'simE'"):
        match(learner, learner, noisy_prompt(2), measure="simE")  # pyright: ignore[reportArgumentType]
