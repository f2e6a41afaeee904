"""Nearest neighbours against scikit-learn, the public code, and cases known by hand."""

from collections.abc import Callable
from typing import Literal

import numpy as np
import pytest
import torch
from pydantic import ValidationError
from sklearn.neighbors import KNeighborsRegressor

import innerloop as il
from innerloop.core.chunks import budget
from innerloop.core.errors import NotSupportedError
from innerloop.core.tolerances import PUBLIC_CODE, REFERENCE
from innerloop.learners.neighbors import NearestNeighbors

RandomPrompt = Callable[..., il.Prompt]

Weights = Literal["uniform", "distance"]
WEIGHTS: tuple[Weights, ...] = ("uniform", "distance")


def by_scikit_learn(prompt: il.Prompt, k: int, weights: Weights) -> torch.Tensor:
    """One prefix at a time: (B, n, q, k)."""
    asked = prompt.asked.numpy()  # (B, n, q, d)
    answers = np.zeros((*asked.shape[:3], prompt.outputs))
    for b in range(prompt.batch):
        for i in range(1, prompt.points):
            model = KNeighborsRegressor(min(k, i), weights=weights, algorithm="brute")
            model.fit(prompt.xs[b, :i].numpy(), prompt.ys[b, :i].numpy())
            answers[b, i] = model.predict(asked[b, i])
    return torch.from_numpy(answers)


@pytest.mark.parametrize("weights", WEIGHTS)
@pytest.mark.parametrize("seed", [0, 1, 2])
def test_equals_scikit_learn(weights: Weights, seed: int) -> None:
    generator = torch.Generator().manual_seed(seed)
    xs = torch.randn(4, 41, 20, generator=generator, dtype=torch.float64)
    ys = torch.randn(4, 41, 2, generator=generator, dtype=torch.float64)
    prompt = il.Prompt(xs=xs, ys=ys)
    expected = by_scikit_learn(prompt, 3, weights)[:, :, 0]  # (B, n, k)
    answer = il.predict(NearestNeighbors(3, weights), prompt)
    torch.testing.assert_close(answer, expected, rtol=REFERENCE, atol=REFERENCE)


@pytest.mark.parametrize("weights", WEIGHTS)
@pytest.mark.parametrize("k", [1, 3, 100])
def test_equals_scikit_learn_with_repeated_inputs_and_questions_among_them(
    weights: Weights, k: int, generator: torch.Generator
) -> None:
    # Whole numbers: scikit-learn's distances are exact as well, and many are equal, many zero.
    xs = torch.randint(-2, 3, (5, 24, 3), generator=generator).double()
    queries = torch.randint(-2, 3, (5, 24, 4, 3), generator=generator).double()
    ys = torch.randn(5, 24, 1, generator=generator, dtype=torch.float64)
    prompt = il.Prompt(xs=xs, ys=ys, queries=queries)
    answer = il.predict(NearestNeighbors(k, weights), prompt)  # (B, n, q, 1)
    expected = by_scikit_learn(prompt, k, weights)

    # Which of two equally far examples is the k-th nearest is scikit-learn's to choose: leave out.
    squares = (queries[:, :, :, None] - xs[:, None, None]).square().sum(-1)  # (B, n, q, n)
    unseen = torch.arange(24) >= torch.arange(24)[:, None]  # (n, n)
    ordered = squares.masked_fill(unseen[:, None], torch.inf).sort(dim=-1).values
    beyond = torch.cat([ordered, torch.full_like(ordered[..., :1], torch.inf)], dim=-1)
    last = beyond[..., min(k, 24) - 1]  # (B, n, q)
    clear = (last == torch.inf) | (last < beyond[..., min(k, 24)])
    assert clear.sum() > 100
    assert (clear & (ordered[..., 0] == 0)).sum() > 20
    torch.testing.assert_close(answer[clear], expected[clear], rtol=REFERENCE, atol=REFERENCE)


@pytest.mark.parametrize("weights", WEIGHTS)
def test_equals_the_public_code(weights: Weights, reference: dict[str, np.ndarray]) -> None:
    prompt = il.Prompt.from_arrays(reference["xs"], reference["ys"])
    answer = il.predict(NearestNeighbors(3, weights), prompt)[..., 0]
    expected = torch.from_numpy(reference[f"nn3_{weights}"]).double()
    torch.testing.assert_close(answer, expected, rtol=PUBLIC_CODE, atol=PUBLIC_CODE)


def test_no_example_answers_zero_and_few_examples_all_count(random_prompt: RandomPrompt) -> None:
    prompt = random_prompt(3, 5, 2)
    answer = il.predict(NearestNeighbors(3), prompt)
    assert torch.equal(answer[:, 0], torch.zeros(3, 1, dtype=torch.float64))
    for i in (1, 2, 3):
        torch.testing.assert_close(answer[:, i], prompt.ys[:, :i].mean(dim=1))


def test_the_earlier_of_equally_far_examples_is_nearer() -> None:
    xs = torch.tensor([[[1.0], [-1.0], [1.0], [3.0], [0.0]]], dtype=torch.float64)
    ys = torch.tensor([[[1.0], [10.0], [100.0], [1000.0], [0.0]]], dtype=torch.float64)
    prompt = il.Prompt(xs=xs, ys=ys)
    for k, expected in ((1, 1.0), (2, 5.5), (3, 37.0), (4, 277.75)):
        assert float(il.predict(NearestNeighbors(k), prompt)[0, -1, 0]) == expected


def test_equal_points_have_distance_zero_far_from_the_origin(generator: torch.Generator) -> None:
    # The expanded square |x|^2 - 2 x.z + |z|^2 loses all digits here.
    xs = 1e9 + torch.randn(2, 9, 20, generator=generator, dtype=torch.float64)
    ys = torch.randn(2, 9, 1, generator=generator, dtype=torch.float64)
    prompt = il.Prompt(xs=xs, ys=ys, queries=xs[:, :1, None].expand(-1, 9, -1, -1))
    answer = il.predict(NearestNeighbors(3, "distance"), prompt)  # (2, 9, 1, 1)
    assert torch.equal(answer[:, 1:, 0], ys[:, :1].expand(-1, 8, -1))


def test_tiny_distances_do_not_overflow() -> None:
    xs = torch.tensor([[[1e-160], [3e-160], [0.0]]], dtype=torch.float64)
    ys = torch.tensor([[[1.0], [5.0], [0.0]]], dtype=torch.float64)
    answer = il.predict(NearestNeighbors(2, "distance"), il.Prompt(xs=xs, ys=ys))
    # Squares of such numbers have few digits left: 1e-320 is a multiple of 5e-324.
    assert float(answer[0, 2, 0]) == pytest.approx((1 + 5 / 3) / (1 + 1 / 3), rel=1e-3)


@pytest.mark.parametrize("prefixes", [0, 5, 3 * 19])
@pytest.mark.parametrize("weights", WEIGHTS)
def test_the_size_of_the_chunks_does_not_matter(
    weights: Weights, prefixes: int, random_prompt: RandomPrompt
) -> None:
    """With memory for the distances of so many prefixes at a time: one at a time, a few, three
    prompts."""
    prompt = random_prompt(7, 19, 3, 2, queries=3)
    learner = NearestNeighbors(3, weights)
    answer = il.predict(learner, prompt)
    with budget(prefixes * 8 * 3 * 19):
        assert torch.equal(il.predict(learner, prompt), answer)


def test_settings() -> None:
    assert NearestNeighbors() == NearestNeighbors(k=3, weights="uniform")
    assert NearestNeighbors().name == "NearestNeighbors"
    assert NearestNeighbors(5, weights="distance").name == "NearestNeighbors(k=5, weights=distance)"
    for settings in ({"k": 0}, {"weights": "cosine"}, {"neighbours": 3}):
        with pytest.raises(ValidationError):
            NearestNeighbors(**settings)  # type: ignore[arg-type]


def test_has_no_linear_weights(random_prompt: RandomPrompt) -> None:
    with pytest.raises(NotSupportedError, match="not a linear learner"):
        NearestNeighbors(weights="distance").weights(random_prompt())
