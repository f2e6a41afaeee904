"""The trained networks against torch's own layers, gradients and Adam, one prefix at a time."""

import math
from collections.abc import Callable

import pytest
import torch
from pydantic import ValidationError

import innerloop as il
from innerloop.core.chunks import budget
from innerloop.core.errors import NotSupportedError
from innerloop.core.tolerances import EXACT_CIRCUIT, REFERENCE
from innerloop.learners.network import Layers, NetworkByAdam, gradients

RandomPrompt = Callable[..., il.Prompt]


def as_module(layers: Layers, b: int, i: int) -> torch.nn.Sequential:
    """The network of prompt b and prefix i, as torch would build it."""
    made: list[torch.nn.Module] = []
    for weights in (layers.hidden[b, i], layers.output[b, i]):
        # skip_init: the weights are ours, and drawing others would touch the global generator.
        linear = torch.nn.utils.skip_init(
            torch.nn.Linear, weights.shape[1] - 1, weights.shape[0], dtype=torch.float64
        )
        linear.load_state_dict({"weight": weights[:, :-1], "bias": weights[:, -1]})
        made.append(linear)
    return torch.nn.Sequential(made[0], torch.nn.ReLU(), made[1])


def test_equals_torchs_adam_one_prefix_at_a_time(random_prompt: RandomPrompt) -> None:
    prompt = random_prompt(2, 21, 5, 2, queries=3)
    learner = NetworkByAdam(hidden=16, steps=40, learning_rate=2e-2, seed=3)
    answers = il.trajectory(learner, prompt).predictions  # (41, B, n, q, k)
    start = learner.init(prompt).parameters
    for b, i in ((0, 1), (1, 2), (0, 9), (1, 10), (0, 20)):
        model = as_module(start, b, i)
        adam = torch.optim.Adam(model.parameters(), lr=2e-2)
        for t in range(41):
            expected = model(prompt.asked[b, i]).detach()  # (q, k)
            torch.testing.assert_close(answers[t, b, i], expected, rtol=REFERENCE, atol=REFERENCE)
            adam.zero_grad()
            torch.nn.functional.mse_loss(model(prompt.xs[b, :i]), prompt.ys[b, :i]).backward()
            adam.step()


def test_gradients_equal_autograd(random_prompt: RandomPrompt, generator: torch.Generator) -> None:
    prompt = random_prompt(2, 6, 3, 2)
    shapes = ((2, 4, 7, 4), (2, 4, 2, 8))  # hidden and output layers of prefixes 3 .. 6
    drawn = (torch.randn(shape, generator=generator, dtype=torch.float64) for shape in shapes)
    layers = Layers(*drawn)
    found = gradients(layers, prompt.xs, prompt.ys, first=3)
    for b in range(2):
        for place, i in enumerate(range(3, 7)):
            model = as_module(layers, b, place)
            torch.nn.functional.mse_loss(model(prompt.xs[b, :i]), prompt.ys[b, :i]).backward()
            for linear, slope in zip(
                (model[0], model[2]), (found.hidden[b, place], found.output[b, place]), strict=True
            ):
                assert isinstance(linear, torch.nn.Linear)
                assert linear.weight.grad is not None
                assert linear.bias.grad is not None
                expected = torch.cat([linear.weight.grad, linear.bias.grad[:, None]], dim=1)
                # The same sums in another order: what holds for exact circuits holds here.
                torch.testing.assert_close(slope, expected, rtol=EXACT_CIRCUIT, atol=EXACT_CIRCUIT)


def test_every_network_starts_alike_and_as_torch_draws_it(random_prompt: RandomPrompt) -> None:
    learner = NetworkByAdam(hidden=50)
    start = learner.init(random_prompt(3, 4, 7, 2)).parameters
    for layer, inputs in ((start.hidden, 7), (start.output, 50)):
        assert torch.equal(layer, layer[:1, :1].expand_as(layer))
        bound = 1 / math.sqrt(inputs)
        # The largest of at least 100 uniform draws: below 0.9 with probability 0.9^100 = 3e-5.
        assert 0.9 * bound < float(layer.abs().max()) <= bound
    other = NetworkByAdam(hidden=50, seed=1).init(random_prompt(3, 4, 7, 2)).parameters
    assert not torch.allclose(other.hidden, start.hidden)


def test_an_empty_prefix_answers_zero_at_every_step(random_prompt: RandomPrompt) -> None:
    answers = il.trajectory(NetworkByAdam(hidden=5, steps=3), random_prompt(2, 3)).predictions
    assert torch.equal(answers[:, :, 0], torch.zeros_like(answers[:, :, 0]))
    assert answers[0, :, 1:].abs().min() > 0


def test_training_lowers_the_error_on_the_examples(random_prompt: RandomPrompt) -> None:
    prompt = random_prompt(2, 9, 5)
    asked = prompt.ask(prompt.xs[:, None].expand(-1, 9, -1, -1))
    answers = il.trajectory(NetworkByAdam(), asked).predictions[:, :, -1, :8]  # (K + 1, B, 8, 1)
    errors = (answers - prompt.ys[:, :8]).square().mean(dim=(1, 2, 3))  # (K + 1,)
    assert errors[0] > errors[10] > errors[100]


@pytest.mark.parametrize("prefixes", [0, 3])
def test_the_size_of_the_chunks_does_not_matter(prefixes: int, random_prompt: RandomPrompt) -> None:
    """With memory for the activations of so many prefixes at a time, and at least one."""
    prompt = random_prompt(5, 20, 3, 2)
    learner = NetworkByAdam(hidden=6, steps=5)
    answer = il.predict(learner, prompt)
    with budget(prefixes * 8 * 6 * 20):
        again = il.predict(learner, prompt)
    torch.testing.assert_close(again, answer, rtol=REFERENCE, atol=REFERENCE)


def test_moving_part_is_the_parameters(random_prompt: RandomPrompt) -> None:
    learner = NetworkByAdam(hidden=6)
    state = learner.init(random_prompt(3, 4, 2, 1))
    moving = learner.moving.get(state)  # (B, parameters)
    assert moving.shape == (3, 4 * (6 * 3 + 7))
    with pytest.raises(NotSupportedError, match="cannot be moved by hand"):
        learner.moving.put(state, moving)


@pytest.mark.parametrize("settings", [{"hidden": 0}, {"steps": -1}, {"learning_rate": 0}])
def test_settings(settings: dict[str, int]) -> None:
    with pytest.raises(ValidationError):
        NetworkByAdam(**settings)
