import mpmath
import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from innerloop.core.prompt import Prompt
from innerloop.core.tolerances import REFERENCE
from innerloop.learners.ols import OLS
from innerloop.learners.ridge import Ridge
from tests.learners.references import distance, linear_prompt, normal, ridge


def fifty_digits(prompt: Prompt, penalty: float) -> np.ndarray:
    """Ridge weights (B, n, d, k) by the normal equations in arithmetic of 50 digits."""
    xs, ys = prompt.xs.numpy(), prompt.ys.numpy()
    weights = np.zeros((*xs.shape, ys.shape[2]))
    with mpmath.workdps(50):
        for b in range(len(xs)):
            for i in range(1, xs.shape[1]):
                x, y = mpmath.matrix(xs[b, :i].tolist()), mpmath.matrix(ys[b, :i].tolist())
                gram = x.T * x + mpmath.mpf(penalty) * mpmath.eye(x.cols)
                for k in range(y.cols):
                    solution = mpmath.lu_solve(gram, x.T * y.column(k))
                    weights[b, i, :, k] = [float(value) for value in solution]
    return weights


@pytest.mark.parametrize("seed", [0, 1, 2])
@pytest.mark.parametrize("penalty", [1e-4, 0.1, 10.0])
def test_equals_augmented_least_squares_at_every_prefix(seed: int, penalty: float) -> None:
    prompt = linear_prompt(seed, normal(seed, 5, 41, 20))
    assert distance(Ridge(penalty).weights(prompt), ridge(prompt, penalty)) < REFERENCE


@pytest.mark.parametrize(
    ("points", "dims", "outputs"),
    [(1, 3, 1), (2, 3, 2), (30, 1, 2), (4, 9, 2), (10, 9, 1), (12, 5, 3), (150, 4, 2), (90, 40, 1)],
)
@pytest.mark.parametrize("penalty", [1e-7, 0.5])
def test_all_shapes(points: int, dims: int, outputs: int, penalty: float) -> None:
    prompt = linear_prompt(3, normal(3, 2, points, dims), outputs)
    assert distance(Ridge(penalty).weights(prompt), ridge(prompt, penalty)) < REFERENCE


@pytest.mark.parametrize("penalty", [1e-15, 1e-12, 1e-9, 1e-6, 1e-3])
@pytest.mark.parametrize("scale", [1.0, 1e-3, 1e3])
def test_tiny_penalties_in_fifty_digits(penalty: float, scale: float) -> None:
    prompt = linear_prompt(4, scale * normal(4, 2, 9, 4))
    assert distance(Ridge(penalty).weights(prompt), fifty_digits(prompt, penalty)) < REFERENCE


@pytest.mark.parametrize("penalty", [1e-4, 1e-2])
def test_degenerate_inputs_in_fifty_digits(penalty: float) -> None:
    plain = normal(5, 1, 8, 3)
    for xs in (
        torch.ones_like(plain),
        torch.zeros_like(plain),
        plain[:, :1] * normal(6, 1, 8, 1),
        plain[:, torch.arange(8) // 2],
        torch.cat([plain[..., :2], plain[..., 1:2] * (1 + 1e-9)], dim=2),
    ):
        prompt = Prompt(xs=xs, ys=normal(7, 1, 8, 2))
        assert distance(Ridge(penalty).weights(prompt), fifty_digits(prompt, penalty)) < REFERENCE


def test_a_penalty_below_rounding_of_deficient_inputs_stays_finite_and_near_ols() -> None:
    # Inputs in a plane, which rounding leaves by 1e-16: with a penalty of 1e-12 that shifts the
    # weights by at most 1e-16 / 1e-12 times the outputs.
    prompt = linear_prompt(8, normal(8, 4, 20, 2) @ normal(9, 4, 2, 6))
    weights = Ridge(1e-12).weights(prompt)
    assert distance(weights, OLS().weights(prompt).numpy()) < 1e-2


def test_huge_penalties_are_right_relative_to_their_size() -> None:
    prompt = linear_prompt(10, normal(10, 4, 30, 6), outputs=2)
    moment = torch.cumsum(prompt.xs[..., None] * prompt.ys[:, :, None], dim=1)[:, :-1]
    for penalty in (1e8, 1e15, 1e100):
        scaled = penalty * Ridge(penalty).weights(prompt)[:, 1:]  # (B, n - 1, d, k)
        relative = (scaled - moment).norm(dim=2) / moment.norm(dim=2)  # (B, n - 1, k)
        # The next term of the series in 1 / penalty is |X|^2 / penalty, here below 1e3 / penalty.
        assert float(relative.max()) < 1e3 / penalty + 1e-13


def test_prompts_of_one_batch_may_need_different_ways() -> None:
    scales = torch.tensor([1.0, 1e3, 1e5, 1e-2], dtype=torch.float64)[:, None, None]
    prompt = linear_prompt(11, scales * normal(11, 4, 15, 6))
    together = Ridge(0.01).weights(prompt)
    assert distance(together, ridge(prompt, 0.01)) < REFERENCE
    for b in range(4):
        alone = Ridge(0.01).weights(prompt.select(slice(b, b + 1)))
        assert distance(alone, together[b : b + 1].numpy()) < REFERENCE


def test_without_penalty_it_is_ols() -> None:
    prompt = linear_prompt(12, normal(12, 3, 12, 5))
    assert torch.equal(Ridge(0).weights(prompt), OLS().weights(prompt))


@given(
    seed=st.integers(0, 2**20),
    points=st.integers(1, 25),
    dims=st.integers(1, 10),
    outputs=st.integers(1, 3),
    log_penalty=st.floats(-9, 6),
)
def test_gradient_vanishes(
    seed: int, points: int, dims: int, outputs: int, log_penalty: float
) -> None:
    penalty = 10.0**log_penalty
    prompt = Prompt(xs=normal(seed, 2, points, dims), ys=normal(seed + 1, 2, points, outputs))
    weights = Ridge(penalty).weights(prompt)  # (B, n, d, k)
    assert not weights[:, 0].any()
    for i in range(1, points):
        x, y, w = prompt.xs[:, :i], prompt.ys[:, :i], weights[:, i]
        gradient = x.mT @ (y - x @ w) - penalty * w  # (B, d, k)
        size = (x.mT @ y).norm() + torch.linalg.matrix_norm(x.mT @ x).max() * w.norm()
        assert float(gradient.norm() / size) < REFERENCE


@pytest.mark.parametrize("penalty", [-1e-9, float("inf"), float("nan")])
def test_impossible_penalties_are_refused(penalty: float) -> None:
    with pytest.raises(ValidationError, match="penalty"):
        Ridge(penalty=penalty)
