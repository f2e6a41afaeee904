import numpy as np
import pytest
import torch
from pydantic import ValidationError

import innerloop as il
from innerloop.core.prompt import Prompt
from innerloop.core.tolerances import REFERENCE
from innerloop.learners.bayes import Bayes
from innerloop.learners.ols import OLS
from innerloop.learners.ridge import Ridge
from tests.learners.references import distance, linear_prompt, normal


def conditioned(prompt: Prompt, noise: float, prior_variance: float) -> np.ndarray:
    """E[w | y] (B, n, d, k) of the joint normal distribution of w and y: cov(w, y) cov(y)^-1 y."""
    xs, ys = prompt.xs.numpy(), prompt.ys.numpy()
    weights = np.zeros((*xs.shape, ys.shape[2]))
    for b in range(len(xs)):
        for i in range(1, xs.shape[1]):
            x = xs[b, :i]
            covariance = prior_variance * x @ x.T + noise**2 * np.eye(i)
            weights[b, i] = prior_variance * x.T @ np.linalg.solve(covariance, ys[b, :i])
    return weights


@pytest.mark.parametrize("seed", [0, 1, 2])
@pytest.mark.parametrize(("noise", "prior_variance"), [(0.5, 1.0), (1.0, 0.1), (0.1, 3.0)])
def test_is_the_posterior_mean(seed: int, noise: float, prior_variance: float) -> None:
    prompt = linear_prompt(seed, normal(seed, 3, 41, 20), outputs=2)
    expected = conditioned(prompt, noise, prior_variance)
    assert distance(Bayes(noise, prior_variance).weights(prompt), expected) < REFERENCE


def test_without_noise_it_is_ols() -> None:
    prompt = linear_prompt(3, normal(3, 3, 12, 5))
    assert torch.equal(Bayes(0).weights(prompt), OLS().weights(prompt))


def test_no_other_penalty_does_better_on_average() -> None:
    # 4000 problems of its own distribution; errors of two learners on the same problem are close,
    # so the mean difference is known well: it is above zero by many standard errors.
    noise, prior_variance, batch = 0.5, 0.5, 4000
    xs = normal(4, batch, 9, 5)
    w = prior_variance**0.5 * normal(5, batch, 5, 1)
    prompt = Prompt(xs=xs, ys=xs @ w + noise * normal(6, batch, 9, 1))

    def squared_errors(learner: il.Learner[torch.Tensor]) -> torch.Tensor:
        return (learner.weights(prompt)[:, -1] - w).square().sum(dim=(1, 2))  # (B,)

    best = squared_errors(Bayes(noise, prior_variance))
    for penalty in (0.05, 0.2, 1.2, 5.0):
        difference = squared_errors(Ridge(penalty)) - best  # (B,)
        assert difference.mean() > 3 * difference.std() / batch**0.5


def test_names_and_limits() -> None:
    assert Bayes(0.5).name == "Bayes(noise=0.5)"
    assert Bayes(0.5, 2).ridge == Ridge(0.125)
    for noise, prior_variance in ((-1, 1), (1, 0), (1, -1)):
        with pytest.raises(ValidationError):
            Bayes(noise, prior_variance)
