"""Forgetting: examples asked again, against one prompt an example."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch
from torch import Tensor

import innerloop as il
from innerloop.analysis.forgetting import forgetting
from innerloop.core.chunks import budget
from innerloop.core.errors import PromptError
from innerloop.core.learner import Learner, Traits
from innerloop.core.prompt import Prompt
from innerloop.learners import (
    OLS,
    FromFunction,
    GradientDescent,
    NearestNeighbors,
    Newton,
    OnlineGradientDescent,
)
from innerloop.models import LSTM, InContextTransformer, Stack
from innerloop.models.lstm import LSTMConfig
from innerloop.models.transformer import TransformerConfig

DIMS, EXAMPLES = 5, 8
TASK = il.tasks.LinearRegression(dims=DIMS, dtype="float64")

DrawPrompt = Callable[..., Prompt]


def column(table: pd.DataFrame, name: str) -> np.ndarray:
    return table[name].to_numpy()


def transformer() -> InContextTransformer:
    shape = Stack(layers=2, width=16, heads=2)
    config = TransformerConfig(dims=DIMS, points=EXAMPLES + 1, backbone=shape)
    return InContextTransformer(config, generator=torch.Generator().manual_seed(5)).double()


def lstm() -> LSTM:
    config = LSTMConfig(dims=DIMS, width=8, layers=2)
    return LSTM(config, generator=torch.Generator().manual_seed(5)).double()


def mean_of_all_but_the_last(xs: Tensor, ys: Tensor) -> Tensor:
    return ys[:, :-1].sum(dim=1, keepdim=True).expand_as(ys) + xs[..., :1]


NOT_CAUSAL = FromFunction(mean_of_all_but_the_last, Traits(causal=False))


def slowly(learner: Learner[Any], prompt: Prompt) -> Tensor:
    """Eq. 16 of Fu et al.: a prompt that ends with x_i, for each example i: errors (P, n)."""
    errors = []
    for i in range(prompt.points):
        xs = torch.cat([prompt.xs, prompt.xs[:, i : i + 1]], dim=1)  # (P, n + 1, d)
        ys = torch.cat([prompt.ys, torch.zeros_like(prompt.ys[:, :1])], dim=1)  # (P, n + 1, k)
        with torch.no_grad():
            answer = il.predict(learner, Prompt(xs=xs, ys=ys))[:, -1]  # (P, k)
        errors.append((answer - prompt.ys[:, i]).square().mean(dim=-1))
    return torch.stack(errors, dim=1)


@pytest.mark.parametrize(
    "learner",
    [transformer(), lstm(), NOT_CAUSAL, OnlineGradientDescent(), NearestNeighbors(2)],
    ids=["transformer", "LSTM", "not causal", "online", "neighbours"],
)
def test_equal_to_one_prompt_an_example(learner: Learner[Any]) -> None:
    prompt = TASK.sample(16, EXAMPLES, generator=torch.Generator().manual_seed(3))
    measured = forgetting(learner, prompt, TASK)
    errors = (slowly(learner, prompt) / DIMS).flip(1)  # (P, n): the newest first
    assert np.allclose(measured.values, errors, rtol=1e-10, atol=1e-14)
    table = measured.table()
    assert list(column(table, "gap")) == list(range(EXAMPLES))
    assert np.allclose(column(table, "mean"), errors.mean(dim=0), rtol=1e-10, atol=1e-14)
    assert np.allclose(column(table, "median"), errors.median(dim=0).values, atol=1e-14)
    assert (column(table, "low") <= column(table, "mean")).all()
    assert (column(table, "mean") <= column(table, "high")).all()
    assert set(column(table, "label")) == {learner.name}


def test_who_forgets_and_who_does_not() -> None:
    """Least squares keeps all, online descent the newest, Newton treats old and new alike."""
    task = il.tasks.LinearRegression(dims=20, dtype="float64")
    learners = [OLS(), OnlineGradientDescent(), Newton(5)]
    prompt = task.sample(400, 20, generator=torch.Generator().manual_seed(0))
    exact, online, newton = (forgetting(each, prompt, task).interval() for each in learners)
    assert float(exact.value.max()) < 1e-15
    assert float(online.value[0]) < 1e-25  # a step of 1 / |x|^2 leaves no error
    assert (online.low[-5:] > online.high[:5]).all()
    # Of equal expectation: a 90% interval is 3.3 standard errors wide, four of them on either side.
    error = (newton.high - newton.low) / 3.3  # (gaps,)
    assert ((newton.value - newton.value.mean()).abs() < 4 * error).all()


def test_prompts_that_are_drawn_already(random_prompt: DrawPrompt) -> None:
    prompt = random_prompt(12, 9, 3, outputs=2)
    zero = forgetting(GradientDescent(0), prompt)
    assert float(zero.values.mean()) == pytest.approx(1, rel=1e-12)  # over the mean of y^2
    some = forgetting(GradientDescent(2), prompt, label="two steps")
    errors = slowly(GradientDescent(2), prompt) / prompt.ys.square().mean()  # (P, n)
    assert np.allclose(some.values, errors.flip(1), rtol=1e-10)
    assert some.label == "two steps"


def test_steps_are_passed_on(random_prompt: DrawPrompt) -> None:
    prompt = random_prompt(6, 5, 3)
    fewer = forgetting(GradientDescent(9), prompt, steps=2)
    expected = forgetting(GradientDescent(2), prompt)
    assert np.allclose(fewer.values, expected.values, rtol=1e-12)


def test_examples_that_are_not_scored_are_left_out(random_prompt: DrawPrompt) -> None:
    prompt = random_prompt(6, 5, 3)
    scored = torch.ones(6, 5, dtype=torch.bool)
    scored[:, 1], scored[:2, 3] = False, False
    measured = forgetting(NearestNeighbors(2), replace(prompt, scored=scored))
    table = measured.table()
    assert list(column(table, "gap")) == [0, 1, 2, 4]
    assert measured.counted is not None
    assert measured.counted.sum(dim=0).tolist() == [6, 4, 6, 0, 6]
    errors = slowly(NearestNeighbors(2), prompt)[2:, 3] / prompt.ys.square().mean()
    assert column(table, "mean")[1] == pytest.approx(float(errors.mean()), rel=1e-10)


def test_chunks_change_nothing(random_prompt: DrawPrompt) -> None:
    prompt = random_prompt(7, EXAMPLES, DIMS)
    whole = forgetting(transformer(), prompt)
    with budget(1):  # one prompt at a time
        assert np.allclose(forgetting(transformer(), prompt).values, whole.values, rtol=1e-12)


def test_prompts_that_say_nothing_are_refused(random_prompt: DrawPrompt) -> None:
    with pytest.raises(PromptError, match="pairs"):
        forgetting(OLS(), random_prompt(2, 6, 3, layout="stream"))
    prompt = random_prompt(2, 6, 3)
    with pytest.raises(PromptError, match="is 0"):
        forgetting(OLS(), Prompt(xs=prompt.xs, ys=0 * prompt.ys))
