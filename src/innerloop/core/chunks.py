"""Bounded memory: work on a few prompts at a time, wherever the temporaries are large."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar

import torch
from torch import Tensor

from innerloop.core.prompt import Prompt

BUDGET = 2**28
"""Bytes of temporaries that a learner may hold at once (256 MB), where `budget` sets no other."""

_given: ContextVar[int | None] = ContextVar("budget", default=None)


@contextmanager
def budget(size: int) -> Iterator[None]:
    """Give everything inside the `with` so many bytes of temporaries, in the place of BUDGET."""
    token = _given.set(size)
    try:
        yield
    finally:
        _given.reset(token)


def rows_within_budget(bytes_per_row: int, *, at_most: int | None = None) -> int:
    """How many rows fit the budget, at least one.

    `at_most` is a number of bytes below the budget, for what is faster while it stays in the cache.
    """
    given = _given.get()
    size = BUDGET if given is None else given
    size = size if at_most is None else min(size, at_most)
    return max(1, size // max(1, bytes_per_row))


def slices(total: int, rows: int) -> Iterator[slice]:
    """Yield slices of at most `rows` that make up range(total), in order."""
    return (slice(start, min(start + rows, total)) for start in range(0, total, rows))


def in_parts(prompt: Prompt, rows: int) -> Iterator[tuple[slice, Prompt]]:
    """Yield parts of at most `rows` prompts, in order, each behind its slice of the batch."""
    if rows >= prompt.batch:
        return iter([(slice(0, prompt.batch), prompt)])
    return ((which, prompt.select(which)) for which in slices(prompt.batch, rows))


def map_prompts(function: Callable[[Prompt], Tensor], prompt: Prompt, *, rows: int) -> Tensor:
    """Apply a batch-first function of prompts to at most `rows` prompts at a time."""
    if rows >= prompt.batch:
        return function(prompt)
    return torch.cat([function(part) for _, part in in_parts(prompt, rows)])
