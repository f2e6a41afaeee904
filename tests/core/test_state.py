"""States as trees of batch-first tensors."""

from dataclasses import dataclass

import pytest
import torch
from torch import Tensor

from innerloop.core.state import clone_state, map_state, put_state, select_state


@dataclass(frozen=True)
class Inner:
    count: Tensor  # (B,) int64


@dataclass(frozen=True)
class Outer:
    weights: Tensor  # (B, 2)
    inner: Inner


@pytest.fixture
def state() -> Outer:
    return Outer(
        weights=torch.arange(8.0, dtype=torch.float64).reshape(4, 2),
        inner=Inner(count=torch.arange(4)),
    )


def test_map_goes_through_nested_records(state: Outer) -> None:
    doubled = map_state(lambda part: 2 * part, state)
    assert isinstance(doubled, Outer)
    assert torch.equal(doubled.weights, 2 * state.weights)
    assert torch.equal(doubled.inner.count, 2 * state.inner.count)
    assert doubled.inner.count.dtype == torch.int64


def test_map_takes_several_states(state: Outer) -> None:
    total = map_state(lambda one, other: one + other, state, state)
    assert torch.equal(total.inner.count, 2 * state.inner.count)


def test_map_takes_a_bare_tensor() -> None:
    assert torch.equal(map_state(torch.neg, torch.ones(3)), -torch.ones(3))


def test_map_goes_into_tuples_and_passes_over_none() -> None:
    state = (torch.ones(2), None, (torch.zeros(2),))
    one, nothing, (two,) = map_state(lambda part: part + 1, state)
    assert (one.tolist(), nothing, two.tolist()) == ([2, 2], None, [1, 1])


@pytest.mark.parametrize("wrong", [3, [torch.ones(2)], {"w": torch.ones(2)}, Outer])
def test_map_refuses_everything_else(wrong: object) -> None:
    with pytest.raises(TypeError, match=r"a state is a tensor, or a tuple or dataclass of tensors"):
        map_state(torch.neg, wrong)


def test_map_refuses_records_that_hold_anything_else() -> None:
    with pytest.raises(TypeError, match="not int"):
        map_state(torch.neg, Inner(count=3))  # pyright: ignore[reportArgumentType]


@pytest.mark.parametrize(
    "which", [torch.tensor([1, 3]), torch.tensor([False, True, False, True])], ids=["index", "mask"]
)
def test_select_keeps_the_chosen_prompts(state: Outer, which: Tensor) -> None:
    part = select_state(state, which)
    assert part.weights.tolist() == [[2, 3], [6, 7]]
    assert part.inner.count.tolist() == [1, 3]


def test_put_writes_back_what_was_selected(state: Outer) -> None:
    which = torch.tensor([3, 0])
    part = map_state(lambda value: value + 100, select_state(state, which))
    put_state(state, which, part)
    assert state.inner.count.tolist() == [100, 1, 2, 103]
    assert state.weights.tolist() == [[100, 101], [2, 3], [4, 5], [106, 107]]


def test_putting_nothing_changes_nothing(state: Outer) -> None:
    nobody = torch.tensor([], dtype=torch.int64)
    before = clone_state(state)
    put_state(state, nobody, select_state(state, nobody))
    assert torch.equal(before.weights, state.weights)


def test_clone_shares_no_memory(state: Outer) -> None:
    copy = clone_state(state)
    copy.weights.zero_()
    copy.inner.count.zero_()
    assert state.weights.sum() == 28
    assert state.inner.count.sum() == 6
