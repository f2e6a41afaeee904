"""The elastic net against scikit-learn's."""

import numpy as np
import pytest
from sklearn.linear_model import ElasticNet as ScikitElasticNet

from innerloop.core.tolerances import REFERENCE
from innerloop.learners import ElasticNet
from tests.learners.references import distance, linear_prompt, normal


@pytest.mark.parametrize("penalty", [1e-3, 0.1, 1.0])
@pytest.mark.parametrize("ratio", [0.1, 0.5, 0.9])
@pytest.mark.parametrize("shape", [(9, 4), (6, 8), (15, 3)])
def test_equals_scikit_learn(penalty: float, ratio: float, shape: tuple[int, int]) -> None:
    prompt = linear_prompt(0, normal(0, 2, *shape), 2)
    xs, ys = prompt.xs.numpy(), prompt.ys.numpy()
    expected = np.zeros((*xs.shape, 2))
    for b in range(2):
        for i in range(1, xs.shape[1]):
            for k in range(2):
                model = ScikitElasticNet(
                    penalty, l1_ratio=ratio, fit_intercept=False, tol=1e-14, max_iter=10**6
                )
                expected[b, i, :, k] = model.fit(xs[b, :i], ys[b, :i, k]).coef_
    assert distance(ElasticNet(penalty, ratio).weights(prompt), expected) < REFERENCE
