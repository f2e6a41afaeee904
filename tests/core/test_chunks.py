"""Bounded memory: the same answers, whatever the budget."""

import contextlib
from collections.abc import Callable
from dataclasses import replace

import pytest
import torch

from innerloop.core.chunks import (
    BUDGET,
    budget,
    in_parts,
    map_prompts,
    rows_within_budget,
    slices,
)
from innerloop.core.prompt import Prompt
from tests.contract.broken import moments

Draw = Callable[..., Prompt]


@pytest.mark.parametrize("rows", [1, 2, 6, 7, 10**9])
def test_the_result_does_not_depend_on_the_rows(random_prompt: Draw, rows: int) -> None:
    prompt = random_prompt(7)
    seen: list[int] = []

    def function(part: Prompt) -> torch.Tensor:
        seen.append(part.batch)
        return moments(part)

    result = map_prompts(function, prompt, rows=rows)
    assert torch.equal(result, moments(prompt))
    assert sum(seen) == 7
    assert max(seen) == min(7, rows)


def test_parts_take_every_part_of_the_prompt(random_prompt: Draw) -> None:
    prompt = random_prompt(5, queries=2)
    prompt = replace(
        prompt,
        scored=torch.tensor([[b == p for p in range(prompt.points)] for b in range(5)]),
        truth={"w": torch.arange(5)},
    )
    assert prompt.queries is not None
    parts = list(in_parts(prompt, 2))
    assert [(which.start, which.stop) for which, _ in parts] == [(0, 2), (2, 4), (4, 5)]
    for which, part in parts:
        assert part.scored is not None
        assert part.queries is not None
        assert torch.equal(part.scored.int().argmax(dim=1), part.truth["w"])
        assert torch.equal(part.queries, prompt.queries[which])
    (whole,) = in_parts(prompt, 5)
    assert whole == (slice(0, 5), prompt)


@pytest.mark.parametrize("rows", [1, 3, 4, 12, 13])
def test_slices_make_up_the_range(rows: int) -> None:
    parts = [range(12)[which] for which in slices(12, rows)]
    assert [place for part in parts for place in part] == list(range(12))
    assert max(map(len, parts)) == min(rows, 12)
    assert list(slices(0, rows)) == []


@pytest.mark.parametrize(
    ("size", "rows"),
    [(0, 1000), (1, 1000), (3, 333), (1000, 1), (1001, 1), (10**12, 1)],
)
def test_rows_within_the_budget(size: int, rows: int) -> None:
    with budget(1000):
        assert rows_within_budget(size) == rows
        assert rows_within_budget(size, at_most=10**6) == rows
        assert rows_within_budget(size, at_most=2 * max(1, size)) == min(rows, 2)


def test_a_budget_ends_with_its_block() -> None:
    with budget(7):
        with contextlib.suppress(ZeroDivisionError), budget(3):
            assert rows_within_budget(1) == 3
            _ = 1 / 0
        assert rows_within_budget(1) == 7
    assert rows_within_budget(1) == BUDGET
