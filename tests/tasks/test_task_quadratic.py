"""Regression on squares."""

import pytest

from innerloop.core.tolerances import REFERENCE
from innerloop.tasks.quadratic import QuadraticRegression
from tests.tasks.task_statistics import SIGNIFICANCE, normal_probability, seeded


def test_labels_are_those_of_a_slow_loop() -> None:
    prompt = QuadraticRegression(dims=3, dtype="float64").sample(3, 4, generator=seeded(0))
    w = prompt.truth["w"]  # (B, d, 1)
    for b in range(3):
        for i in range(4):
            total = sum(float(w[b, c, 0]) * float(prompt.xs[b, i, c]) ** 2 for c in range(3))
            assert float(prompt.ys[b, i, 0]) == pytest.approx(total / 3**0.5, abs=REFERENCE)


def test_weights_are_normal() -> None:
    w = QuadraticRegression(dims=4).sample(500, 1, generator=seeded(1)).truth["w"]
    assert normal_probability(w) > SIGNIFICANCE
