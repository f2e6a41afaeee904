"""OLS, ridge and Lasso: all prefixes at once, against a loop over prefixes (and prompts)."""

import warnings

import numpy as np
import torch
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import Lasso as ScikitLasso
from torch import Tensor

from benchmarks.timing import Row, compare, linear_prompt
from innerloop.core.prompt import Prompt
from innerloop.learners.lasso import Lasso
from innerloop.learners.ols import OLS
from innerloop.learners.ridge import Ridge
from innerloop.learners.sherman_morrison import ShermanMorrison

BATCH, POINTS, DIMS = 1280, 41, 20
PENALTY = 0.1
LOOPED = 32
"""scikit-learn takes every prompt the same time: it runs on some of them, and is scaled."""
LASSO_TARGETS = {0.1: 6.0, 0.01: 3.0, 0.001: 1.5}


def run() -> list[Row]:
    """Time all, after a check that they give the same weights."""
    prompt = linear_prompt(BATCH, POINTS, DIMS)
    some = prompt.select(slice(0, 8))
    _require_same(OLS().weights(some), _loop_of_lstsq(some))
    for learner in (Ridge(PENALTY), ShermanMorrison(PENALTY)):
        _require_same(learner.weights(some), _loop_of_solves(some))
    size = f"{BATCH} prompts, d {DIMS}, {POINTS} points"
    return [
        compare(
            f"OLS, {size}, a batched lstsq a prefix",
            lambda: OLS().init(prompt),
            lambda: _loop_of_lstsq(prompt),
            target=8,
        ),
        compare(
            f"ridge, {size}, a batched solve a prefix",
            lambda: Ridge(PENALTY).init(prompt),
            lambda: _loop_of_solves(prompt),
            target=8,
        ),
        compare(
            f"Sherman-Morrison, {size}, a batched solve a prefix",
            lambda: ShermanMorrison(PENALTY).init(prompt),
            lambda: _loop_of_solves(prompt),
            target=5,
        ),
        *(_lasso(prompt, penalty, target) for penalty, target in LASSO_TARGETS.items()),
    ]


def _require_same(ours: Tensor, plain: Tensor) -> None:
    torch.testing.assert_close(ours, plain, rtol=1e-8, atol=1e-8)


def _lasso(prompt: Prompt, penalty: float, target: float) -> Row:
    few = prompt.select(slice(0, LOOPED))
    ours = Lasso(penalty).weights(few)  # (B, n, d, 1)
    theirs = torch.from_numpy(_loop_of_scikit_lasso(few, penalty))[..., None]  # (B, n, d, 1)
    worse = _objectives(few, ours, penalty) - _objectives(few, theirs, penalty)  # (B, n)
    assert float(worse.max()) <= 1e-12, "scikit-learn found a lower objective"
    return compare(
        f"Lasso, alpha {penalty:g}, {BATCH} prompts, d {DIMS}, {POINTS} points, scikit-learn "
        f"(on {LOOPED} prompts, scaled)",
        lambda: Lasso(penalty).init(prompt),
        lambda: _loop_of_scikit_lasso(few, penalty),
        target=target,
        repeats=3,
        share=LOOPED / BATCH,
    )


def _objectives(prompt: Prompt, weights: Tensor, penalty: float) -> Tensor:
    """What the Lasso minimises at each prefix, times the examples: (B, n), of (B, n, d, 1)."""
    fitted = weights[..., 0] @ prompt.xs.mT  # (B, n, n): prefix, example
    left = (prompt.ys.mT - fitted).tril(-1).square().sum(dim=2) / 2  # (B, n)
    examples = torch.arange(prompt.points)  # (n,)
    return left + examples * penalty * weights[..., 0].abs().sum(dim=2)


def _loop_of_lstsq(prompt: Prompt) -> Tensor:
    """Minimum-norm weights (B, n, d, 1) by torch's quickest driver that gives them."""
    weights = torch.zeros(*prompt.xs.shape, 1, dtype=torch.float64)  # (B, n, d, 1)
    for i in range(1, prompt.points):
        solved = torch.linalg.lstsq(prompt.xs[:, :i], prompt.ys[:, :i], driver="gelsy")
        weights[:, i] = solved.solution  # (B, d, 1)
    return weights


def _loop_of_solves(prompt: Prompt) -> Tensor:
    """Ridge weights (B, n, d, 1) by the normal equations."""
    weights = torch.zeros(*prompt.xs.shape, 1, dtype=torch.float64)  # (B, n, d, 1)
    penalty = PENALTY * torch.eye(prompt.dims, dtype=torch.float64)  # (d, d)
    for i in range(1, prompt.points):
        x = prompt.xs[:, :i]  # (B, i, d)
        weights[:, i] = torch.linalg.solve(x.mT @ x + penalty, x.mT @ prompt.ys[:, :i])
    return weights


def _loop_of_scikit_lasso(prompt: Prompt, penalty: float) -> np.ndarray:
    """Weights (B, n, d), one prompt and one prefix at a time, with scikit-learn's tolerance."""
    xs, ys = prompt.xs.numpy(), prompt.ys.numpy()[..., 0]  # (B, n, d), (B, n)
    weights = np.zeros(xs.shape)  # (B, n, d)
    model = ScikitLasso(penalty, fit_intercept=False, max_iter=100_000)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        for b in range(len(xs)):
            for i in range(1, xs.shape[1]):
                weights[b, i] = model.fit(xs[b, :i], ys[b, :i]).coef_
    return weights
