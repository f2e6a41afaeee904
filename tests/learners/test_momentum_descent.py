"""Gradient descent with momentum against torch's own."""

import pytest
import torch

from innerloop.core.iterate import predict
from innerloop.core.tolerances import REFERENCE
from innerloop.learners import GradientDescent, MomentumDescent
from tests.learners.references import linear_prompt, normal


@pytest.mark.parametrize("average", [False, True])
def test_equals_torch(average: bool) -> None:
    prompt = linear_prompt(0, normal(0, 1, 9, 4))
    weights = MomentumDescent(7, 0.02, 0.8, average).weights(prompt)  # (1, n, d, 1)
    for i in range(1, 9):
        w = torch.zeros(4, 1, dtype=torch.float64, requires_grad=True)  # (d, 1)
        optimizer = torch.optim.SGD([w], lr=0.02, momentum=0.8)
        for _ in range(7):
            optimizer.zero_grad()
            squares = (prompt.xs[0, :i] @ w - prompt.ys[0, :i]).square()  # (i, 1)
            (squares.mean() if average else squares.sum()).div(2).backward()
            optimizer.step()
        assert float((weights[0, i] - w.detach()).abs().max()) < REFERENCE


def test_without_momentum_it_is_gradient_descent() -> None:
    prompt = linear_prompt(1, normal(1, 3, 9, 4))
    first, second = MomentumDescent(5, momentum=0.0), GradientDescent(5)
    assert torch.equal(predict(first, prompt), predict(second, prompt))
