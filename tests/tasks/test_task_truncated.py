"""Tasks with fewer dimensions."""

import pytest
import torch

from innerloop.core.errors import ShiftError
from innerloop.tasks.chain import ChainOfThought
from innerloop.tasks.linear import LinearRegression
from innerloop.tasks.sparse import SparseLinearRegression
from innerloop.tasks.tree import DecisionTree
from innerloop.tasks.truncated import Truncated


def test_labels_are_those_of_the_truncated_inputs(generator: torch.Generator) -> None:
    task = LinearRegression(dims=4, dtype="float64")
    prompt = Truncated(task=task, active=2).sample(50, 6, generator=generator)
    assert prompt.dims == 4
    assert bool((prompt.xs[..., :2] != 0).all())
    assert bool((prompt.xs[..., 2:] == 0).all())
    weights = prompt.truth["w"].clone()  # (B, d, 1)
    weights[:, 2:] = 99.0  # what is cut off does not matter
    assert torch.allclose(prompt.xs @ weights, prompt.ys)


def test_all_dimensions_are_the_task_itself(generator: torch.Generator) -> None:
    task = DecisionTree(dims=3)
    whole = task.sample(9, 5, generator=generator.manual_seed(1))
    kept = Truncated(task=task, active=3).sample(9, 5, generator=generator.manual_seed(1))
    assert torch.equal(kept.xs, whole.xs)
    assert torch.equal(kept.ys, whole.ys)


@pytest.mark.parametrize(("sparsity", "active", "weights"), [(1, 2, 1), (3, 4, 3), (3, 2, 2)])
def test_sparse_functions_have_their_weights_at_coordinates_that_are_kept(
    sparsity: int, active: int, weights: int, generator: torch.Generator
) -> None:
    task = SparseLinearRegression(dims=8, sparsity=sparsity)
    prompt = Truncated(task=task, active=active).sample(200, 3, generator=generator)
    found = prompt.truth["w"][..., 0] != 0  # (B, d)
    assert (found.sum(dim=1) == weights).all()
    assert not found[:, active:].any()
    assert bool((prompt.ys != 0).all())


def test_a_sparse_task_with_all_dimensions_is_itself(generator: torch.Generator) -> None:
    task = SparseLinearRegression(dims=4, sparsity=2)
    whole = task.sample(9, 5, generator=generator.manual_seed(1))
    kept = Truncated(task=task, active=4).sample(9, 5, generator=generator.manual_seed(1))
    assert torch.equal(kept.ys, whole.ys)


def test_the_scale_is_that_of_the_task() -> None:
    task = LinearRegression(dims=4, noise=0.5)
    assert torch.equal(Truncated(task=task, active=1).scale(), task.scale())


def test_more_dimensions_than_there_are_are_refused() -> None:
    with pytest.raises(ShiftError, match="at most dims, 4"):
        Truncated(task=LinearRegression(dims=4), active=5)


def test_streams_are_refused() -> None:
    with pytest.raises(ShiftError, match="labels no inputs"):
        Truncated(task=ChainOfThought(dims=4), active=2)
