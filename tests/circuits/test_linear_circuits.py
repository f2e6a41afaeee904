"""Gradient descent as linear attention, and what training does to circuits of each kind."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from innerloop.circuits import CircuitSettings
from innerloop.circuits.causal_gradient_descent import CausalGradientDescent
from innerloop.circuits.explain import layer_table, slot_table
from innerloop.circuits.linear_attention import LinearAttention
from innerloop.circuits.linear_looped import LinearLooped
from innerloop.circuits.newton_relu import NewtonRelu
from innerloop.core.errors import PromptError
from innerloop.core.iterate import iterate, predict, trajectory
from innerloop.core.learner import Learner
from innerloop.core.prompt import Prompt
from innerloop.core.tolerances import EXACT_CIRCUIT
from innerloop.learners import GradientDescent, Newton
from innerloop.models import LinearLoopedTransformer
from innerloop.models.checkpoint import load, save
from innerloop.models.model import AnyModel
from innerloop.studies.gradient_circuits import LINEAR_ATTENTION, LINEAR_LOOPED
from innerloop.tasks import LinearRegression

KINDS: list[type[LinearAttention] | type[LinearLooped]] = [LinearAttention, LinearLooped]


def draw(dims: int, points: int, *, seed: int = 0, batch: int = 3) -> Prompt:
    task = LinearRegression(dims=dims, dtype="float64")
    return task.sample(batch, points, generator=torch.Generator().manual_seed(seed))


def worst(circuit: AnyModel, learner: Learner[Any], prompt: Prompt) -> float:
    """The worst error of all steps, divided by max(1, the answer)."""
    with torch.no_grad():
        found = trajectory(circuit, prompt).predictions
    expected = trajectory(learner, prompt).predictions
    assert found.shape == expected.shape
    return float(((found - expected).abs() / expected.abs().clamp(min=1)).max())


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(("dims", "points"), [(1, 1), (1, 4), (2, 11), (5, 4), (8, 14)])
def test_every_step_is_gradient_descent(kind: Callable[..., Any], dims: int, points: int) -> None:
    settings = kind(dims=dims, points=points, steps=12)
    learner = GradientDescent(12, step_size=settings.rate)
    assert worst(settings.build(), learner, draw(dims, points)) < EXACT_CIRCUIT


@pytest.mark.parametrize("kind", KINDS)
def test_queries_have_the_same_answers(kind: Callable[..., Any]) -> None:
    settings = kind(dims=3, points=6, steps=5, step_size=0.02)
    generator = torch.Generator().manual_seed(1)
    queries = torch.randn(3, 6, 2, 3, generator=generator, dtype=torch.float64)  # (B, n, q, d)
    learner = GradientDescent(5, step_size=0.02)
    assert worst(settings.build(), learner, draw(3, 6).ask(queries)) < EXACT_CIRCUIT


@pytest.mark.parametrize("row", [LINEAR_ATTENTION, LINEAR_LOOPED])
@pytest.mark.parametrize("steps", [0, 1, 9])
def test_one_layer_and_one_head_a_step(row, steps: int) -> None:
    settings = row.settings(5, 11).model_copy(update={"steps": steps})
    limit, blueprint = row.limit(settings), settings.build().blueprint
    assert len(blueprint.pre) <= limit.pre
    assert len(blueprint.body) == limit.step == 1
    assert blueprint.post == ()
    assert blueprint.heads == 1
    assert blueprint.layers == limit.pre + steps
    assert blueprint.residual.width == limit.width
    assert [row.layer for row in layer_table(blueprint)][-1] == "loop 0"
    assert sum(size for _, _, size in slot_table(blueprint)) == limit.width


def test_the_linear_looped_circuit_is_the_model_of_theorem_4_2() -> None:
    circuit = LinearLooped(dims=4, steps=7, step_size=0.03).build()
    given = LinearLoopedTransformer.gradient_descent(dims=4, loops=7, step_size=0.03)
    assert circuit.config == given.config
    assert (circuit.name, circuit.steps) == ("linear-looped", 7)
    for name, value in given.state_dict().items():
        assert torch.equal(value, circuit.state_dict()[name]), name


@pytest.mark.parametrize("kind", KINDS)
def test_a_perturbed_weight_is_caught(kind: Callable[..., Any]) -> None:
    settings = kind(dims=3, points=6, steps=5)
    circuit, prompt = settings.build(), draw(3, 6)
    learner = GradientDescent(5, step_size=settings.rate)
    assert worst(circuit, learner, prompt) < EXACT_CIRCUIT
    with torch.no_grad():
        name = "query_key" if kind is LinearLooped else "backbone.blocks.0.attention.inward.weight"
        weight = circuit.get_parameter(name)
        weight.view(-1)[weight.abs().argmax()] *= 1 + 1e-6
    assert worst(circuit, learner, prompt) > EXACT_CIRCUIT


@pytest.mark.parametrize("kind", KINDS)
def test_saved_and_loaded_bit_for_bit(kind: Callable[..., Any], tmp_path: Path) -> None:
    circuit, prompt = kind(dims=3, points=5, steps=4).build(), draw(3, 5)
    again = load(save(circuit, tmp_path))
    assert again.dtype == torch.float64
    for name, value in circuit.state_dict().items():
        assert torch.equal(value, again.state_dict()[name]), name
    with torch.no_grad():
        assert torch.equal(predict(circuit, prompt), predict(again, prompt))


def test_more_points_than_places_are_refused() -> None:
    circuit = LinearAttention(dims=2, points=3, steps=1).build()
    with pytest.raises(PromptError, match="take fewer points"):
        predict(circuit, draw(2, 4))


def test_newton_with_a_place_of_its_own_for_every_token_is_newton() -> None:
    circuit = NewtonRelu(dims=3, points=8, steps=10, start=1e-4, one_hot=True).build()
    assert worst(circuit, Newton(10, start=1e-4), draw(3, 8)) < EXACT_CIRCUIT


# Start sizes that are too small to come far in three steps: there is something to gain.
TRAINABLE = {
    "linear-attention": LinearAttention(dims=3, points=9, steps=3, step_size=0.01),
    "newton-relu": NewtonRelu(dims=3, points=9, steps=3, start=3e-4, one_hot=True),
    "linear-looped": LinearLooped(dims=3, points=9, steps=3, step_size=0.01),
}


def last_loss(model: AnyModel, prompt: Prompt) -> Tensor:
    """The squared error at the last point: under a full mask, the only one that is asked about."""
    *_, state = iterate(model, prompt)
    return (model.outputs(prompt, state)[:, -1] - prompt.ys[:, -1]).square().mean()


def train(model: AnyModel, steps: int) -> None:
    """Adam at 1e-4 with gradients clipped to 1, on new prompts at every step."""
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-4)
    for step in range(steps):
        optimizer.zero_grad()
        last_loss(model, draw(3, 9, seed=1 + step, batch=64)).backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()


@pytest.mark.parametrize("name", TRAINABLE)
def test_exact_circuits_can_be_trained_further(name: str) -> None:
    settings: CircuitSettings = TRAINABLE[name]
    model, held_out = settings.build(), draw(3, 9, batch=512)
    with torch.no_grad():
        before = float(last_loss(model, held_out))
    train(model, 40)
    with torch.no_grad():
        after = float(last_loss(model, held_out))
    assert after < before


def test_one_step_of_training_wrecks_a_softmax_circuit() -> None:
    """Values are divided by c: a weight that moves by 1e-4 moves the answer by thousands."""
    model, held_out = CausalGradientDescent(dims=3, points=9, steps=3).build(), draw(3, 9, batch=64)
    with torch.no_grad():
        before = float(last_loss(model, held_out))
    train(model, 1)
    with torch.no_grad():
        after = float(last_loss(model, held_out))
    assert after > 1000 * before
