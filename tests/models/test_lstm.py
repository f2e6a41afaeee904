"""The LSTM against its equations written out, one token at a time."""

from collections.abc import Callable

import pytest
import torch
from pydantic import ValidationError
from torch import Tensor
from torch.nn import functional

import innerloop as il
from innerloop.core.chunks import budget
from innerloop.core.errors import PromptError
from innerloop.core.prompt import Prompt
from innerloop.models import LSTM, LSTMConfig

DIMS, WIDTH, LAYERS = 3, 5, 3


@pytest.fixture
def model(generator: torch.Generator) -> LSTM:
    config = LSTMConfig(dims=DIMS, width=WIDTH, layers=LAYERS)
    model = LSTM(config, generator=generator).double()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter += 0.3 * torch.randn(parameter.shape, generator=generator).double()
    return model


def plain_layer(weights: dict[str, Tensor], tokens: Tensor) -> Tensor:
    """Hidden states (T, D) of one layer on inputs (T, D), from the equations."""
    hidden, cell = torch.zeros(2, WIDTH, dtype=tokens.dtype)  # (D,) each
    states: list[Tensor] = []
    for token in tokens:
        inner = (
            weights["weight_ih_l0"] @ token + weights["bias_ih_l0"]
            + weights["weight_hh_l0"] @ hidden + weights["bias_hh_l0"]
        )  # (4 D,)  # fmt: skip
        admit, keep, new, show = inner.split(WIDTH)
        cell = keep.sigmoid() * cell + admit.sigmoid() * new.tanh()  # (D,)
        hidden = show.sigmoid() * cell.tanh()  # (D,)
        states.append(hidden)
    return torch.stack(states)


def test_layers_are_those_of_the_equations(
    model: LSTM, random_prompt: Callable[..., Prompt]
) -> None:
    prompt = random_prompt(2, 6, DIMS)
    weights = {name: value.detach() for name, value in model.state_dict().items()}
    with torch.no_grad():
        found = il.trajectory(model, prompt).predictions  # (L + 1, B, n, 1)
    for b in range(prompt.batch):
        ys = functional.pad(prompt.ys[b], (0, DIMS - 1))  # (n, d)
        tokens = torch.stack([prompt.xs[b], ys], dim=1).flatten(0, 1)[:-1]  # (2n - 1, d)
        hidden = tokens @ weights["embedding.inward.weight"].T + weights["embedding.inward.bias"]
        for layer in range(LAYERS + 1):
            answer = hidden[::2] @ weights["readout.weight"].T + weights["readout.bias"]  # (n, 1)
            assert float((found[layer, b] - answer).abs().max()) < 1e-12
            if layer < LAYERS:
                before = f"layers.{layer}."
                own = {
                    name.removeprefix(before): value
                    for name, value in weights.items()
                    if name.startswith(before)
                }
                hidden = plain_layer(own, hidden)  # (2n - 1, D)


def test_parameter_count_of_the_paper() -> None:
    model = LSTM(LSTMConfig(dims=20))
    layers = sum(parameter.numel() for parameter in model.layers.parameters())
    assert layers == 10 * (8 * 256**2 + 8 * 256)
    assert round(model.parameter_count / 1e6, 1) == 5.3


def test_nothing_is_left_to_do_beyond_the_last_layer(
    model: LSTM, random_prompt: Callable[..., Prompt]
) -> None:
    prompt = random_prompt(2, 4, DIMS)
    with torch.no_grad():
        *_, state = il.iterate(model, prompt)
        assert model.step(prompt, state, LAYERS) is state
    assert not model.looped


def test_prompts_of_any_length_are_read(model: LSTM, random_prompt: Callable[..., Prompt]) -> None:
    prompt = random_prompt(1, 60, DIMS)
    part = Prompt(xs=prompt.xs[:, :9], ys=prompt.ys[:, :9])
    assert model.points is None
    with torch.no_grad():
        torch.testing.assert_close(il.predict(model, part), il.predict(model, prompt)[:, :9])


def test_features_are_the_hidden_states_of_all_tokens(
    model: LSTM, random_prompt: Callable[..., Prompt]
) -> None:
    prompt = random_prompt(2, 4, DIMS)
    assert model.hidden_states.features(prompt, model.init(prompt)).shape == (2, 7, WIDTH)


def test_queries_are_answered_in_pieces_where_memory_is_short(
    model: LSTM, random_prompt: Callable[..., Prompt]
) -> None:
    prompt = random_prompt(2, 5, DIMS, queries=4)
    with torch.no_grad():
        whole = il.predict(model, prompt)
        with budget(1):
            torch.testing.assert_close(il.predict(model, prompt), whole, rtol=0, atol=1e-12)


def test_what_does_not_fit_is_refused(model: LSTM, random_prompt: Callable[..., Prompt]) -> None:
    with pytest.raises(PromptError, match="the model was made for 3 and 1"):
        il.predict(model, random_prompt(1, 4, DIMS + 1))
    with pytest.raises(ValidationError, match="a stream of 3 dimensions has 1 outputs"):
        LSTMConfig(dims=3, layout="stream")
    with pytest.raises(ValidationError, match="did you mean 'layers'"):
        LSTMConfig.model_validate({"dims": 3, "layer": 2})
