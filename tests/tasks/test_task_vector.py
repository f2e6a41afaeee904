"""Vector generation: linear prompts with a uniform direction."""

import scipy.stats
import torch

from innerloop.core.tolerances import EXACT_CIRCUIT
from innerloop.tasks.vector import VectorGeneration
from tests.tasks.task_statistics import SIGNIFICANCE, seeded


def test_theta_has_length_one_and_labels_are_products() -> None:
    prompt = VectorGeneration(dims=4, dtype="float64").sample(100, 5, generator=seeded(0))
    theta = prompt.truth["w"]  # (B, d, 1)
    assert float((theta.square().sum(dim=1) - 1).abs().max()) < EXACT_CIRCUIT
    products = (prompt.xs * theta.mT).sum(dim=2, keepdim=True)  # (B, n, 1)
    assert float((products - prompt.ys).abs().max()) < EXACT_CIRCUIT


def test_theta_is_uniform_on_the_sphere() -> None:
    theta = VectorGeneration(dims=3).sample(2000, 1, generator=seeded(1)).truth["w"][..., 0]
    # On the sphere in three dimensions the coordinate along any direction is uniform.
    direction = torch.tensor([1.0, 2.0, -2.0]) / 3
    for coordinate in (theta[:, 0], theta @ direction):
        probability = scipy.stats.kstest(((coordinate + 1) / 2).numpy(), "uniform").pvalue
        assert probability > SIGNIFICANCE
