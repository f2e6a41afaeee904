"""Regression through a fixed representation: Phi, its normalisation, labels and truth."""

import math

import pytest
import torch
from torch import Tensor

from innerloop.core.tolerances import REFERENCE
from innerloop.tasks.representation import (
    SLOPE,
    Representation,
    RepresentationRegression,
    fixed_representation,
    mean_square,
)
from tests.tasks.task_statistics import LARGEST_Z, SIGNIFICANCE, normal_probability, seeded


def slow_features(phi: Representation, x: Tensor) -> list[float]:
    """Phi of one input (d,), number by number."""
    hidden = [float(value) for value in x]
    for weight in phi.weights:
        sums = [
            sum(hidden[i] * float(weight[i, j]) for i in range(len(hidden)))
            for j in range(weight.shape[1])
        ]
        hidden = [value if value > 0 else SLOPE * value for value in sums]
    return hidden


def test_features_are_those_of_a_slow_loop() -> None:
    task = RepresentationRegression(dims=3, outputs=2, dtype="float64")
    prompt = task.sample(2, 3, generator=seeded(0))
    for b in range(2):
        for i in range(3):
            slow = torch.tensor(slow_features(task.representation, prompt.xs[b, i]))
            fast = prompt.truth["features"][b, i]  # (features,)
            assert float((slow - fast).abs().max()) < 1e-6  # slow is collected in float32
    products = prompt.truth["features"] @ prompt.truth["A"]  # (B, n, k)
    assert float((products - prompt.ys).abs().max()) < REFERENCE


def test_the_representation_is_the_same_for_all_prompts_and_types() -> None:
    one = RepresentationRegression(dims=4).representation
    two = RepresentationRegression(dims=4, noise=1, dtype="float64").representation
    other = RepresentationRegression(dims=4, representation_seed=1).representation
    assert len(one.weights) == 3
    assert [tuple(weight.shape) for weight in one.weights] == [(4, 4)] * 3
    assert all(torch.equal(a, b) for a, b in zip(one.weights, two.weights, strict=True))
    assert not torch.equal(one.weights[0], other.weights[0])
    assert one(torch.ones(2, 4)).dtype == torch.float32


def test_weights_have_the_gain_that_keeps_second_moments() -> None:
    phi = fixed_representation(60, 50, 3, 0)
    for weight in phi.weights[:-1]:  # the last one is scaled
        deviation = math.sqrt(2 / ((1 + SLOPE**2) * weight.shape[0]))
        assert normal_probability(weight, deviation) > SIGNIFICANCE
    last = phi.weights[-1]
    assert normal_probability(last, float(last.std())) > SIGNIFICANCE


def test_features_are_homogeneous() -> None:
    phi = fixed_representation(5, 4, 2, 0)
    x = torch.randn(10, 5, generator=seeded(1), dtype=torch.float64)
    assert float((phi(3 * x) - 3 * phi(x)).abs().max()) < REFERENCE
    assert float((phi.times(2.5)(x) - 2.5 * phi(x)).abs().max()) < REFERENCE


@pytest.mark.parametrize(
    ("inputs", "width", "layers"),
    [(1, 1, 3), (5, 5, 3), (20, 20, 3), (15, 5, 3), (60, 20, 3), (4, 4, 1)],
)
def test_features_keep_the_mean_square_length(inputs: int, width: int, layers: int) -> None:
    phi = fixed_representation(inputs, width, layers, 0)
    x = torch.randn(200_000, inputs, generator=seeded(2), dtype=torch.float64)  # (N, d)
    squares = phi(x).square().sum(dim=1)  # (N,)
    error = float(squares.std()) / len(squares) ** 0.5
    # The normalisation is right to about 0.1%; three times that is allowed.
    assert abs(float(squares.mean()) - width) < LARGEST_Z * error + 3e-3 * width


def test_the_mean_square_of_a_single_layer_is_known() -> None:
    weight = torch.randn(6, 3, generator=seeded(3), dtype=torch.float64)
    exact = (1 + SLOPE**2) / 2 * float(weight.square().sum())
    # Mirror images make one layer a quadratic form, which the sequence averages far better.
    assert mean_square(Representation(weights=(weight,)), 6) == pytest.approx(exact, rel=1e-3)
    assert mean_square(Representation(weights=(weight,)), 6) == mean_square(
        Representation(weights=(weight,)), 6
    )


def test_matrices_and_noise_are_normal() -> None:
    task = RepresentationRegression(dims=5, outputs=3, noise=0.2, dtype="float64")
    prompt = task.sample(300, 4, generator=seeded(4))
    assert prompt.truth["A"].shape == (300, 5, 3)
    assert normal_probability(prompt.truth["A"]) > SIGNIFICANCE
    noise = prompt.ys - prompt.truth["features"] @ prompt.truth["A"]  # (B, n, k)
    assert normal_probability(noise, 0.2) > SIGNIFICANCE
