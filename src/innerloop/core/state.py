"""States as trees: a tensor, None, or a tuple or dataclass of such, batch first."""

import dataclasses
from collections.abc import Callable
from typing import Any, TypeVar, cast

import torch
from torch import Tensor

State = TypeVar("State")


def map_state(function: Callable[..., Tensor], *states: State) -> State:
    """Apply a function of tensors to states of the same shape, part by part."""
    first = states[0]
    if isinstance(first, Tensor):
        return cast(State, function(*states))
    if first is None:
        return first
    if isinstance(first, tuple):
        rows = zip(*cast(Any, states), strict=True)
        return cast(State, tuple(map_state(function, *row) for row in rows))
    if dataclasses.is_dataclass(first) and not isinstance(first, type):
        parts: dict[str, Any] = {
            field.name: map_state(function, *(getattr(state, field.name) for state in states))
            for field in dataclasses.fields(first)
        }
        return dataclasses.replace(first, **parts)
    raise TypeError(
        f"a state is a tensor, or a tuple or dataclass of tensors, not {type(first).__name__}: "
        "keep everything else in the learner's configuration."
    )


def select_state(state: State, which: Tensor) -> State:
    """Keep some prompts of a state: indices (R,) or a mask (B,) over the batch."""
    return map_state(lambda part: part[which], state)


def put_state(state: State, which: Tensor, part: State) -> None:
    """Write `part` over the prompts `which` (R,) of a state, in place."""

    def put(whole: Tensor, new: Tensor) -> Tensor:
        whole[which] = new
        return whole

    map_state(put, state, part)


def clone_state(state: State) -> State:
    """A copy that shares no memory."""
    return map_state(torch.clone, state)
