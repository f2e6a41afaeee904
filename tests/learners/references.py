"""Slow, independent answers to compare with: one prompt and one prefix at a time."""

import warnings

import numpy as np
import torch
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import Lasso as ScikitLasso
from torch import Tensor

from innerloop.core.prompt import Prompt


def normal(seed: int, *shape: int) -> Tensor:
    """Standard normal numbers in float64."""
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(shape, generator=generator, dtype=torch.float64)


def linear_prompt(seed: int, xs: Tensor, outputs: int = 1, noise: float = 0.5) -> Prompt:
    """Inputs (B, n, d) with noisy linear outputs (B, n, k)."""
    w = normal(seed + 1000, xs.shape[0], xs.shape[2], outputs)  # (B, d, k)
    errors = noise * normal(seed + 2000, *xs.shape[:2], outputs)  # (B, n, k)
    return Prompt(xs=xs, ys=xs @ w + errors * xs.abs().max())


def least_squares(prompt: Prompt, rcond: float | None = None) -> np.ndarray:
    """Minimum-norm weights (B, n, d, k) by LAPACK's gelsd; rcond is max(i, d) * eps unless told."""
    xs, ys = prompt.xs.double().numpy(), prompt.ys.double().numpy()
    weights = np.zeros((*xs.shape, ys.shape[2]))
    for b in range(len(xs)):
        for i in range(1, xs.shape[1]):
            cut = max(i, xs.shape[2]) * np.finfo(float).eps if rcond is None else rcond
            weights[b, i] = np.linalg.lstsq(xs[b, :i], ys[b, :i], rcond=cut)[0]
    return weights


def ridge(prompt: Prompt, penalty: float) -> np.ndarray:
    """Ridge weights (B, n, d, k): least squares with sqrt(penalty) I as d more examples."""
    xs, ys = prompt.xs.double().numpy(), prompt.ys.double().numpy()
    dims, outputs = xs.shape[2], ys.shape[2]
    weights = np.zeros((*xs.shape, outputs))
    for b in range(len(xs)):
        for i in range(1, xs.shape[1]):
            x = np.vstack([xs[b, :i], np.sqrt(penalty) * np.eye(dims)])
            y = np.vstack([ys[b, :i], np.zeros((dims, outputs))])
            weights[b, i] = np.linalg.lstsq(x, y, rcond=0.0)[0]
    return weights


def scikit_lasso(x: np.ndarray, y: np.ndarray, penalty: float, tolerance: float) -> np.ndarray:
    """The weights (d,) of scikit-learn's Lasso on x (i, d), y (i,), as the public code calls it."""
    model = ScikitLasso(penalty, fit_intercept=False, max_iter=100_000, tol=tolerance)
    with warnings.catch_warnings():
        # It warns where it has not converged, which is part of what it is compared for.
        warnings.simplefilter("ignore", ConvergenceWarning)
        return model.fit(x, y).coef_


def lasso_objective(x: np.ndarray, y: np.ndarray, w: np.ndarray, penalty: float) -> float:
    """What the Lasso minimises, for x (i, d), y (i,), w (d,)."""
    return float(((y - x @ w) ** 2).sum() / (2 * len(y)) + penalty * np.abs(w).sum())


def distance(weights: Tensor, expected: np.ndarray) -> float:
    """The largest difference of weights (B, n, d, k), relative to max(1, |w|) of each."""
    size = np.maximum(1, np.linalg.norm(expected, axis=2, keepdims=True))
    difference = np.abs(weights.numpy() - expected) / size
    return float(np.nan_to_num(difference, nan=np.inf).max())
