"""The linear looped transformer: its matrix form, gradient descent, and training."""

from collections.abc import Callable

import pytest
import torch
from torch import Tensor

import innerloop as il
from innerloop.core.errors import PromptError
from innerloop.core.prompt import Prompt
from innerloop.models import LinearLoopedConfig, LinearLoopedTransformer

TOLERANCE = 1e-12


def random_model(dims: int, loops: int, generator: torch.Generator) -> LinearLoopedTransformer:
    config = LinearLoopedConfig(dims=dims, loops=loops, step_size=0.05)
    model = LinearLoopedTransformer(config, generator=generator).double()
    with torch.no_grad():
        for matrix in model.matrices():
            matrix.normal_(0.0, 0.5, generator=generator)
    return model


def matrix_form(
    model: LinearLoopedTransformer, xs: Tensor, ys: Tensor, alpha: float, loops: int
) -> Tensor:
    """Definitions 3.4 to 3.6 as printed, on examples (n, d) and (n,): the vector (d,)."""
    number, dims = xs.shape
    z = torch.zeros(number + 1, dims + 1, dtype=xs.dtype)
    z[:number, :dims], z[:number, dims], z[number, dims] = xs, ys, alpha
    mask = torch.zeros(number + 1, number + 1, dtype=xs.dtype)
    mask[number, :number] = 1.0
    with torch.no_grad():
        for _ in range(loops):
            attention = (mask * (z @ model.query_key @ z.T)) @ z @ model.value_output
            z = z - model.log_step_size.exp() * attention
    return -z[number, :dims]


@pytest.mark.parametrize("alpha", [1.0, -1.7])
@pytest.mark.parametrize("outputs", [1, 2])
def test_weights_are_those_of_the_matrix_form_on_each_prefix(
    generator: torch.Generator, random_prompt: Callable[..., Prompt], alpha: float, outputs: int
) -> None:
    model = random_model(3, 4, generator)
    prompt = random_prompt(2, 7, 3, outputs)
    with torch.no_grad():
        weights = model.weights(prompt)  # (B, n, d, k)
    assert float(weights.abs().max()) > 0.1
    for b in range(2):
        for i in range(7):
            for k in range(outputs):
                xs, ys = prompt.xs[b, :i], prompt.ys[b, :i, k]  # (i, d), (i,)
                vector = matrix_form(model, xs, ys, alpha, loops=4)  # (d,)
                assert float((vector - alpha * weights[b, i, :, k]).abs().max()) < TOLERANCE


@pytest.mark.parametrize("outputs", [1, 3])
@pytest.mark.parametrize("step_size", [0.001, 0.02])
def test_theorem_4_2_is_gradient_descent(
    random_prompt: Callable[..., Prompt], outputs: int, step_size: float
) -> None:
    model = LinearLoopedTransformer.gradient_descent(dims=4, loops=50, step_size=step_size)
    descent = il.learners.GradientDescent(50, step_size)
    prompt = random_prompt(5, 20, 4, outputs, queries=2)
    with torch.no_grad():
        found = il.trajectory(model, prompt).predictions  # (51, B, n, q, k)
        expected = il.trajectory(descent, prompt).predictions  # (51, B, n, q, k)
        weights = model.weights(prompt)  # (B, n, d, k)
    assert float((found - expected).abs().max()) < TOLERANCE
    assert float((weights - descent.weights(prompt)).abs().max()) < TOLERANCE


def test_weights_are_float64_whatever_the_model_computes_in(
    generator: torch.Generator, random_prompt: Callable[..., Prompt]
) -> None:
    model = random_model(3, 2, generator).float()
    prompt = random_prompt(2, 5, 3, dtype=torch.float32)
    assert model.weights(prompt).dtype == torch.float64
    assert il.predict(model, prompt).dtype == torch.float32
    assert model.hidden_states.features(prompt, model.init(prompt)).shape == (2, 5, 4)


def test_training_finds_a_better_learner_than_averaging(generator: torch.Generator) -> None:
    task = il.tasks.VectorGeneration(dims=4)
    model = LinearLoopedTransformer(LinearLoopedConfig(dims=4, loops=8), generator=generator)
    optimiser = torch.optim.Adam(model.parameters(), lr=1e-2)
    for _ in range(200):
        prompt = task.sample(64, 17, generator=generator)
        *_, state = il.iterate(model, prompt)
        loss = (model.read(prompt, state) - prompt.ys).square().mean()
        optimiser.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimiser.step()
    test = task.sample(500, 17, generator=generator)
    with torch.no_grad():
        # Medians: all prompts share one step size, and those of large eigenvalues diverge with it.
        errors = [
            float((il.predict(learner, test) - test.ys)[:, -1].square().median())
            for learner in (model, il.learners.Averaging())
        ]
    assert errors[0] < errors[1]


def test_first_weights_are_small_and_the_step_size_as_given(generator: torch.Generator) -> None:
    config = LinearLoopedConfig(dims=30, step_size=0.005)
    model = LinearLoopedTransformer(config, generator=generator)
    assert float(model.query_key.detach().std()) == pytest.approx(0.02, rel=0.1)
    assert float(model.log_step_size.detach().exp()) == pytest.approx(0.005)
    assert model.steps == 20
    assert model.looped


def test_other_dimensions_are_refused(
    generator: torch.Generator, random_prompt: Callable[..., Prompt]
) -> None:
    with pytest.raises(PromptError, match="the prompt has 2 dimensions, the model was made for 3"):
        il.predict(random_model(3, 2, generator), random_prompt(1, 4, 2))
