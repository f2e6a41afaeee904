"""Kernel ridge, Gaussian processes and random features against scikit-learn and plain algebra."""

from typing import Any

import numpy as np
import pytest
import torch
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process.kernels import RBF, ConstantKernel, Kernel, Matern

from innerloop.core.iterate import predict
from innerloop.core.prompt import Prompt
from innerloop.core.tolerances import REFERENCE
from innerloop.learners import GaussianProcess, KernelRidge, RandomFeatures, Ridge
from tests.learners.references import linear_prompt, normal

KERNELS = {
    "rbf": RBF(1.7, "fixed"),
    "matern12": Matern(1.7, "fixed", nu=0.5),
    "matern32": Matern(1.7, "fixed", nu=1.5),
    "matern52": Matern(1.7, "fixed", nu=2.5),
}


def posterior_means(prompt: Prompt, kernel: Kernel, variance: float) -> np.ndarray:
    """Scikit-learn's answers (B, n, q, k), with noise of this variance."""
    xs, ys, asked = prompt.xs.numpy(), prompt.ys.numpy(), prompt.asked.numpy()
    answers = np.zeros((*asked.shape[:3], ys.shape[2]))
    for b in range(len(xs)):
        for i in range(1, xs.shape[1]):
            fixed: Any = None  # scikit-learn's stubs know no kernel that stays as it is
            model = GaussianProcessRegressor(kernel, alpha=variance, optimizer=fixed)
            model.fit(xs[b, :i], ys[b, :i])
            answers[b, i] = np.reshape(np.asarray(model.predict(asked[b, i])), answers[b, i].shape)
    return answers


@pytest.mark.parametrize("kernel", KERNELS)
@pytest.mark.parametrize("outputs", [1, 2])
def test_equals_scikit_learn(kernel: str, outputs: int) -> None:
    prompt = linear_prompt(0, normal(0, 3, 9, 4), outputs)
    prompt = prompt.ask(normal(5, 3, 9, 2, 4))
    expected = posterior_means(prompt, KERNELS[kernel], 0.05)  # (B, n, q, k)
    answers = predict(KernelRidge(0.05, 1.7, kernel), prompt)  # pyright: ignore[reportArgumentType]
    assert float((answers - torch.from_numpy(expected)).abs().max()) < REFERENCE


def test_a_process_has_noise_and_a_variance() -> None:
    prompt = linear_prompt(1, normal(1, 2, 8, 3))
    kernel = ConstantKernel(3.0, "fixed") * KERNELS["matern32"]
    expected = posterior_means(prompt, kernel, 0.4**2)[:, :, 0]  # (B, n, k)
    answers = predict(GaussianProcess(0.4, 3.0, 1.7, "matern32"), prompt)
    assert float((answers - torch.from_numpy(expected)).abs().max()) < REFERENCE


def test_random_features_are_ridge_on_them() -> None:
    """On the features that the docstring states, computed here."""
    prompt = linear_prompt(2, normal(2, 3, 12, 4), 2)
    learner = RandomFeatures(0.3, features=6, length=1.5, seed=4)
    generator = torch.Generator().manual_seed(4)
    u = torch.randn(4, 6, generator=generator, dtype=torch.float64)  # (d, m)
    features = (prompt.xs @ u / 1.5).relu() * (2 / 6) ** 0.5  # (B, n, m)
    expected = predict(Ridge(0.3), Prompt(xs=features, ys=prompt.ys))  # (B, n, k)
    assert float((predict(learner, prompt) - expected).abs().max()) < REFERENCE


def test_many_cosines_approach_the_kernel() -> None:
    prompt = linear_prompt(3, normal(3, 4, 8, 2))
    exact = predict(KernelRidge(0.1, 2.0), prompt)  # (B, n, k)

    def error(features: int) -> float:
        learner = RandomFeatures(0.1, features, kind="cosine", length=2.0)
        return float((predict(learner, prompt) - exact).square().mean())

    # Monte Carlo: 64 times the features leave 1/64 of the squared error, up to its own noise.
    assert error(64 * 200) < error(200) / 16


@pytest.mark.parametrize("kernel", KERNELS)
def test_repeated_examples_and_a_vanishing_penalty_stay_finite(kernel: str) -> None:
    xs = normal(4, 2, 5, 3).repeat_interleave(3, dim=1)  # (B, n, d)
    prompt = linear_prompt(4, xs)
    answers = predict(KernelRidge(1e-300, 1.0, kernel), prompt)  # pyright: ignore[reportArgumentType]
    assert bool(answers.isfinite().all())
