"""Boosting against XGBoost's own regressor, and what it says where XGBoost is missing."""

import sys
from collections.abc import Callable

import numpy as np
import pytest
import torch
from pydantic import ValidationError

import innerloop as il
from innerloop.core.errors import NotSupportedError
from innerloop.learners.boosting import Boosting

xgboost = pytest.importorskip("xgboost", reason="needs the extra `trees`")

RandomPrompt = Callable[..., il.Prompt]

FLOAT32 = 1e-5
"""XGBoost computes in float32, whatever it is given."""


@pytest.mark.parametrize("signs", [False, True])
def test_equals_xgboosts_regressor(signs: bool, random_prompt: RandomPrompt) -> None:
    prompt = random_prompt(2, 12, 4, 2, queries=3)
    learner = Boosting(rounds=7, depth=3, learning_rate=0.3, signs=signs)
    xs, ys, asked = prompt.xs.numpy(), prompt.ys.numpy(), prompt.asked.numpy()
    if signs:
        xs, asked = np.sign(xs), np.sign(asked)
    expected = np.zeros(prompt.prediction_shape)
    for b, i, o in np.ndindex(2, 12, 2):
        if i > 0:
            model = xgboost.XGBRegressor(
                n_estimators=7, max_depth=3, learning_rate=0.3, n_jobs=1, tree_method="exact"
            )
            expected[b, i, :, o] = model.fit(xs[b, :i], ys[b, :i, o]).predict(asked[b, i])
    answer = il.predict(learner, prompt)
    torch.testing.assert_close(answer, torch.from_numpy(expected), rtol=FLOAT32, atol=FLOAT32)
    assert answer[:, 2:].std() > 0.1


def test_first_two_prefixes(random_prompt: RandomPrompt) -> None:
    prompt = random_prompt(3, 2, 4)
    answer = il.predict(Boosting(rounds=2), prompt)
    assert torch.equal(answer[:, 0], torch.zeros_like(answer[:, 0]))
    torch.testing.assert_close(answer[:, 1], prompt.ys[:, 0], rtol=FLOAT32, atol=FLOAT32)


def test_more_rounds_fit_the_examples_better(random_prompt: RandomPrompt) -> None:
    prompt = random_prompt(1, 16, 4)
    asked = prompt.ask(prompt.xs[:, None].expand(-1, 16, -1, -1))
    errors = [
        float((il.predict(Boosting(rounds), asked)[0, -1, :15] - prompt.ys[0, :15]).square().mean())
        for rounds in (1, 5, 25)
    ]
    assert errors[0] > errors[1] > errors[2]


def test_without_xgboost_the_error_names_the_extra(
    random_prompt: RandomPrompt, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "xgboost", None)
    with pytest.raises(NotSupportedError, match=r"pip install innerloop\[trees\]"):
        il.predict(Boosting(), random_prompt())


@pytest.mark.parametrize("settings", [{"rounds": 0}, {"depth": 0}, {"learning_rate": 0}])
def test_settings(settings: dict[str, int]) -> None:
    with pytest.raises(ValidationError):
        Boosting(**settings)  # type: ignore[arg-type]
