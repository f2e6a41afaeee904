"""Chains of thought: tokens against a slow loop, levels, scored positions and second moments."""

import pytest
import torch

from innerloop.tasks.chain import ChainOfThought
from tests.tasks.task_statistics import LARGEST_Z, SIGNIFICANCE, normal_probability, seeded, z_score


@pytest.mark.parametrize("points", [1, 3, 4, 5, 11])
def test_tokens_are_those_of_a_slow_loop(points: int) -> None:
    task = ChainOfThought(dims=3, layers=3, slope=0.2, dtype="float64")
    prompt = task.sample(2, points, generator=seeded(0))
    layers, level = prompt.truth["layers"], prompt.truth["level"]
    assert layers.shape == (2, 3, 3, 3)
    assert prompt.scored is not None
    assert torch.equal(prompt.ys[:, :-1], prompt.xs[:, 1:])
    for b in range(2):
        for i in range(points):
            assert int(level[b, i]) == i % 4
            assert bool(prompt.scored[b, i]) == (i % 4 != 3)
            if i % 4 != 3:
                before = prompt.xs[b, i] @ layers[b, i % 4]  # (d,)
                after = torch.tensor([v if v > 0 else 0.2 * v for v in before.tolist()])
                assert float((after - prompt.ys[b, i]).abs().max()) < 1e-6  # collected in float32


def test_every_level_has_second_moment_one() -> None:
    prompt = ChainOfThought(dims=5).sample(8000, 7, generator=seeded(1))
    for level in range(7):
        squares = prompt.xs[:, level].square().mean(dim=1)  # (B,)
        assert abs(z_score(squares, 1)) < LARGEST_Z


def test_inputs_and_weights_are_normal() -> None:
    task = ChainOfThought(dims=4, layers=2, slope=0.5)
    prompt = task.sample(400, 9, generator=seeded(2))
    fresh = prompt.xs[prompt.truth["level"] == 0]  # (.., d)
    assert fresh.shape == (3 * 400, 4)
    assert normal_probability(fresh) > SIGNIFICANCE
    deviation = (2 / (1.25 * 4)) ** 0.5
    assert normal_probability(prompt.truth["layers"], deviation) > SIGNIFICANCE


def test_targets_that_are_fresh_inputs_are_unpredictable() -> None:
    prompt = ChainOfThought(dims=2, layers=1).sample(2000, 4, generator=seeded(3))
    assert abs(z_score(prompt.xs[:, 1, 0] * prompt.ys[:, 1, 0], 0)) < LARGEST_Z


def test_levels_count_from_the_input() -> None:
    prompt = ChainOfThought(dims=2, layers=2).sample(3, 7, generator=seeded(4))
    assert prompt.truth["level"].dtype == torch.int64
    assert prompt.truth["level"][2].tolist() == [0, 1, 2, 0, 1, 2, 0]
