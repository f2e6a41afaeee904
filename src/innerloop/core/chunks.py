"""Bounded memory: work on a few prompts at a time, wherever the temporaries are large."""

from collections.abc import Callable

import torch
from torch import Tensor

from innerloop.core.prompt import Prompt

BUDGET = 2**28
"""Bytes of temporaries that a learner may hold at once (256 MB)."""


def map_prompts(
    function: Callable[[Prompt], Tensor], prompt: Prompt, *, bytes_per_prompt: int
) -> Tensor:
    """Apply a batch-first function of prompts to slices whose temporaries fit the budget."""
    rows = rows_within_budget(bytes_per_prompt)
    if rows >= prompt.batch:
        return function(prompt)
    parts = [
        function(prompt.select(slice(start, start + rows)))
        for start in range(0, prompt.batch, rows)
    ]
    return torch.cat(parts)


def rows_within_budget(bytes_per_row: int) -> int:
    """How many rows fit the budget; at least one."""
    return max(1, BUDGET // max(1, bytes_per_row))
