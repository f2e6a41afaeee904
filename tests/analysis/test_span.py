"""The span test, against a least squares fit a prompt and prefix."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch

import innerloop as il
from innerloop.analysis.induced import induced_weights
from innerloop.analysis.span import chance_outside, outside_span, span_chance, span_test
from innerloop.core.chunks import budget
from innerloop.core.errors import PromptError
from innerloop.core.learner import Learner
from innerloop.core.prompt import Prompt
from innerloop.core.tolerances import REFERENCE
from innerloop.learners import (
    OLS,
    FromFunction,
    GradientDescent,
    Lasso,
    NearestNeighbors,
    Newton,
    OnlineGradientDescent,
    Ridge,
)
from innerloop.models import InContextTransformer, Stack
from innerloop.models.transformer import TransformerConfig

DrawPrompt = Callable[..., Prompt]


def column(table: pd.DataFrame, name: str) -> np.ndarray:
    return table[name].to_numpy()


def transformer() -> InContextTransformer:
    config = TransformerConfig(dims=4, points=9, backbone=Stack(layers=2, width=16, heads=2))
    return InContextTransformer(config, generator=torch.Generator().manual_seed(5)).double()


def slowly(learner: Learner[Any], prompt: Prompt) -> np.ndarray:
    """Eq. 42 of Fu et al.: fit coefficients, one prompt and prefix at a time: (P, n - 1)."""
    weights = induced_weights(learner, prompt).numpy()  # (P, n, d, k)
    residuals = np.zeros((prompt.batch, prompt.points - 1))
    for b in range(prompt.batch):
        for i in range(1, prompt.points):
            inputs, w = prompt.xs[b, :i].numpy().T, weights[b, i]  # (d, i), (d, k)
            fitted = inputs @ np.linalg.lstsq(inputs, w, rcond=1e-12)[0]
            if w.any():  # zero is in every span; the Lasso has such weights
                residuals[b, i - 1] = np.linalg.norm(w - fitted) / np.linalg.norm(w)
    return residuals


def deficient(prompt: Prompt) -> Prompt:
    """The prompt with inputs that repeat those before: twice the third, and a combination."""
    xs = prompt.xs.clone()
    xs[:, 1] = 2 * xs[:, 0]
    xs[:, 3] = xs[:, 0] - 3 * xs[:, 2]
    xs[:, 4] = 0.0
    return replace(prompt, xs=xs)


@pytest.mark.parametrize("repeats", [False, True], ids=["general", "repeated inputs"])
@pytest.mark.parametrize("outputs", [1, 2])
@pytest.mark.parametrize("learner", [NearestNeighbors(2), Lasso(0.1)])
def test_equal_to_a_fit_of_each_prefix(
    learner: Learner[Any], outputs: int, repeats: bool, random_prompt: DrawPrompt
) -> None:
    prompt = random_prompt(6, 9, 4, outputs=outputs)
    prompt = deficient(prompt) if repeats else prompt
    measured = span_test(learner, prompt)
    assert np.abs(measured.values.numpy() - slowly(learner, prompt)).max() < REFERENCE
    table = measured.table()
    assert list(column(table, "examples")) == list(range(1, 9))
    every = [torch.linalg.matrix_rank(prompt.xs[:, :i]) for i in range(1, 9)]  # (P,) each
    ranks = outside_span(induced_weights(learner, prompt), prompt)[1]  # (P, n)
    assert torch.equal(ranks[:, 1:], torch.stack(every, dim=1).double())
    chance = torch.stack([chance_outside(each, 4, outputs) for each in every], dim=1)  # (P, n - 1)
    assert torch.allclose(span_chance(prompt).values, chance)
    assert (column(table, "low") <= column(table, "mean")).all()
    assert (column(table, "mean") <= column(table, "high")).all()


def test_a_transformer_is_fitted_as_well(random_prompt: DrawPrompt) -> None:
    prompt = random_prompt(5, 9, 4)
    measured = span_test(transformer(), prompt)
    assert np.abs(measured.values.numpy() - slowly(transformer(), prompt)).max() < 1e-8
    assert (measured.interval().low[:3] > 0.05).all()  # random weights know of no span
    assert measured.label == transformer().name
    assert span_test(transformer(), prompt, label="stack").label == "stack"


@pytest.mark.parametrize(
    "learner",
    [OLS(), Ridge(0.3), Newton(4), GradientDescent(5), OnlineGradientDescent()],
    ids=lambda learner: learner.name,
)
@pytest.mark.parametrize("repeats", [False, True], ids=["general", "repeated inputs"])
def test_methods_that_start_at_zero_stay_in_the_span(
    learner: Learner[Any], repeats: bool, random_prompt: DrawPrompt
) -> None:
    prompt = random_prompt(6, 9, 4)
    prompt = deficient(prompt) if repeats else prompt
    assert float(span_test(learner, prompt).interval().high.max()) < REFERENCE


def test_a_start_outside_the_span_stays_outside(random_prompt: DrawPrompt) -> None:
    """Gradient descent never moves what is orthogonal to the inputs."""
    prompt, start = random_prompt(6, 9, 4), np.array([1.0, -2.0, 0.5, 3.0])
    learner = GradientDescent(5, start=tuple(start))
    found, _ = outside_span(learner.weights(prompt), prompt)  # (P, n)
    size = learner.weights(prompt).norm(dim=(2, 3)).numpy()  # (P, n)
    for b in range(6):
        for i in range(1, 4):
            basis = np.linalg.qr(prompt.xs[b, :i].numpy().T)[0]  # (d, i)
            outside = np.linalg.norm(start - basis @ (basis.T @ start))
            assert float(found[b, i]) == pytest.approx(outside / size[b, i], rel=1e-8)
    assert found[:, 0].numpy() == pytest.approx(1)  # without examples nothing is in the span


def test_chance_is_what_a_fixed_direction_has() -> None:
    task = il.tasks.LinearRegression(dims=5, dtype="float64")
    prompt = task.sample(2000, 7, generator=torch.Generator().manual_seed(1))
    fixed = torch.ones(2000, 7, 5, 1, dtype=torch.float64)  # weights that ignore the prompt
    outside, ranks = outside_span(fixed, prompt)  # (P, n) each
    expected = chance_outside(ranks[0], 5)  # (n,)
    error = outside.std(dim=0) / 2000**0.5  # (n,)
    assert (outside.mean(dim=0) - expected).abs().max() < 1e-10 + 5 * error.max()
    assert outside[:, 5:].max() < 1e-12


@pytest.mark.parametrize(("dims", "outputs"), [(3, 1), (5, 1), (4, 3)])
def test_chance_is_a_mean_and_no_root_of_a_mean(dims: int, outputs: int) -> None:
    generator = torch.Generator().manual_seed(2)
    weights = torch.randn(100_000, dims, outputs, generator=generator, dtype=torch.float64)
    expected = chance_outside(torch.arange(dims + 1), dims, outputs)  # (d + 1,)
    for rank in range(dims + 1):
        # Of weights at random, any coordinates will do as the span.
        outside = weights[:, rank:].norm(dim=(1, 2)) / weights.norm(dim=(1, 2))  # (N,)
        assert float(expected[rank]) == pytest.approx(float(outside.mean()), abs=3e-3)
    assert float(chance_outside(torch.tensor(4), 5)) == pytest.approx(0.375)  # a root has 0.447


def test_weights_of_zero_are_in_every_span(random_prompt: DrawPrompt) -> None:
    zero = FromFunction(lambda xs, ys: 0 * ys, label="zero")
    assert (span_test(zero, random_prompt(3, 6, 4)).values == 0).all()


def test_single_precision_is_fine_but_for_its_rounding(random_prompt: DrawPrompt) -> None:
    prompt = deficient(random_prompt(6, 9, 4)).to(dtype=torch.float32)
    ranks = outside_span(induced_weights(OLS(), prompt), prompt)[1]  # (P, n)
    assert (ranks == torch.tensor([0, 1, 1, 2, 2, 2, 3, 4, 4])).all()
    assert float(span_test(OLS(), prompt).interval().high.max()) < 1e-5


def test_positions_that_are_not_scored_are_left_out(random_prompt: DrawPrompt) -> None:
    prompt = random_prompt(6, 6, 4)
    scored = torch.ones(6, 6, dtype=torch.bool)
    scored[:, 2], scored[1:, 3] = False, False
    measured = span_test(NearestNeighbors(2), replace(prompt, scored=scored))
    table = measured.table()
    assert list(column(table, "examples")) == [1, 3, 4, 5]
    assert measured.counted is not None
    assert measured.counted.sum(dim=0).tolist() == [6, 0, 1, 6, 6]
    alone = slowly(NearestNeighbors(2), prompt)[0, 2]
    assert column(table, "mean")[1] == pytest.approx(alone, rel=1e-8)


def test_chunks_change_nothing(random_prompt: DrawPrompt) -> None:
    prompt = random_prompt(7, 6, 4)
    weights = induced_weights(Lasso(0.1), prompt)
    whole = outside_span(weights, prompt)
    with budget(1):  # a prompt at a time
        for part, all_at_once in zip(outside_span(weights, prompt), whole, strict=True):
            assert torch.allclose(part, all_at_once, atol=1e-12)


def test_prompts_without_examples_are_refused(random_prompt: DrawPrompt) -> None:
    with pytest.raises(PromptError, match="at least two points"):
        span_test(OLS(), random_prompt(3, 1, 4))
