"""Drawing prompts: random trees, all prompts at once against one prompt at a time."""

import torch
from torch import Tensor

from benchmarks.timing import Row, compare
from innerloop.tasks.tree import DecisionTree

BATCH, POINTS, DIMS, DEPTH = 1280, 41, 20, 4


def run() -> list[Row]:
    """Time both, after a check that they draw the very same prompts."""
    task = DecisionTree(dims=DIMS, depth=DEPTH)

    def ours() -> Tensor:
        return task.sample(BATCH, POINTS, generator=torch.Generator().manual_seed(0)).ys

    assert torch.equal(ours()[..., 0], _prompt_by_prompt())
    name = f"draw trees, {BATCH} prompts, d {DIMS}, {POINTS} points, one prompt at a time"
    return [compare(name, ours, _prompt_by_prompt, target=15, repeats=9)]


def _prompt_by_prompt() -> Tensor:
    """The same trees, with the points of one prompt walked down together: (B, n)."""
    generator = torch.Generator().manual_seed(0)
    xs = torch.randn(BATCH, POINTS, DIMS, generator=generator)  # (B, n, d)
    coordinates = torch.randint(DIMS, (BATCH, 2**DEPTH - 1), generator=generator)
    leaves = torch.randn(BATCH, 2**DEPTH, generator=generator)
    ys = torch.empty(BATCH, POINTS)  # (B, n)
    points = torch.arange(POINTS)  # (n,)
    for b in range(BATCH):
        node = torch.zeros(POINTS, dtype=torch.long)  # (n,)
        for _ in range(DEPTH):
            asked = coordinates[b, node]  # (n,)
            node = 2 * node + 1 + (xs[b, points, asked] > 0)  # (n,)
        ys[b] = leaves[b, node - (2**DEPTH - 1)]
    return ys
