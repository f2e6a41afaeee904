import numpy as np
import pytest
import torch
from pydantic import ValidationError

from innerloop.core.chunks import budget
from innerloop.core.prompt import Prompt
from innerloop.core.tolerances import PUBLIC_CODE, REFERENCE
from innerloop.learners import lasso_path
from innerloop.learners.lasso import Lasso
from innerloop.learners.ols import OLS
from tests.learners.references import (
    distance,
    lasso_objective,
    linear_prompt,
    normal,
    scikit_lasso,
)

SCIKIT = 1e-4
"""scikit-learn's own tolerance, which the public code leaves as it is."""


def off_optimal(prompt: Prompt, weights: torch.Tensor, penalty: float) -> float:
    """How far weights (B, n, d, k) are from the optimality conditions, in parts of the penalty.

    The gradient of the squared error must be the penalty times the sign of a weight, and no larger
    than the penalty where the weight is 0. It is known up to rounding of what it is computed from.
    """
    xs, ys = prompt.xs.double().numpy(), prompt.ys.double().numpy()
    worst = 0.0
    for b in range(len(xs)):
        for i in range(1, xs.shape[1]):
            x, y, w = xs[b, :i], ys[b, :i], weights[b, i].numpy()
            gradient = x.T @ (y - x @ w) / i  # (d, k)
            zero = np.maximum(np.abs(gradient) - penalty, 0)
            off = np.where(w == 0, zero, np.abs(gradient - penalty * np.sign(w))).max()
            columns = np.linalg.norm(x, axis=0)  # (d,)
            terms = columns.max() * (np.linalg.norm(y) + np.abs(columns @ w).max())
            worst = max(worst, (off - 1e-12 * terms) / penalty)
    return worst


@pytest.mark.parametrize("penalty", [1.0, 0.1, 0.01, 0.001, 0.0001])
@pytest.mark.parametrize("seed", [0, 1, 2])
def test_is_optimal_at_every_prefix(seed: int, penalty: float) -> None:
    prompt = linear_prompt(seed, normal(seed, 6, 41, 20), noise=0.1 * seed)
    assert off_optimal(prompt, Lasso(penalty).weights(prompt), penalty) < REFERENCE


@pytest.mark.parametrize("penalty", [0.1, 0.01, 0.001])
@pytest.mark.parametrize("seed", [0, 1, 2])
def test_objective_is_never_above_scikit_learns(seed: int, penalty: float) -> None:
    prompt = linear_prompt(seed, normal(seed, 2, 41, 20), noise=0.1 * seed)
    xs, ys = prompt.xs.numpy(), prompt.ys.numpy()[..., 0]
    weights = Lasso(penalty).weights(prompt)[..., 0].numpy()  # (B, n, d)
    for b in range(2):
        for i in range(1, 41):
            x, y = xs[b, :i], ys[b, :i]
            theirs = lasso_objective(x, y, scikit_lasso(x, y, penalty, SCIKIT), penalty)
            ours = lasso_objective(x, y, weights[b, i], penalty)
            assert ours <= theirs * (1 + 1e-14), (b, i)  # Rounding of the two sums.


@pytest.mark.parametrize(
    ("points", "dims", "outputs"), [(1, 3, 1), (2, 3, 2), (14, 5, 3), (12, 1, 2), (8, 12, 1)]
)
def test_equals_scikit_learn_run_to_convergence(points: int, dims: int, outputs: int) -> None:
    prompt = linear_prompt(3, normal(3, 2, points, dims), outputs)
    expected = np.zeros((2, points, dims, outputs))
    for b, i, k in np.ndindex(2, points, outputs):
        x, y = prompt.xs[b, :i].numpy(), prompt.ys[b, :i, k].numpy()
        if i:
            expected[b, i, :, k] = scikit_lasso(x, y, 0.1, 1e-14)
    # Its duality gap of 1e-14 |y|^2 leaves the square root of that in the weights.
    assert distance(Lasso(0.1).weights(prompt), expected) < 1e-6


def test_soft_threshold_in_one_dimension() -> None:
    prompt = linear_prompt(4, normal(4, 20, 12, 1), noise=1)
    x, y = prompt.xs[..., 0], prompt.ys[..., 0]  # (B, n)
    for penalty in (0.03, 0.3):
        for i in range(1, 12):
            moment, power = (x * y)[:, :i].sum(dim=1), (x * x)[:, :i].sum(dim=1)  # (B,)
            expected = moment.sign() * (moment.abs() - i * penalty).clamp(min=0) / power
            weights = Lasso(penalty).weights(prompt)[:, i, 0, 0]
            torch.testing.assert_close(weights, expected, rtol=REFERENCE, atol=REFERENCE)


def test_a_large_penalty_leaves_exact_zeros() -> None:
    prompt = linear_prompt(5, normal(5, 4, 10, 6))
    limit = float((prompt.xs * prompt.ys).abs().max())  # no mean of x y is larger
    assert not Lasso(1.001 * limit).weights(prompt).any()
    assert Lasso(0.1).weights(prompt)[:, -1].ne(0).any()


@pytest.mark.parametrize("penalty", [1e-9, 1e-30, 1e-300])
@pytest.mark.parametrize("scale", [1.0, 1e3])
def test_tiny_penalties_come_to_ols_beyond_d(penalty: float, scale: float) -> None:
    prompt = linear_prompt(6, scale * normal(6, 3, 24, 6), noise=0.1)
    ols = OLS().weights(prompt)[:, 9:].numpy()
    # The penalty moves weights by penalty i |G^-1|, here far below 1e-9 times 1e2.
    assert distance(Lasso(penalty).weights(prompt)[:, 9:], ols) < 1e-7


def degenerate() -> dict[str, torch.Tensor]:
    """Inputs (6, 14, 5) with ties, copies and dependent columns."""
    plain = normal(7, 6, 14, 5)
    half = plain[..., :2]
    return {
        "constant": torch.ones_like(plain),
        "zero": torch.zeros_like(plain),
        "collinear": plain[:, :1] * normal(8, 6, 14, 1),
        "repeated": plain[:, torch.arange(14) // 2],
        "signs": plain.sign(),
        "small integers": plain.round(),
        "one of the dimensions": torch.nn.functional.one_hot(plain.argmax(dim=2), 5).double(),
        "copied columns": torch.cat([half, half, plain[..., 4:]], dim=2),
        "mirrored columns": torch.cat([half, -half, plain[..., 4:]], dim=2),
        "a subspace": half @ normal(8, 6, 2, 5),
        "columns of many sizes": plain * 10.0 ** torch.arange(-2, 3),
        "nearly the same columns": plain[..., :1] + 1e-3 * plain,
    }


@pytest.mark.parametrize("name", degenerate())
@pytest.mark.parametrize("outputs", ["integers", "noise"])
def test_is_optimal_on_degenerate_inputs(name: str, outputs: str) -> None:
    xs = degenerate()[name]
    w = normal(9, 6, 5, 1).round()  # (B, d, 1); exact ties with inputs that are integers
    prompt = Prompt(xs=xs, ys=xs @ w if outputs == "integers" else normal(10, 6, 14, 1))
    for penalty in (1.0, 0.1, 0.001):
        assert off_optimal(prompt, Lasso(penalty).weights(prompt), penalty) < REFERENCE


def test_problems_that_drift_are_repaired(monkeypatch: pytest.MonkeyPatch) -> None:
    # Weights along the path that are off, as rounding would leave them, only far more.
    honest = lasso_path.lasso_path
    prompt = linear_prompt(11, normal(11, 4, 20, 8))
    expected = Lasso(0.05).weights(prompt)

    def sloppy(xs: torch.Tensor, ys: torch.Tensor, growth: torch.Tensor) -> torch.Tensor:
        weights = honest(xs, ys, growth)  # (N, n, d)
        return weights + 1e-3 * normal(12, *weights.shape)

    monkeypatch.setattr("innerloop.learners.lasso.lasso_path", sloppy)
    repaired = Lasso(0.05).weights(prompt)
    assert distance(repaired[:, 1:], expected[:, 1:].numpy()) < REFERENCE


def test_chunks_change_nothing() -> None:
    prompt = linear_prompt(13, normal(13, 5, 10, 4), outputs=2)
    whole = Lasso(0.1).weights(prompt)
    with budget(1):
        torch.testing.assert_close(Lasso(0.1).weights(prompt), whole)


@pytest.mark.parametrize("penalty", [0.1, 0.01])
def test_public_code(reference: dict[str, np.ndarray], penalty: float) -> None:
    xs, ys = reference["xs"].astype(float), reference["ys"].astype(float)
    theirs = reference[f"lasso_{penalty}"]
    weights = Lasso(penalty).weights(Prompt.from_arrays(xs, ys))[..., 0].numpy()  # (B, n, d)
    for b, i in np.ndindex(theirs.shape):
        if i == 0:
            continue
        x, y = xs[b, :i], ys[b, :i]
        # Its answers are those of scikit-learn where that stops, up to 1.0 from the minimum: they
        # tell that objective and penalty are the same, and ours is to be no worse by it.
        w = scikit_lasso(x, y, penalty, SCIKIT)
        assert abs(xs[b, i] @ w - theirs[b, i]) < PUBLIC_CODE
        ours = lasso_objective(x, y, weights[b, i], penalty)
        assert ours <= lasso_objective(x, y, w, penalty) * (1 + 1e-14)


@pytest.mark.parametrize("penalty", [0, -0.1, float("inf")])
def test_impossible_penalties_are_refused(penalty: float) -> None:
    with pytest.raises(ValidationError, match="penalty"):
        Lasso(penalty=penalty)
