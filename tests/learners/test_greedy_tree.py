"""The greedy tree against a plain recursion, scikit-learn, the public code, and known cases."""

from collections.abc import Callable
from itertools import pairwise

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from pydantic import ValidationError
from sklearn.tree import DecisionTreeRegressor

import innerloop as il
from innerloop.core.chunks import budget
from innerloop.core.tolerances import PUBLIC_CODE, REFERENCE
from innerloop.learners.tree import GreedyTree

RandomPrompt = Callable[..., il.Prompt]

Reals = NDArray[np.float64]


def by_recursion(
    inputs: Reals, outputs: Reals, question: Reals, depth: int | None
) -> tuple[Reals, bool]:
    """The answer (k,), and whether every split on the way to it was the only best one."""
    unique = True
    while (depth is None or depth > 0) and len(outputs) and (outputs != outputs[0]).any():
        splits = [
            (_error(outputs[inputs[:, f] <= low]) + _error(outputs[inputs[:, f] > low]), f, low, up)
            for f in range(inputs.shape[1])
            for low, up in pairwise(np.unique(inputs[:, f]))
        ]
        if not splits:
            break
        # Errors are sums of a few numbers: rounding stays far below, chance far above this.
        slack = 1e-9 * np.square(outputs - outputs.mean(axis=0)).max()
        best = [split for split in splits if split[0] <= min(splits)[0] + slack]
        unique &= len(best) == 1
        _, feature, low, up = best[0]
        side = (inputs[:, feature] <= low) == (question[feature] <= (low + up) / 2)
        inputs, outputs = inputs[side], outputs[side]
        depth = None if depth is None else depth - 1
    return (outputs.mean(axis=0) if len(outputs) else np.zeros(outputs.shape[1])), unique


def _error(outputs: Reals) -> float:
    return float(np.square(outputs - outputs.mean(axis=0)).sum())


def all_by_recursion(prompt: il.Prompt, depth: int | None) -> tuple[torch.Tensor, torch.Tensor]:
    """Answers (B, n, q, k), and where they are unique (B, n, q)."""
    xs, ys, asked = prompt.xs.numpy(), prompt.ys.numpy(), prompt.asked.numpy()
    answers = np.zeros((*asked.shape[:3], prompt.outputs))
    unique = np.zeros(asked.shape[:3], dtype=bool)
    for b, i, j in np.ndindex(asked.shape[:3]):
        answers[b, i, j], unique[b, i, j] = by_recursion(
            xs[b, :i], ys[b, :i], asked[b, i, j], depth
        )
    return torch.from_numpy(answers), torch.from_numpy(unique)


def by_scikit_learn(prompt: il.Prompt, depth: int | None) -> torch.Tensor:
    """One prefix at a time: (B, n, q, k)."""
    asked = prompt.asked.numpy()  # (B, n, q, d)
    answers = np.zeros((*asked.shape[:3], prompt.outputs))
    for b in range(prompt.batch):
        for i in range(1, prompt.points):
            model = DecisionTreeRegressor(max_depth=depth, random_state=0)
            model.fit(prompt.xs[b, :i].numpy(), prompt.ys[b, :i].numpy())
            answers[b, i] = model.predict(asked[b, i]).reshape(asked.shape[2], -1)
    return torch.from_numpy(answers)


@pytest.mark.parametrize("depth", [1, 3, None])
@pytest.mark.parametrize("kind", ["real", "repeated", "few outputs"])
def test_equals_a_plain_recursion(
    depth: int | None, kind: str, random_prompt: RandomPrompt
) -> None:
    prompt = random_prompt(3, 13, 3, 2, queries=2)
    xs, ys, queries = prompt.xs, prompt.ys, prompt.asked
    if kind != "real":
        xs, queries = xs.round(), queries.round()  # many equal values, many equal points
    if kind == "few outputs":
        ys = ys.sign()  # many pure nodes, many equally good splits
    prompt = il.Prompt(xs=xs, ys=ys, queries=queries)
    expected, _ = all_by_recursion(prompt, depth)
    answer = il.predict(GreedyTree(depth), prompt)
    torch.testing.assert_close(answer, expected, rtol=REFERENCE, atol=REFERENCE)


def normal_prompt(seed: int, batch: int, points: int = 41, dims: int = 20) -> il.Prompt:
    """Normal inputs and outputs, with values that float32 tells apart, as scikit-learn must."""
    generator = torch.Generator().manual_seed(seed)
    xs, ys = (torch.randn(batch, points, size, generator=generator).double() for size in (dims, 1))
    return il.Prompt(xs=xs, ys=ys)


@pytest.mark.parametrize("depth", [4, None])
@pytest.mark.parametrize("seed", [0, 1, 2])
def test_training_error_equals_scikit_learns(depth: int | None, seed: int) -> None:
    # With real outputs only splits that divide the examples alike are equally good, almost surely:
    # whichever is taken, the examples in each leaf are the same. Float32 is what scikit-learn sees.
    prompt = normal_prompt(seed, 2)
    asked = prompt.ask(prompt.xs[:, None].expand(-1, 41, -1, -1))  # every point at every prefix
    answer, expected = il.predict(GreedyTree(depth), asked), by_scikit_learn(asked, depth)
    seen = torch.arange(41) < torch.arange(41)[:, None]  # (n, q)
    difference = (answer - expected)[:, seen]  # (B, .., 1)
    assert float(difference.abs().max()) < REFERENCE
    residual = (answer - prompt.ys[:, None])[:, seen]
    assert (float(residual.abs().max()) < REFERENCE) == (depth is None)


@pytest.mark.parametrize("depth", [2, 4, None])
def test_equals_scikit_learn_with_one_feature(
    depth: int | None, random_prompt: RandomPrompt
) -> None:
    # With one feature no two splits divide the examples alike: the tree is unique, almost surely.
    prompt = random_prompt(4, 30, 1, 2, queries=3, dtype=torch.float32).to(dtype=torch.float64)
    answer, expected = il.predict(GreedyTree(depth), prompt), by_scikit_learn(prompt, depth)
    torch.testing.assert_close(answer, expected, rtol=REFERENCE, atol=REFERENCE)


@pytest.mark.parametrize(
    ("seed", "batch", "points", "dims"),
    [(0, 3, 26, 5), (0, 1, 41, 20), (1, 1, 41, 20), (2, 1, 41, 20)],
)
def test_equals_scikit_learn_where_every_split_is_unique(
    seed: int, batch: int, points: int, dims: int
) -> None:
    prompt = normal_prompt(seed, batch, points, dims)
    answer = il.predict(GreedyTree(2), prompt)[:, :, None]  # (B, n, 1, 1)
    expected = by_scikit_learn(prompt, 2)
    _, unique = all_by_recursion(prompt, 2)
    assert unique.sum() > 10
    torch.testing.assert_close(answer[unique], expected[unique], rtol=REFERENCE, atol=REFERENCE)


@pytest.mark.parametrize("seed", [0, 1, 2])
def test_training_error_on_signs_equals_scikit_learns(seed: int) -> None:
    # One level: whichever of the best splits is taken, what it leaves is the same.
    prompt = normal_prompt(seed, 2)
    asked = prompt.ask(prompt.xs[:, None].expand(-1, 41, -1, -1))  # every point at every prefix
    signs = il.Prompt(xs=asked.xs.sign(), ys=asked.ys, queries=asked.asked.sign())
    seen = torch.arange(41) < torch.arange(41)[:, None]  # (n, q)
    left = [
        ((answer - prompt.ys[:, None]).square()[..., 0] * seen).sum(dim=2)  # (B, n)
        for answer in (il.predict(GreedyTree(1, signs=True), asked), by_scikit_learn(signs, 1))
    ]
    torch.testing.assert_close(left[0], left[1], rtol=REFERENCE, atol=REFERENCE)


def test_equals_the_public_code_where_every_split_is_unique(
    reference: dict[str, np.ndarray],
) -> None:
    prompt = il.Prompt.from_arrays(reference["xs"], reference["ys"])
    answer = il.predict(GreedyTree(4), prompt)[..., 0]  # (B, n)
    _, unique = all_by_recursion(prompt, 4)
    expected = torch.from_numpy(reference["tree_depth4"]).double()
    which = unique[..., 0]  # (B, n)
    assert which[:, 2:].any()
    torch.testing.assert_close(answer[which], expected[which], rtol=PUBLIC_CODE, atol=PUBLIC_CODE)
    # Elsewhere scikit-learn drew a split: some example's output, or a mean of them, all the same.
    assert expected.abs().max() <= prompt.ys.abs().max()


def test_a_split_without_gain_leads_to_one_with() -> None:
    corners = torch.tensor([[0.0, 0.0], [0.0, 1.0], [1.0, 0.0], [1.0, 1.0], [0.2, 0.9]])
    exclusive_or = torch.tensor([[0.0], [1.0], [1.0], [0.0], [0.0]])
    prompt = il.Prompt(xs=corners[None].double(), ys=exclusive_or[None].double())
    assert float(il.predict(GreedyTree(1), prompt)[0, -1, 0]) == 0.5
    assert float(il.predict(GreedyTree(2), prompt)[0, -1, 0]) == 1.0


def test_ties_go_to_the_lowest_feature_and_threshold() -> None:
    # Both features divide the two examples; the question lies on different sides in each.
    xs = torch.tensor([[[0.0, 0.0], [1.0, 1.0], [0.9, 0.1]]], dtype=torch.float64)
    ys = torch.tensor([[[3.0], [7.0], [0.0]]], dtype=torch.float64)
    assert float(il.predict(GreedyTree(1), il.Prompt(xs=xs, ys=ys))[0, -1, 0]) == 7.0
    # Outputs 0 1 0: splitting off the first or the last leaves the same error.
    xs = torch.tensor([[[1.0], [2.0], [3.0], [2.6]]], dtype=torch.float64)
    ys = torch.tensor([[[0.0], [1.0], [0.0], [0.0]]], dtype=torch.float64)
    assert float(il.predict(GreedyTree(1), il.Prompt(xs=xs, ys=ys))[0, -1, 0]) == 0.5


def test_neighbouring_floating_point_numbers_are_told_apart() -> None:
    low = torch.tensor(1.0, dtype=torch.float64)
    up = torch.nextafter(low, low + 1)
    xs = torch.stack([low, up, low, up]).reshape(1, 4, 1)
    ys = torch.tensor([[[3.0], [7.0], [3.0], [0.0]]], dtype=torch.float64)
    answer = il.predict(GreedyTree(1), il.Prompt(xs=xs, ys=ys))[0, :, 0]
    assert answer.tolist() == [0.0, 3.0, 3.0, 7.0]


def test_scales_and_offsets_do_not_matter(random_prompt: RandomPrompt) -> None:
    prompt = random_prompt(6, 30, 4)
    scale = torch.tensor([1.0, 1e150, 1e-150, 1.0, 1e8, 1.0], dtype=torch.float64)[:, None, None]
    answer = il.predict(GreedyTree(3), prompt)
    scaled = il.predict(GreedyTree(3), il.Prompt(xs=prompt.xs, ys=scale * prompt.ys)) / scale
    torch.testing.assert_close(scaled, answer, rtol=REFERENCE, atol=REFERENCE)
    offset = il.predict(GreedyTree(3), il.Prompt(xs=prompt.xs, ys=1e6 + prompt.ys))[:, 1:] - 1e6
    # Outputs near 1e6 are rounded to 1e-10.
    torch.testing.assert_close(offset, answer[:, 1:], rtol=1e-8, atol=1e-8)


def test_signs_are_all_that_the_tree_sees(random_prompt: RandomPrompt) -> None:
    prompt = random_prompt(4, 20, 3, queries=5)
    by_hand = il.Prompt(xs=prompt.xs.sign(), ys=prompt.ys, queries=prompt.asked.sign())
    answer = il.predict(GreedyTree(signs=True), prompt)
    assert torch.equal(answer, il.predict(GreedyTree(), by_hand))
    assert not torch.allclose(answer, il.predict(GreedyTree(), prompt))


def test_the_size_of_the_chunks_does_not_matter(random_prompt: RandomPrompt) -> None:
    prompt = random_prompt(9, 17, 3, 2, queries=2)
    answer = il.predict(GreedyTree(), prompt)
    with budget(1):
        again = il.predict(GreedyTree(), prompt)
    torch.testing.assert_close(again, answer, rtol=1e-12, atol=1e-12)


def test_settings(random_prompt: RandomPrompt) -> None:
    assert GreedyTree() == GreedyTree(depth=4, signs=False)
    assert GreedyTree("3").depth == 3  # type: ignore[arg-type]
    with pytest.raises(ValidationError):
        GreedyTree(0)
    assert torch.equal(
        il.predict(GreedyTree(), random_prompt(2, 1)), torch.zeros(2, 1, 1, dtype=torch.float64)
    )
