import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

import innerloop as il
from innerloop.core.chunks import budget
from innerloop.core.prompt import Prompt
from innerloop.core.tolerances import REFERENCE
from innerloop.learners import nested
from innerloop.learners.ols import OLS
from tests.learners.references import distance, least_squares, linear_prompt, normal

EPSILON = float(np.finfo(float).eps)


def with_condition(seed: int, batch: int, points: int, dims: int, condition: float) -> torch.Tensor:
    """Inputs (B, n, d) whose first d have exactly this condition number."""
    xs = normal(seed, batch, points, dims)
    u, _, vt = torch.linalg.svd(xs[:, :dims])  # (B, d, d), .., (B, d, d)
    s = torch.ones(dims, dtype=torch.float64)  # (d,)
    s[-1] = 1 / condition
    xs[:, :dims] = dims**0.5 * (u * s) @ vt
    return xs


@pytest.mark.parametrize("noise", [0.0, 0.5])
@pytest.mark.parametrize("seed", [0, 1, 2])
def test_equals_numpy_at_every_prefix(seed: int, noise: float) -> None:
    prompt = linear_prompt(seed, normal(seed, 6, 41, 20), noise=noise)
    assert distance(OLS().weights(prompt), least_squares(prompt)) < REFERENCE


@pytest.mark.parametrize(
    ("points", "dims", "outputs"),
    [(1, 3, 1), (2, 3, 2), (2, 1, 1), (30, 1, 2), (4, 9, 2), (10, 9, 1), (9, 9, 1), (12, 5, 3),
     (150, 4, 2), (90, 40, 1)],
)  # fmt: skip
def test_equals_numpy_at_all_shapes(points: int, dims: int, outputs: int) -> None:
    prompt = linear_prompt(3, normal(3, 3, points, dims), outputs)
    assert distance(OLS().weights(prompt), least_squares(prompt)) < REFERENCE


def test_interpolation_peak_of_many_prompts() -> None:
    # Of 2000 prompts the worst has a condition number of about 1e5 at prefix d.
    prompt = linear_prompt(4, normal(4, 2000, 24, 20))
    weights = OLS().weights(prompt)  # (B, n, d, 1)
    for i in (19, 20, 21, 23):
        expected = np.linalg.pinv(prompt.xs[:, :i].numpy()) @ prompt.ys[:, :i].numpy()
        assert distance(weights[:, None, i], expected[:, None]) < REFERENCE
    assert np.linalg.cond(prompt.xs[:, :20].numpy()).max() > 1e4


@pytest.mark.parametrize(
    "scales",
    [
        torch.tensor([10.0] * 10 + [1.0] * 10),  # covariance with condition number 100
        1 / torch.arange(1, 21),
        torch.full((20,), 1e-3),
        torch.full((20,), 1e3),
    ],
    ids=["ill-conditioned", "skewed", "small", "large"],
)
def test_scaled_inputs(scales: torch.Tensor) -> None:
    basis = torch.linalg.qr(normal(5, 20, 20)).Q  # (d, d)
    prompt = linear_prompt(5, normal(5, 6, 41, 20) * scales.double() @ basis)
    assert distance(OLS().weights(prompt), least_squares(prompt)) < REFERENCE


@pytest.mark.parametrize("condition", [1e1, 1e3, 3e4, 1e5, 1e6, 1e7, 1e9, 1e12])
@pytest.mark.parametrize("noise", [0.0, 1.0])
def test_near_rank_deficiency(condition: float, noise: float) -> None:
    xs = with_condition(6, 4, 24, 8, condition)
    prompt = linear_prompt(6, xs, noise=noise)
    # The data determine the weights up to rounding times the condition number, not better.
    tolerance = max(REFERENCE, 100 * EPSILON * condition)
    assert distance(OLS().weights(prompt), least_squares(prompt)) < tolerance


def degenerate(name: str) -> torch.Tensor:
    """Inputs (4, 14, 5) of deficient rank."""
    plain = normal(7, 4, 14, 5)
    inputs = {
        "collinear": plain[:, :1] * normal(8, 4, 14, 1),
        "constant": torch.ones_like(plain),
        "zero": torch.zeros_like(plain),
        "one zero": torch.cat([torch.zeros_like(plain[:, :1]), plain[:, 1:]], dim=1),
        "repeated": plain[:, torch.arange(14) // 2],
        "the same column twice": torch.cat([plain[..., :4], plain[..., 3:4]], dim=2),
        "a subspace": plain[..., :2] @ normal(8, 4, 2, 5),
        "a subspace at first": torch.cat(
            [plain[:, :7, :2] @ normal(8, 4, 2, 5), plain[:, 7:]], dim=1
        ),
        "a small input": torch.cat([1e-5 * plain[:, :1], plain[:, 1:]], dim=1),
        "a huge input": torch.cat([plain[:, :9], 1e9 * plain[:, 9:10], plain[:, 10:]], dim=1),
    }
    return inputs[name]


@pytest.mark.parametrize(
    "name",
    ["collinear", "constant", "zero", "one zero", "repeated", "the same column twice",
     "a subspace", "a subspace at first", "a small input", "a huge input"],
)  # fmt: skip
def test_degenerate_inputs(name: str) -> None:
    prompt = linear_prompt(9, degenerate(name), outputs=2, noise=0.1)
    size = float(prompt.ys.abs().max())
    prompt = Prompt(xs=prompt.xs, ys=prompt.ys / max(1, size))
    assert distance(OLS().weights(prompt), least_squares(prompt)) < REFERENCE


def test_subspace_of_many_prompts_equals_the_singular_values() -> None:
    # Two ways inside: coordinates of the subspace, or one prefix at a time.
    xs = normal(10, 40, 30, 6) @ normal(11, 40, 6, 12)  # (B, n, d)
    prompt = linear_prompt(10, xs)
    expected = nested.singular_weights(prompt.xs, prompt.ys, 0, 0)
    assert distance(OLS().weights(prompt), expected.numpy()) < REFERENCE


def test_rank_is_decided_as_numpy_does() -> None:
    for small, kept in ((1e-13, True), (1e-17, False)):
        xs = torch.diag(torch.tensor([1.0, 1.0, small], dtype=torch.float64))[None]  # (1, 3, 3)
        xs = torch.cat([xs, xs[:, :1]], dim=1)  # (1, 4, 3)
        prompt = Prompt(xs=xs, ys=xs.sum(dim=2, keepdim=True))
        weights = OLS().weights(prompt)[0, 3, :, 0]  # (d,)
        assert torch.allclose(weights, torch.tensor([1.0, 1.0, float(kept)], dtype=torch.float64))


def test_rounding_of_float32_inputs_is_no_direction() -> None:
    basis = torch.linalg.qr(normal(12, 8, 16, 8)).Q.mT  # (B, 8, d)
    xs = normal(12, 8, 40, 8) @ basis  # (B, n, d): half of the dimensions
    prompt = linear_prompt(12, xs.float().double()).to(dtype=torch.float32)
    weights = OLS().weights(prompt)  # (B, n, d, 1)
    outside = weights - basis.mT[:, None] @ (basis[:, None] @ weights)  # (B, n, d, 1)
    # Inputs are in the subspace to 6e-8; their own condition number, at prefix 8, multiplies it.
    assert float(outside.abs().max()) < 1e-3
    exact = OLS().weights(prompt.to(dtype=torch.float64))
    assert float(exact.abs().max()) > 1e3  # Taken literally, the inputs are of full rank.


def test_later_examples_change_nothing_whatever_way_they_force() -> None:
    prompt = linear_prompt(13, normal(13, 5, 30, 12))
    weights = OLS().weights(prompt)
    for name in ("repeats", "zeros", "huge", "nearly collinear"):
        xs = prompt.xs.clone()
        xs[:, 8:] = {
            "repeats": xs[:, 3:4].expand_as(xs[:, 8:]),
            "zeros": torch.zeros_like(xs[:, 8:]),
            "huge": 1e12 * xs[:, 8:],
            "nearly collinear": xs[:, 3:4] + 1e-6 * xs[:, 8:],
        }[name]
        changed = OLS().weights(Prompt(xs=xs, ys=prompt.ys))[:, :9]
        assert distance(changed, weights[:, :9].numpy()) < REFERENCE, name


@given(
    seed=st.integers(0, 2**20),
    points=st.integers(1, 30),
    dims=st.integers(1, 12),
    rank=st.integers(1, 12),
    outputs=st.integers(1, 3),
)
def test_weights_are_optimal_and_smallest(
    seed: int, points: int, dims: int, rank: int, outputs: int
) -> None:
    rank = min(rank, dims)
    xs = normal(seed, 2, points, rank) @ normal(seed + 1, 2, rank, dims)  # (B, n, d)
    prompt = Prompt(xs=xs, ys=normal(seed + 2, 2, points, outputs))
    weights = OLS().weights(prompt)  # (B, n, d, k)
    for i in range(points):
        x, y, w = xs[:, :i], prompt.ys[:, :i], weights[:, i]
        inverse = torch.linalg.pinv(x, rtol=1e-12)  # (B, d, i)
        size = 1 + w.norm(dim=(1, 2)) * (1 + torch.linalg.matrix_norm(inverse, 2))  # (B,)
        gradient = x.mT @ (y - x @ w)  # (B, d, k)
        scale = (1 + torch.linalg.matrix_norm(x, 2)) ** 2 if i else torch.ones(2)
        outside = w - inverse @ (x @ w)  # (B, d, k)
        assert float((gradient.norm(dim=(1, 2)) / (scale * size)).max()) < REFERENCE
        assert float((outside.norm(dim=(1, 2)) / size).max()) < REFERENCE


def test_chunks_change_nothing() -> None:
    xs = torch.cat([normal(14, 9, 20, 6), torch.ones(4, 20, 6, dtype=torch.float64)])
    prompt = linear_prompt(14, xs)
    whole = OLS().weights(prompt)
    with budget(1):
        assert distance(OLS().weights(prompt), whole.numpy()) < REFERENCE


def test_public_code(reference: dict[str, np.ndarray]) -> None:
    prompt = Prompt.from_arrays(reference["xs"], reference["ys"])
    answer = il.predict(OLS(), prompt)[..., 0].numpy()
    # That code computes least squares in float64.
    np.testing.assert_allclose(answer, reference["ols"], rtol=0, atol=REFERENCE)
