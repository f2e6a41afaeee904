"""Two-layer networks: labels against a slow loop, weights, variance, and bounded memory."""

import pytest
import torch

from innerloop.core.chunks import budget
from innerloop.core.tolerances import REFERENCE
from innerloop.tasks.network import TwoLayerNetwork
from tests.tasks.task_statistics import LARGEST_Z, SIGNIFICANCE, normal_probability, seeded, z_score


def test_labels_are_those_of_a_slow_loop() -> None:
    task = TwoLayerNetwork(dims=3, hidden=5, dtype="float64")
    prompt = task.sample(2, 4, generator=seeded(0))
    u, v = prompt.truth["u"], prompt.truth["v"]
    for b in range(2):
        for i in range(4):
            total = 0.0
            for j in range(5):
                inner = sum(float(u[b, c, j] * prompt.xs[b, i, c]) for c in range(3))
                total += float(v[b, j, 0]) * max(inner, 0.0)
            assert float(prompt.ys[b, i, 0]) == pytest.approx((2 / 5) ** 0.5 * total, abs=REFERENCE)


def test_weights_are_normal() -> None:
    truth = TwoLayerNetwork(dims=4).sample(50, 1, generator=seeded(1)).truth
    assert normal_probability(truth["u"]) > SIGNIFICANCE
    assert normal_probability(truth["v"]) > SIGNIFICANCE


@pytest.mark.parametrize("dims", [1, 5, 20])
def test_the_variance_of_the_outputs_is_d(dims: int) -> None:
    ys = TwoLayerNetwork(dims=dims).sample(5000, 2, generator=seeded(2)).ys  # (B, n, 1)
    assert abs(z_score(ys.square().mean(dim=1), dims)) < LARGEST_Z
    assert abs(z_score(ys.mean(dim=1), 0)) < LARGEST_Z


def test_chunks_do_not_change_the_labels() -> None:
    task = TwoLayerNetwork(dims=3, hidden=10, dtype="float64")
    whole = task.sample(7, 4, generator=seeded(3)).ys  # (B, n, 1)
    with budget(2 * (2 * 4 * 10 * 8)):  # two prompts at a time
        parts = task.sample(7, 4, generator=seeded(3)).ys  # (B, n, 1)
    assert float((whole - parts).abs().max()) < REFERENCE
    assert not torch.equal(whole, torch.zeros_like(whole))
