"""The Bayes check on learners whose penalty is known."""

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest
import torch
from torch import Tensor

import innerloop as il
from innerloop.analysis.bayes_check import PENALTIES, bayes_check
from innerloop.analysis.similarity import spd
from innerloop.core.errors import ConfigurationError, PromptError
from innerloop.core.prompt import Prompt
from innerloop.learners import OLS, Bayes, FromFunction, GradientDescent, Ridge

DrawPrompt = Callable[..., Prompt]


def noisy_prompt(noise: float, prior_variance: float, prompts: int = 128) -> Prompt:
    task = il.tasks.LinearRegression(
        dims=6, noise=noise, prior_variance=prior_variance, dtype="float64"
    )
    return task.sample(prompts, 12, generator=torch.Generator().manual_seed(4))


@pytest.mark.parametrize(("noise", "prior_variance"), [(0.5, 1.0), (1.0, 0.5), (2.0, 2.0), (0, 1)])
def test_bayes_is_found_where_it_is(noise: float, prior_variance: float) -> None:
    prompt = noisy_prompt(noise, prior_variance)
    learner = Bayes(noise, prior_variance) if noise else OLS()
    found = bayes_check(learner, prompt, noise=noise, prior_variance=prior_variance)
    assert found.expected == noise**2 / prior_variance
    assert found.best.value == found.best.low == found.best.high == found.expected
    assert found.within_one_point
    assert found.support == 1
    table = found.distances.table()
    assert table.loc[table["penalty"] == found.best.value, "mean"].item() < 1e-15


def test_a_penalty_between_two_points_of_the_grid() -> None:
    prompt = noisy_prompt(0.7, 1.0)
    found = bayes_check(Bayes(0.7, 1.0), prompt, noise=0.7)
    assert found.best.value in (0.25, 0.5)
    assert found.within_one_point
    assert found.expected == pytest.approx(0.49)


@pytest.mark.parametrize("penalty", [0.125, 2.0])
def test_two_points_away_is_not_within_one(penalty: float) -> None:
    found = bayes_check(Ridge(penalty), noisy_prompt(0.5**0.5, 1.0), noise=0.5**0.5)
    assert found.best.value == penalty
    assert not found.within_one_point
    assert found.support == 0
    assert "not within one grid point of 0.5" in str(found)


@pytest.mark.parametrize("penalty", [0.25, 1.0])
def test_one_point_away_is_within_one(penalty: float) -> None:
    # The root of 0.5 squared is a little more than 0.5: give the variance, not the noise.
    found = bayes_check(Ridge(penalty), noisy_prompt(1.0, 2.0), noise=1.0, prior_variance=2.0)
    assert (found.best.value, found.expected) == (penalty, 0.5)
    assert found.within_one_point
    assert "within one grid point of 0.5" in str(found)


def test_the_table_holds_the_spd_of_every_penalty() -> None:
    prompt = noisy_prompt(0.5, 1.0, prompts=40)
    penalties = (1.0, 0.1, 0.5, 0.1)  # sorted, and each once
    found = bayes_check(GradientDescent(9), prompt, noise=0.5, penalties=penalties, steps=4)
    table = found.distances.table()
    assert list(table["penalty"]) == [0.1, 0.5, 1.0]
    for penalty, *row in table[["penalty", "mean", "low", "high"]].to_numpy():
        expected = spd(GradientDescent(4), Ridge(float(penalty)), prompt)
        each = expected.mean("examples").interval()
        ends = [float(each.value), float(each.low), float(each.high)]
        assert row == pytest.approx(ends, rel=1e-10)


def test_queries_and_scored_positions_are_those_that_count(random_prompt: DrawPrompt) -> None:
    prompt = random_prompt(9, 6, 3, outputs=2, queries=4)
    scored = torch.ones(9, 6, dtype=torch.bool)
    scored[3], scored[:, 5] = False, False
    prompt = replace(prompt, scored=scored)
    found = bayes_check(GradientDescent(3), prompt, noise=1.0, penalties=(0.5, 1.0, 2.0))
    for penalty, mean in found.distances.table()[["penalty", "mean"]].to_numpy():
        expected = spd(GradientDescent(3), Ridge(float(penalty)), prompt)
        assert mean == pytest.approx(float(expected.mean("examples").interval().value), rel=1e-10)


def test_uncertainty_shows_in_the_interval() -> None:
    """Few prompts and a learner full of noise: the nearest penalty depends on the draw."""
    prompt = noisy_prompt(1.0, 1.0, prompts=12)

    def noisy(xs: Tensor, ys: Tensor) -> Tensor:
        noise = torch.randn(ys.shape, generator=torch.Generator().manual_seed(8), dtype=ys.dtype)
        return il.predict(Ridge(1.0), Prompt(xs=xs, ys=ys)) + 5 * noise

    found = bayes_check(FromFunction(noisy), prompt, noise=1.0)
    best = found.best
    assert best.low <= best.value <= best.high
    assert best.low < best.high
    assert {best.low, best.value, best.high} <= set(PENALTIES)
    wider = bayes_check(FromFunction(noisy), prompt, noise=1.0, confidence=0.99).best
    assert wider.low <= best.low < best.high <= wider.high
    assert 0 < found.support <= 1


def test_support_counts_the_draws(random_prompt: DrawPrompt) -> None:
    """Half of the prompts are at one penalty, half at another: which wins depends on the draw."""
    prompt = random_prompt(20, 8, 3)

    def two_minds(xs: Tensor, ys: Tensor) -> Tensor:
        low, high = (il.predict(Ridge(p), Prompt(xs=xs, ys=ys)) for p in (1.0, 16.0))
        return torch.where(torch.arange(len(xs))[:, None, None] % 2 == 0, low, high)

    found = bayes_check(
        FromFunction(two_minds), prompt, noise=1.0, penalties=(1.0, 4.0, 16.0), draws=4000
    )
    plain = found.distances.table()["mean"].to_numpy()
    assert found.best.value == (1.0, 4.0, 16.0)[int(np.argmin(plain))]
    values = np.stack([_distances(two_minds, prompt, p) for p in (1.0, 4.0, 16.0)], axis=1)
    numbers = np.random.default_rng(0).integers(20, size=(4000, 20))
    winners = values[numbers].mean(axis=1).argmin(axis=1)
    # Two samples of 4000 draws: a share differs by at most 0.0112 standard errors; four of them.
    assert found.support == pytest.approx((winners <= 1).mean(), abs=0.045)


def _distances(function: Callable[[Tensor, Tensor], Tensor], prompt: Prompt, penalty: float):
    difference = function(prompt.xs, prompt.ys) - il.predict(Ridge(penalty), prompt)  # (P, n, 1)
    return difference.square().mean(dim=(1, 2)).numpy()


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        ({"noise": 20.0}, "reaches around it"),
        ({"noise": 0.1, "penalties": (0.5, 1.0)}, "reaches around it"),
        ({"noise": -1.0}, "noise is -1"),
        ({"noise": 1.0, "prior_variance": 0.0}, "prior_variance 0"),
        ({"noise": 1.0, "penalties": (1.0, 1.0)}, "at least two"),
        ({"noise": 0.1, "penalties": (-1.0, 1.0)}, "0 or more"),
    ],
)
def test_bad_arguments_are_one_sentence(
    arguments: dict[str, float], sentence: str, random_prompt: DrawPrompt
) -> None:
    with pytest.raises(ConfigurationError, match=sentence):
        bayes_check(OLS(), random_prompt(2, 4, 2), **arguments)  # type: ignore[arg-type]


def test_what_cannot_be_compared_is_refused(random_prompt: DrawPrompt) -> None:
    prompt = random_prompt(3, 4, 2)
    broken = FromFunction(lambda xs, ys: ys / 0.0, label="infinite")
    with pytest.raises(PromptError, match="not finite"):
        bayes_check(broken, prompt, noise=1.0)
    nothing = replace(prompt, scored=torch.zeros(3, 4, dtype=torch.bool))
    with pytest.raises(PromptError, match="no position"):
        bayes_check(OLS(), nothing, noise=1.0)
