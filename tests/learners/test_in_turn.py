"""Learners whose weights are given out one example a step."""

import pytest
import torch
from pydantic import ValidationError

import innerloop as il
from innerloop.core.iterate import trajectory
from innerloop.core.learner import Traits
from innerloop.core.tolerances import REFERENCE
from innerloop.learners.in_turn import InTurn
from innerloop.learners.online_gradient_descent import OnlineGradientDescent
from innerloop.learners.prefix import LinearLearner
from innerloop.learners.ridge import Ridge
from innerloop.learners.sherman_morrison import ShermanMorrison
from tests.learners.references import linear_prompt, normal


def test_after_t_steps_a_prefix_has_seen_its_first_t_examples() -> None:
    prompt = linear_prompt(0, normal(0, 3, 6, 2))
    answers = trajectory(InTurn(Ridge(0.5), 7), prompt).predictions  # (8, 3, 6, 1)
    xs, ys = prompt.xs, prompt.ys
    for t in range(8):
        for i in range(6):
            seen = min(t, i)
            x, y = xs[:, :seen], ys[:, :seen]  # (3, seen, 2), (3, seen, 1)
            gram = x.mT @ x + 0.5 * torch.eye(2, dtype=x.dtype)  # (3, 2, 2)
            expected = xs[:, i, None] @ torch.linalg.solve(gram, x.mT @ y)  # (3, 1, 1)
            assert float((answers[t, :, i] - expected[:, 0]).abs().max()) < REFERENCE


@pytest.mark.parametrize(
    "learner", [OnlineGradientDescent(0.05, 0.3), OnlineGradientDescent(), ShermanMorrison(0.4)]
)
def test_all_steps_are_the_learner(learner: LinearLearner[torch.Tensor]) -> None:
    prompt = linear_prompt(1, normal(1, 4, 9, 3), outputs=2)
    found = il.predict(InTurn(learner, 8), prompt)
    assert torch.equal(found, il.predict(learner, prompt))
    assert not torch.equal(il.predict(InTurn(learner, 5), prompt), found)


@pytest.mark.parametrize("learner", [OnlineGradientDescent(0.1), Ridge(1.0)])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_contract(learner: LinearLearner[torch.Tensor], dtype: torch.dtype) -> None:
    il.check_learner(InTurn(learner, 4), dtype=dtype)


def test_settings() -> None:
    assert InTurn(Ridge(2.0), 3).name == "Ridge(penalty=2) in turn"
    with pytest.raises(ValidationError):
        InTurn(Ridge(1.0), -1)


def test_a_learner_of_whole_prompts_is_refused() -> None:
    class Whole(Ridge):
        traits = Traits(causal=False)

    with pytest.raises(ValidationError, match="answers all prefixes at once"):
        InTurn(Whole(1.0), 3)
