"""The measures of Fu et al.'s studies on learners whose answer is known, and the algebra of B.3."""

import math
from dataclasses import replace
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
import torch
from numpy.polynomial import Polynomial

from innerloop.analysis import Measured, forgetting, match
from innerloop.analysis.intervals import Averages, estimate
from innerloop.core.iterate import iterate
from innerloop.core.learner import Learner
from innerloop.core.prompt import Prompt
from innerloop.learners import GradientDescent, Newton, OnlineGradientDescent, Strided
from innerloop.studies.fu2023.growth import explained, refined_matches
from innerloop.studies.fu2023.ill_conditioned import small_directions, steps_to_reach
from innerloop.studies.fu2023.layer_matches import fig3
from innerloop.studies.fu2023.layer_trends import (
    Measure,
    Trend,
    linear_steps,
    logarithmic_steps,
    measures_of,
    trend_claims,
    trends_of,
)
from innerloop.studies.fu2023.lstm import older_over_newer
from innerloop.studies.fu2023.model_layers import DESCENT, NEWTON, Layers
from innerloop.studies.fu2023.theorems import PRINTED, binomial, expanded, gradient_degree, off_by
from innerloop.studies.lab import Lab
from innerloop.tasks.linear import LinearRegression

LAYERS = range(1, 8)


@pytest.fixture(scope="module")
def prompt() -> Prompt:
    task = LinearRegression(dims=5)
    return task.sample(96, 11, generator=torch.Generator().manual_seed(7))


@pytest.fixture
def lab() -> Lab:
    return Lab(study="fu2023/test", scale="smoke")


def trends(
    lab: Lab, learner: Learner[Any], prompt: Prompt, layers: range = LAYERS
) -> tuple[Trend, Trend]:
    """A learner's steps, as if they were layers, beside both algorithms."""
    both = {NEWTON: Newton(14), DESCENT: GradientDescent(150)}
    falling = torch.tensor([float(layer in layers) for layer in LAYERS])  # (7,)
    several = trends_of(lab, as_layers(learner, prompt), both, "SimE").values()
    newton, descent = (replace(trend, falling=falling) for trend in several)
    return newton, descent


def as_layers(learner: Learner[Any], prompt: Prompt) -> Layers:
    """A learner's steps, as if they were layers, in which no error falls."""
    queries = torch.randn(96, 30, 5, generator=torch.Generator().manual_seed(1))
    level = Measured(values=torch.ones(96, learner.steps + 1, 11), axes=("layer", "examples"))
    return Layers(learner=learner, prompt=prompt, queries=queries, errors=level)


def measures(lab: Lab, newton: Trend, descent: Trend) -> dict[str, Measured]:
    return dict(measures_of(lab, {("SimE", NEWTON): newton, ("SimE", DESCENT): descent}))


def verdicts(lab: Lab, newton: Trend, descent: Trend) -> dict[str, str]:
    """What the claims of a trend come to, whatever the scale."""
    known = {}
    for claim in trend_claims("SimE"):
        number = estimate(claim.statistic, [measures(lab, newton, descent)], draws=100)
        known[claim.name] = claim.criterion.judge(number.low, number.high)
    return known


@pytest.mark.parametrize("per_layer", [1, 2])
def test_layers_that_run_newton_have_the_papers_trends(
    lab: Lab, prompt: Prompt, per_layer: int
) -> None:
    newton, descent = trends(lab, Strided(Newton(14), (per_layer,) * 7), prompt)
    assert newton.best.tolist() == [per_layer * layer for layer in LAYERS]
    assert set(verdicts(lab, newton, descent).values()) == {"confirmed"}
    (claim,) = [each for each in fig3.claims if each.name == "iterations-a-layer"]
    assert float(claim.statistic(Averages(measures(lab, newton, descent)))) == per_layer
    # The match at the last iteration that is run does not count: a later one might be nearer.
    assert newton.fitted.tolist() == [float(per_layer * layer < 14) for layer in LAYERS]


def test_iterations_are_counted_in_the_middle_layers() -> None:
    """Of 12 layers in 3 to 9: three a layer there, and hardly any outside."""
    matches = [0, 0, 3, 6, 9, 12, 15, 18, 21, 21, 21, 21]
    similarity = torch.nn.functional.one_hot(torch.tensor(matches), 24).double()  # (L, C)
    (claim,) = [each for each in fig3.claims if each.name == "iterations-a-layer"]
    name = f"SimE, {NEWTON}"
    both = {name: similarity, f"{name}, fitted": torch.ones(12, dtype=torch.float64)}
    assert float(claim.statistic(both)) == pytest.approx(3)  # pyright: ignore[reportArgumentType]


@pytest.mark.parametrize("per_layer", [2, 3, 5, 10, 20])
def test_layers_that_run_gradient_descent_do_not(lab: Lab, prompt: Prompt, per_layer: int) -> None:
    """Their own matches are a line, and those of Newton's method a logarithm."""
    strides = (per_layer,) * 7
    newton, descent = trends(lab, Strided(GradientDescent(sum(strides)), strides), prompt)
    assert descent.best.tolist() == [per_layer * layer for layer in LAYERS]
    assert set(verdicts(lab, newton, descent).values()) == {"contradicted"}
    matches = refined_matches(newton.similarity.values.mean(dim=0))  # (7,)
    parts = explained(matches, torch.ones(7), NEWTON)
    assert float(parts["logarithm"]) > 0.99


def test_too_few_layers_conclude_nothing(prompt: Prompt) -> None:
    for layers, expected in ((4, {"inconclusive"}), (5, {"confirmed", "contradicted"})):
        lab = Lab(study="fu2023/test", scale="smoke")
        newton, _ = trends(lab, Strided(Newton(7), (1,) * 7), prompt, range(1, 1 + layers))
        as_descent = replace(newton, similarity=replace(newton.similarity, label=DESCENT))
        known = verdicts(lab, newton, as_descent)
        assert {known["errors-newton-linear"], known["errors-descent-exponential"]} == expected
        assert bool(lab.notes) == (layers == 4)


@pytest.mark.parametrize("measure", ["SimE", "SimW"])
def test_similarities_are_those_of_match(lab: Lab, prompt: Prompt, measure: Measure) -> None:
    first, second = Newton(4), GradientDescent(12)
    layers = as_layers(first, prompt)
    (trend,) = trends_of(lab, layers, {DESCENT: second}, measure).values()
    own = trend.similarity
    expected = match(first, second, prompt, measure="sim_e" if measure == "SimE" else "sim_w")
    assert own.values.shape == (prompt.batch, 4, 13)  # without the embedding
    assert own.ticks["layer"] == [1, 2, 3, 4]
    # By SimW, weights are fitted to answers of float32.
    means = expected.values.mean(dim=0)[1:]  # (4, 13)
    assert torch.allclose(own.values.mean(dim=0), means, atol=1e-5)
    assert trend.best.tolist() == means.argmax(dim=1).tolist()
    assert torch.allclose(trend.at_best.values.mean(dim=0), means.amax(dim=1), atol=1e-5)


def test_steps_to_reach() -> None:
    errors = torch.tensor([[1.0, 0.5, 0.2, 0.1], [1.0, 0.9, 0.8, 0.7]])  # (2, 4)
    assert steps_to_reach(errors, torch.tensor([0.2, 0.2])).tolist() == [2.0, torch.inf]


def test_small_directions_are_what_large_ones_leave() -> None:
    """The error of weights that are right in the large directions and zero in the small ones."""
    task = LinearRegression(dims=6, covariance=(100.0, 100.0, 100.0, 1.0, 1.0, 1.0))
    xs = task.sample(4096, 7, generator=torch.Generator().manual_seed(2)).xs  # (B, n, d)
    assert small_directions(6) == pytest.approx(3 / 303)
    assert float(xs.square().sum(dim=-1).mean()) == pytest.approx(303, rel=0.05)


@pytest.mark.parametrize("count", [1, 2, 13, 21, 401, 801])
def test_steps_that_are_drawn(count: int) -> None:
    for steps in (linear_steps(count), logarithmic_steps(count)):
        assert len(steps) <= 21
        assert steps == sorted(set(steps))
        assert steps[0] == 0
        assert steps[-1] == count - 1


def test_the_table_of_similarities_holds_the_means(lab: Lab, prompt: Prompt) -> None:
    newton, _ = trends(lab, Strided(Newton(7), (1,) * 7), prompt)
    table = newton.similarity.table().pivot(index="step", columns="layer", values="mean")
    assert list(table.columns) == list(range(1, 8))
    expected = newton.similarity.values.mean(dim=0).T  # (C, 7)
    assert table.to_numpy() == pytest.approx(expected.numpy(), abs=1e-12)


def test_online_descent_forgets_and_newton_does_not() -> None:
    task = LinearRegression(dims=5)
    seen = task.sample(512, 10, generator=torch.Generator().manual_seed(3))
    online, newton = (
        estimate(older_over_newer("x"), [{"x, asked again": forgetting(learner, seen, task)}])
        for learner in (OnlineGradientDescent(), Newton(2))
    )
    assert online.low > 1.25
    assert newton.low < 1.0 < newton.high


def test_newton_as_a_polynomial() -> None:
    right = expanded(4)
    assert right[1].coef.tolist() == [0, 2, 0, -1]
    assert right[2].coef.tolist() == [0, 4, 0, -6, 0, 4, 0, -1]
    assert [polynomial.degree() for polynomial in right] == [1, 3, 7, 15, 31]
    assert [binomial(k) for k in range(5)] == right
    assert [gradient_degree(k) for k in (0, 1, 2, 5)] == [0, 0, 1, 4]


def test_polynomials_have_whole_numbers_of_any_size() -> None:
    """Of 64 bits, a binomial of 128 would be wrong by far."""
    assert expanded(7)[7].coef[127] == -math.comb(128, 64)
    assert math.comb(128, 64) > 2**64


def test_the_printed_polynomials_are_not_newton() -> None:
    for k in (1, 2):
        assert off_by(expanded(k)[k], k) == 0
        coefficients = [PRINTED[k].get(power, 0) for power in range(8)]
        printed = Polynomial(np.array(coefficients, dtype=object))
        assert off_by(printed, k) > Fraction(1, 1000)


def test_the_learner_is_that_polynomial() -> None:
    task = LinearRegression(dims=3, dtype="float64")
    prompt = task.sample(4, 7, generator=torch.Generator().manual_seed(5))
    alpha, k = 1e-3, 3
    learner = Newton(k, start=alpha)
    *_, state = iterate(learner, prompt)
    for i in (1, 3, 6):
        xs = prompt.xs[:, :i]  # (4, i, 3)
        gram = xs.mT @ xs  # (4, 3, 3)
        expected = torch.zeros_like(gram)  # (4, 3, 3)
        for power, coefficient in enumerate(expanded(k)[k].coef):
            if coefficient:
                size = float(coefficient) * alpha ** ((power + 1) // 2)
                expected += size * torch.linalg.matrix_power(gram, power)
        assert state.matrices()[:, i] == pytest.approx(expected, abs=1e-10)
