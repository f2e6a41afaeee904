"""Bounded memory: the same answers, whatever the budget."""

from collections.abc import Callable
from dataclasses import replace

import pytest
import torch

from innerloop.core import chunks
from innerloop.core.prompt import Prompt
from tests.contract.broken import moments

Draw = Callable[..., Prompt]


@pytest.mark.parametrize("budget", [1, 100, 250, 699, 700, 10**9])
def test_the_result_does_not_depend_on_the_budget(
    random_prompt: Draw, monkeypatch: pytest.MonkeyPatch, budget: int
) -> None:
    prompt = random_prompt(7)
    seen: list[int] = []

    def function(part: Prompt) -> torch.Tensor:
        seen.append(part.batch)
        return moments(part)

    monkeypatch.setattr(chunks, "BUDGET", budget)
    result = chunks.map_prompts(function, prompt, bytes_per_prompt=100)
    assert torch.equal(result, moments(prompt))
    assert sum(seen) == 7
    assert max(seen) == min(7, max(1, budget // 100))


def test_slices_take_every_part_of_the_prompt(
    random_prompt: Draw, monkeypatch: pytest.MonkeyPatch
) -> None:
    prompt = random_prompt(5, queries=2)
    prompt = replace(
        prompt,
        scored=torch.tensor([[b == p for p in range(prompt.points)] for b in range(5)]),
        truth={"w": torch.arange(5)},
    )
    monkeypatch.setattr(chunks, "BUDGET", 2)

    def place(part: Prompt) -> torch.Tensor:
        assert part.scored is not None
        assert part.queries is not None
        assert torch.equal(part.scored.int().argmax(dim=1), part.truth["w"])
        return part.queries[:, 0, 0, 0]

    assert prompt.queries is not None
    result = chunks.map_prompts(place, prompt, bytes_per_prompt=1)
    assert torch.equal(result, prompt.queries[:, 0, 0, 0])


@pytest.mark.parametrize(
    ("size", "rows"),
    [(0, 1000), (1, 1000), (3, 333), (1000, 1), (1001, 1), (10**12, 1)],
)
def test_rows_within_the_budget(monkeypatch: pytest.MonkeyPatch, size: int, rows: int) -> None:
    monkeypatch.setattr(chunks, "BUDGET", 1000)
    assert chunks.rows_within_budget(size) == rows
