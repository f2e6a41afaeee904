"""Sparse linear regression: the support is uniform, the weights on it are normal."""

import itertools

import pytest
import torch

from innerloop.tasks.sparse import SparseLinearRegression
from tests.tasks.task_statistics import (
    LARGEST_Z,
    SIGNIFICANCE,
    normal_probability,
    seeded,
    uniform_probability,
    z_score,
)


@pytest.mark.parametrize("sparsity", [1, 3, 6])
def test_exactly_so_many_weights_are_not_zero(sparsity: int) -> None:
    task = SparseLinearRegression(dims=6, sparsity=sparsity)
    w = task.sample(300, 2, generator=seeded(0)).truth["w"]  # (B, d, 1)
    assert ((w != 0).sum(dim=1) == sparsity).all()


def test_every_coordinate_is_as_likely() -> None:
    w = SparseLinearRegression(dims=10).sample(4000, 1, generator=seeded(1)).truth["w"]
    support = w[..., 0] != 0  # (B, d)
    # Coordinates of one support exclude each other, so that each is tested as a mean of its own.
    for i in range(10):
        assert abs(z_score(support[:, i], 0.3)) < LARGEST_Z


def test_every_support_is_as_likely_and_differs_between_prompts() -> None:
    w = SparseLinearRegression(dims=5, sparsity=2).sample(4000, 1, generator=seeded(2)).truth["w"]
    supports = {pair: number for number, pair in enumerate(itertools.combinations(range(5), 2))}
    found = torch.tensor([supports[tuple(row.nonzero()[:, 0].tolist())] for row in w[..., 0]])
    assert uniform_probability(found, len(supports)) > SIGNIFICANCE


def test_weights_on_the_support_are_normal() -> None:
    w = SparseLinearRegression(dims=8).sample(1000, 1, generator=seeded(3)).truth["w"]
    assert normal_probability(w[w != 0]) > SIGNIFICANCE


def test_labels_are_products_with_noise() -> None:
    task = SparseLinearRegression(dims=8, noise=0.4, dtype="float64")
    prompt = task.sample(500, 4, generator=seeded(4))
    noise = prompt.ys - (prompt.xs * prompt.truth["w"].mT).sum(dim=2, keepdim=True)  # (B, n, 1)
    assert normal_probability(noise, 0.4) > SIGNIFICANCE


def test_more_weights_than_dimensions_are_refused() -> None:
    with pytest.raises(ValueError, match="sparsity is 4, expected at most dims, 3"):
        SparseLinearRegression(dims=3, sparsity=4)
