"""Each prefix, and each query, as a prompt of its own."""

from collections.abc import Callable
from dataclasses import replace

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from innerloop.core.errors import InnerloopError
from innerloop.core.prompt import Prompt, expand_prefixes

Draw = Callable[..., Prompt]


def counted(batch: int, points: int, dims: int, queries: int) -> Prompt:
    """A prompt whose numbers are all different, and none is zero."""
    sizes = [(batch, points, dims), (batch, points, 2), (batch, points, queries, dims)]
    parts, start = [], 1
    for size in sizes:
        number = int(torch.tensor(size).prod())
        parts.append(torch.arange(start, start + number, dtype=torch.float64).reshape(size))
        start += number
    return Prompt(xs=parts[0], ys=parts[1], queries=parts[2] if queries else None)


@given(
    batch=st.integers(1, 3),
    points=st.integers(1, 4),
    dims=st.integers(1, 3),
    queries=st.integers(0, 3),
    rows=st.integers(1, 12),
)
def test_every_question_comes_once_with_its_examples(
    batch: int, points: int, dims: int, queries: int, rows: int
) -> None:
    prompt = counted(batch, points, dims, queries)
    asked = prompt.asked  # (B, n, q, d)
    number = asked.shape[2]
    seen: list[tuple[int, int, int]] = []
    for i, which, part in expand_prefixes(prompt, rows=rows):
        assert part.batch == which.stop - which.start <= rows
        assert (part.points, part.queries) == (i + 1, None)
        for row, place in enumerate(range(which.start, which.stop)):
            b, j = divmod(place, number)  # the order of the (B, q) grid
            seen.append((i, b, j))
            assert torch.equal(part.xs[row, :i], prompt.xs[b, :i])
            assert torch.equal(part.xs[row, i], asked[b, i, j])
            assert torch.equal(part.ys[row, :i], prompt.ys[b, :i])
            assert not part.ys[row, i].any()
    grid = [(i, b, j) for i in range(points) for b in range(batch) for j in range(number)]
    assert seen == grid


def test_chunks_are_full_but_for_the_last_of_a_point(random_prompt: Draw) -> None:
    prompt = random_prompt(5, 2, queries=3)  # 15 questions a point
    slices = [(i, which) for i, which, _ in expand_prefixes(prompt, rows=4)]
    sizes = [which.stop - which.start for i, which in slices if i == 1]
    assert sizes == [4, 4, 4, 3]


def test_one_chunk_a_point_by_default(random_prompt: Draw) -> None:
    assert len(list(expand_prefixes(random_prompt(5, 3, queries=3)))) == 3


def test_the_prompt_is_left_as_it_was(random_prompt: Draw) -> None:
    prompt = random_prompt(queries=2)
    assert prompt.queries is not None
    copies = [part.clone() for part in (prompt.xs, prompt.ys, prompt.queries)]
    for _, _, part in expand_prefixes(prompt):
        part.xs.zero_()
        part.ys.zero_()
    for part, same in zip((prompt.xs, prompt.ys, prompt.queries), copies, strict=True):
        assert torch.equal(part, same)


def test_type_and_layout_are_kept_and_the_truth_is_not(random_prompt: Draw) -> None:
    prompt = random_prompt(layout="stream", dtype=torch.float32)
    prompt = replace(prompt, truth={"w": torch.ones(3, 2)})
    for _, _, part in expand_prefixes(prompt):
        assert part.layout == "stream"
        assert part.xs.dtype == part.ys.dtype == torch.float32
        assert not part.truth


@pytest.mark.parametrize("rows", [0, -1])
def test_a_senseless_number_of_rows_is_refused(random_prompt: Draw, rows: int) -> None:
    with pytest.raises(InnerloopError, match=f"rows is {rows}, expected at least 1"):
        expand_prefixes(random_prompt(), rows=rows)
