"""Induced weights against one prefix and one query at a time."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

import innerloop as il
from innerloop.analysis.induced import bytes_asked, induced_weights
from innerloop.core.chunks import budget
from innerloop.core.errors import ConfigurationError, PromptError
from innerloop.core.iterate import iterate
from innerloop.core.learner import Learner, Traits
from innerloop.core.prompt import Prompt
from innerloop.core.tolerances import REFERENCE
from innerloop.learners import FromFunction, GradientDescent, Newton, Ridge
from innerloop.models import InContextTransformer, Stack
from innerloop.models.transformer import TransformerConfig

DIMS, POINTS = 3, 6

DrawPrompt = Callable[..., Prompt]


def transformer(mask: str = "causal", outputs: int = 1) -> InContextTransformer:
    shape = Stack(layers=2, width=16, heads=2, mask=mask)  # pyright: ignore[reportArgumentType]
    config = TransformerConfig(dims=DIMS, outputs=outputs, points=POINTS, backbone=shape)
    return InContextTransformer(config, generator=torch.Generator().manual_seed(5)).double()


def ridge_on_all_but_the_last(xs: Tensor, ys: Tensor) -> Tensor:
    """A regression that looks at whole prompts: not causal by itself."""
    x, y = xs[:, :-1], ys[:, :-1]  # (B, n - 1, d), (B, n - 1, k)
    system = x.mT @ x + 0.5 * torch.eye(xs.shape[2], dtype=xs.dtype)  # (B, d, d)
    return xs @ torch.linalg.solve(system, x.mT @ y)


NOT_CAUSAL = FromFunction(ridge_on_all_but_the_last, Traits(causal=False))


def slowly(learner: Learner[Any], prompt: Prompt, asked: Tensor, steps: int | None) -> Tensor:
    """The definition: every prompt, prefix and query is a prompt of its own, then least squares."""
    shape = (prompt.batch, prompt.points, prompt.dims, prompt.outputs)
    weights = torch.empty(shape, dtype=torch.float64)  # (P, n, d, k)
    for b in range(prompt.batch):
        for i in range(prompt.points):
            answers = []
            for query in asked.to(prompt.xs):
                xs = torch.cat([prompt.xs[b, :i], query[None]])[None]  # (1, i + 1, d)
                ys = torch.cat([prompt.ys[b, :i], torch.zeros_like(prompt.ys[b, :1])])[None]
                with torch.no_grad():
                    answers.append(il.predict(learner, Prompt(xs=xs, ys=ys), steps=steps)[0, i])
            found = np.linalg.lstsq(asked.numpy(), torch.stack(answers).numpy(), rcond=None)[0]
            weights[b, i] = torch.from_numpy(found)
    return weights


def difference(one: Tensor, other: Tensor) -> float:
    return float(((one - other).abs() / other.abs().clamp(min=1)).max())


@pytest.mark.parametrize(
    "learner",
    [transformer(), transformer("full"), NOT_CAUSAL, Ridge(0.3)],
    ids=["causal transformer", "full transformer", "function of all", "ridge"],
)
def test_equal_to_one_prefix_and_query_at_a_time(
    learner: Learner[Any], random_prompt: DrawPrompt, generator: torch.Generator
) -> None:
    prompt = random_prompt(2, POINTS, DIMS)
    asked = torch.randn(8, DIMS, generator=generator, dtype=torch.float64)  # (q, d)
    found = induced_weights(learner, prompt, queries=asked)
    assert found.dtype == torch.float64
    assert difference(found, slowly(learner, prompt, asked, None)) < REFERENCE


@pytest.mark.parametrize("learner", [Ridge(0.3), Newton(3), GradientDescent(4)])
def test_those_of_a_linear_learner_are_its_weights(
    learner: Learner[Any], random_prompt: DrawPrompt
) -> None:
    prompt = random_prompt(4, 9, 5, outputs=2)
    assert difference(induced_weights(learner, prompt), learner.weights(prompt)) < REFERENCE


def test_several_outputs_of_a_transformer_are_fitted_apart(random_prompt: DrawPrompt) -> None:
    prompt = random_prompt(2, POINTS, DIMS, outputs=2)
    model = transformer(outputs=2)
    asked = torch.eye(DIMS, dtype=torch.float64)  # (d, d): then the answers are the weights
    found = induced_weights(model, prompt, queries=asked)  # (P, n, d, k)
    with torch.no_grad():
        answers = il.predict(model, prompt.ask(asked.expand(2, POINTS, -1, -1)))
    assert difference(found, answers) < REFERENCE


@pytest.mark.parametrize(
    "learner",
    [transformer(), transformer("full"), Newton(3)],
    ids=["causal transformer", "full transformer", "Newton"],
)
def test_every_step_is_what_so_many_steps_give(
    learner: Learner[Any], random_prompt: DrawPrompt
) -> None:
    prompt = random_prompt(3, POINTS, DIMS)
    found = induced_weights(learner, prompt, queries=7, every_step=True)
    assert found.shape == (learner.steps + 1, 3, POINTS, DIMS, 1)
    for steps, weights in enumerate(found):
        alone = induced_weights(learner, prompt, queries=7, steps=steps)
        assert difference(weights, alone) < REFERENCE
    fewer = induced_weights(learner, prompt, queries=7, steps=1, every_step=True)
    assert difference(fewer, found[:2]) < REFERENCE


@pytest.mark.parametrize("every_step", [False, True])
def test_chunks_change_nothing(every_step: bool, random_prompt: DrawPrompt) -> None:
    prompt, model = random_prompt(5, POINTS, DIMS), transformer()
    whole = induced_weights(model, prompt, every_step=every_step)
    with budget(2 * bytes_asked(model, prompt, 100)):  # two at a time
        assert difference(induced_weights(model, prompt, every_step=every_step), whole) < 1e-12


@pytest.mark.parametrize("size", [2**28, 1])
def test_queries_may_be_each_prompts_own(size: int) -> None:
    """On ill-conditioned inputs; of a linear learner they give its own weights."""
    task = il.tasks.LinearRegression(dims=4, covariance="ill-conditioned", dtype="float64")
    drawn = task.sample(5, 9 + 12, generator=torch.Generator().manual_seed(1))
    prompt = Prompt(xs=drawn.xs[:, :9], ys=drawn.ys[:, :9])
    learner = GradientDescent(3)
    with budget(size):
        weights = induced_weights(learner, prompt, queries=drawn.xs[:, 9:], every_step=True)
        states = iterate(learner, prompt)
        expected = torch.stack([learner.weights(prompt, state) for state in states])
        assert weights == pytest.approx(expected, abs=1e-10)  # (4, 5, 9, 4, 1)
        alike = induced_weights(learner, prompt, every_step=True)
        assert weights == pytest.approx(alike, abs=1e-10)


def test_the_fit_is_to_the_queries_as_they_were_asked(random_prompt: DrawPrompt) -> None:
    """In bfloat16 they are rounded by up to 0.4%, which must not show in the weights."""
    prompt = random_prompt(2, POINTS, DIMS, dtype=torch.bfloat16)
    asked: list[Tensor] = []

    def remember(xs: Tensor, ys: Tensor) -> Tensor:
        asked.append(xs[:, -1])
        return xs[..., :1]  # exact in any type: the first number of the question

    learner = FromFunction(remember, Traits(causal=False))
    found = induced_weights(learner, prompt, queries=9)  # (P, n, d, 1)
    expected = torch.eye(DIMS, dtype=torch.float64)[:, :1].expand_as(found)
    assert difference(found, expected) < 1e-12
    assert {part.dtype for part in asked} == {torch.bfloat16}


def test_the_seed_draws_the_queries(random_prompt: DrawPrompt) -> None:
    prompt, model = random_prompt(2, POINTS, DIMS), transformer()
    first, again, other = (induced_weights(model, prompt, seed=seed) for seed in (1, 1, 2))
    assert torch.equal(first, again)
    assert not torch.allclose(first, other)


def test_no_gradients_are_kept(random_prompt: DrawPrompt) -> None:
    assert not induced_weights(transformer(), random_prompt(2, POINTS, DIMS)).requires_grad


@pytest.mark.parametrize(
    ("queries", "sentence"),
    [
        (2, "fewer do not determine"),
        (-1, "fewer do not determine"),
        (torch.zeros(9, 4), "expected at least 3 of 3"),
        (torch.zeros(9), "expected at least 3 of 3"),
    ],
)
def test_bad_queries_are_one_sentence(
    queries: int | Tensor, sentence: str, random_prompt: DrawPrompt
) -> None:
    with pytest.raises(ConfigurationError, match=sentence):
        induced_weights(Ridge(0.1), random_prompt(2, 5, 3), queries=queries)


def test_streams_are_refused(random_prompt: DrawPrompt) -> None:
    with pytest.raises(PromptError, match="pairs"):
        induced_weights(Ridge(0.1), random_prompt(2, 5, 3, layout="stream"))
