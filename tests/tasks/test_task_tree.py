"""Decision trees: labels against a slow walk, and the distributions of nodes, leaves and paths."""

import pytest
import torch

from innerloop.tasks.tree import DecisionTree
from tests.tasks.task_statistics import (
    SIGNIFICANCE,
    normal_probability,
    seeded,
    uniform_probability,
)


@pytest.mark.parametrize("depth", [1, 2, 4])
def test_labels_are_those_of_a_slow_walk(depth: int) -> None:
    prompt = DecisionTree(dims=5, depth=depth).sample(4, 7, generator=seeded(0))
    coordinates, leaves = prompt.truth["coordinates"], prompt.truth["leaves"]
    assert coordinates.shape == (4, 2**depth - 1)
    assert leaves.shape == (4, 2**depth)
    for b in range(4):
        for i in range(7):
            low, high = 0, 2**depth  # the leaves that are still possible
            node = 0
            while high - low > 1:
                middle = (low + high) // 2
                right = float(prompt.xs[b, i, int(coordinates[b, node])]) > 0
                low, high = (middle, high) if right else (low, middle)
                node = 2 * node + (2 if right else 1)
            assert float(prompt.ys[b, i, 0]) == float(leaves[b, low])


def test_nodes_ask_for_uniform_coordinates_and_leaves_are_normal() -> None:
    truth = DecisionTree(dims=7).sample(500, 1, generator=seeded(1)).truth
    assert uniform_probability(truth["coordinates"], 7) > SIGNIFICANCE
    for node in (0, 14):
        assert uniform_probability(truth["coordinates"][:, node], 7) > SIGNIFICANCE
    assert normal_probability(truth["leaves"]) > SIGNIFICANCE


def test_every_leaf_is_reached_as_often_where_no_question_is_repeated() -> None:
    task = DecisionTree(dims=20, depth=3)
    inputs = task.draw_inputs(4000, 1, seeded(2))  # (B, 1, d)
    function = task.draw_function(4000, seeded(3))
    # A path that asks for a coordinate twice cannot turn at it; trees that ask a coordinate at
    # most once on every path are complete.
    function["coordinates"] = torch.arange(7).expand(4000, 7)
    numbered = {**function, "leaves": torch.arange(8.0).expand(4000, 8)}
    reached = task.evaluate(numbered, inputs).long()  # (B, 1, 1)
    assert uniform_probability(reached, 8) > SIGNIFICANCE


def test_every_level_splits_evenly_with_random_coordinates() -> None:
    task = DecisionTree(dims=6, depth=4)
    inputs = task.draw_inputs(6000, 1, seeded(4))  # (B, 1, d)
    function = task.draw_function(6000, seeded(5))
    # Repeated questions make leaves 0 and 15 more likely, but each level still splits evenly.
    numbered = {**function, "leaves": torch.arange(16.0).expand(6000, 16)}
    reached = task.evaluate(numbered, inputs).long().flatten()  # (B,)
    for level in range(4):
        assert uniform_probability((reached >> level) & 1, 2) > SIGNIFICANCE


def test_trees_differ_between_prompts() -> None:
    truth = DecisionTree(dims=20).sample(50, 1, generator=seeded(6)).truth
    assert len({tuple(row) for row in truth["coordinates"].tolist()}) == 50


def test_zero_goes_left() -> None:
    task = DecisionTree(dims=1, depth=1)
    function = {
        "coordinates": torch.zeros(1, 1, dtype=torch.long),
        "leaves": torch.tensor([[1.0, 2.0]]),
    }
    values = task.evaluate(function, torch.tensor([[[0.0], [1e-9], [-1.0]]]))  # (1, 3, 1)
    assert values.flatten().tolist() == [1, 2, 1]


@pytest.mark.parametrize("depth", [0, 17])
def test_depths_out_of_range_are_refused(depth: int) -> None:
    with pytest.raises(ValueError, match="depth"):
        DecisionTree(dims=3, depth=depth)
