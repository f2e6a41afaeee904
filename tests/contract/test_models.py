"""The contract on every model, and what else holds of all of them."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import pytest
import torch
from torch import Tensor

import innerloop as il
from innerloop.core.prompt import Layout, Prompt
from innerloop.models import (
    LSTM,
    MODELS,
    InContextTransformer,
    LinearLoopedConfig,
    LinearLoopedTransformer,
    Loop,
    LSTMConfig,
    Stack,
    TabularConfig,
    TabularTransformer,
    TextModel,
    TransformerConfig,
)
from innerloop.models.model import AnyModel

DIMS, POINTS = 3, 8
ONE_PASS = {torch.float32: 1e-5, torch.float64: 1e-10}
"""How far queries in one pass may lie from one query at a time."""


@dataclass(frozen=True, kw_only=True)
class Case:
    """A model, and what the contract must know of it."""

    make: Callable[[torch.Generator], AnyModel]
    outputs: int = 1
    layout: Layout = "pairs"
    waived: dict[str, str] = field(default_factory=dict)


def transformer(backbone: Stack | Loop, **settings: Any) -> Callable[..., AnyModel]:
    config = TransformerConfig(dims=DIMS, points=POINTS, backbone=backbone, **settings)
    return lambda generator: InContextTransformer(config, generator=generator)


def stack(**settings: Any) -> Stack:
    return Stack.model_validate({"layers": 2, "width": 8, "heads": 2} | settings)


def loop(**settings: Any) -> Loop:
    return Loop.model_validate({"loops": 3, "width": 8, "heads": 2} | settings)


def lstm(**settings: Any) -> Callable[..., AnyModel]:
    config = LSTMConfig(dims=DIMS, width=8, layers=3, **settings)
    return lambda generator: LSTM(config, generator=generator)


def linear_looped(generator: torch.Generator) -> AnyModel:
    """Larger weights than at the start of training, so that they do something."""
    model = LinearLoopedTransformer(LinearLoopedConfig(dims=DIMS, loops=3), generator=generator)
    with torch.no_grad():
        for matrix in model.matrices():
            matrix.normal_(0.0, 0.5, generator=generator)
    return model


def descent(generator: torch.Generator) -> AnyModel:
    return LinearLoopedTransformer.gradient_descent(
        dims=DIMS, loops=3, step_size=0.05, dtype=torch.float32
    )


def tabular(**settings: Any) -> Callable[..., AnyModel]:
    shape = {"width": 8, "heads": 2, "loops": 3}
    config = TabularConfig.model_validate({"shape": shape} | settings)
    return lambda generator: TabularTransformer(config, generator=generator)


CASES: dict[str, Case] = {
    "stack": Case(make=transformer(stack())),
    "stack, two outputs of their own place": Case(
        make=transformer(stack(), outputs=2, output_place="own"), outputs=2
    ),
    "stack, binary": Case(make=transformer(stack(), head="binary")),
    "stack, classes": Case(make=transformer(stack(), outputs=3, head="classes"), outputs=3),
    "stack on a stream": Case(
        make=transformer(stack(), outputs=DIMS, layout="stream"), outputs=DIMS, layout="stream"
    ),
    "stack without norms": Case(
        make=transformer(stack(norm="none", activation="relu", final_norm=False))
    ),
    "stack with norms before the MLP": Case(make=transformer(stack(norm="mlp-only"))),
    "stack without MLP": Case(make=transformer(stack(hidden=0, norm="rms", biases=False))),
    "stack without positions": Case(make=transformer(stack(), positions=False)),
    "stack, full attention": Case(make=transformer(stack(mask="full"))),
    "stack, full attention without positions": Case(
        make=transformer(stack(mask="full"), positions=False)
    ),
    "ReLU attention": Case(make=transformer(stack(attention="relu"))),
    "linear attention": Case(
        make=transformer(stack(attention="linear", divisor=5.0, score_scale=0.5, head_size=3))
    ),
    "loop": Case(make=transformer(loop())),
    "loop of two layers, norm outside": Case(make=transformer(loop(layers=2, norm_inside=False))),
    "loop that multiplies": Case(make=transformer(loop(inject="multiply"))),
    "tied": Case(make=transformer(loop(inject="none"))),
    "loop with a start token": Case(make=transformer(loop(), start_token=True)),
    "loop on a stream, with a start token": Case(
        make=transformer(loop(), outputs=DIMS, layout="stream", start_token=True),
        outputs=DIMS, layout="stream",
    ),
    "loop, linear attention": Case(make=transformer(loop(attention="linear"))),
    "AlgoFormer": Case(make=transformer(loop(pre=1, post=1))),
    "AlgoFormer without injection": Case(make=transformer(loop(pre=1, post=1, inject="none"))),
    "LSTM": Case(make=lstm()),
    "LSTM on a stream": Case(
        make=lstm(outputs=DIMS, layout="stream"), outputs=DIMS, layout="stream"
    ),
    "linear looped": Case(make=linear_looped),
    "linear looped, two outputs": Case(make=linear_looped, outputs=2),
    "linear looped as gradient descent": Case(
        make=descent,
        waived={
            "rotation": "holds for these weights, and is not promised of others",
            "linearity": "holds for these weights, and is not promised of others",
        },
    ),
    "table": Case(make=tabular()),
    "table, regression": Case(make=tabular(head="regression")),
    "table, labels": Case(make=tabular(head="binary")),
    "table, two layers and two outputs": Case(
        make=tabular(shape={"width": 8, "heads": 2, "loops": 2, "layers": 2}, outputs=2), outputs=2,
    ),
}  # fmt: skip

CAUSAL = [name for name in CASES if "full attention" not in name and "table" not in name]
"""Those that take queries at every prefix; the others answer them by other prompts."""


def made(name: str, generator: torch.Generator, dtype: torch.dtype = torch.float64) -> AnyModel:
    return CASES[name].make(generator).to(dtype)


@pytest.fixture
def draw(random_prompt: Callable[..., Prompt]) -> Callable[..., Prompt]:
    """A function that draws prompts which fit a case."""

    def drawn(name: str, queries: int = 0, dtype: torch.dtype = torch.float64) -> Prompt:
        case = CASES[name]
        return random_prompt(
            3, POINTS, DIMS, case.outputs, queries=queries, layout=case.layout, dtype=dtype
        )

    return drawn


@pytest.mark.parametrize("name", CASES)
def test_model_keeps_the_contract(name: str, generator: torch.Generator) -> None:
    case = CASES[name]
    il.check_learner(
        made(name, generator), dims=DIMS, points=POINTS, outputs=(case.outputs,),
        layout=case.layout, waived=case.waived,
    )  # fmt: skip


def test_every_model_has_a_case(generator: torch.Generator) -> None:
    # Models of texts read no numbers: tests/models/test_text.py has them.
    assert {type(made(name, generator)) for name in CASES} == {*MODELS.values()} - {TextModel}
    assert [name for name in CASES if made(name, generator).traits.causal] == CAUSAL


@pytest.mark.parametrize("dtype", ONE_PASS)
@pytest.mark.parametrize("name", CAUSAL)
@torch.no_grad()
def test_queries_in_one_pass_equal_one_at_a_time(
    name: str, dtype: torch.dtype, generator: torch.Generator, draw: Callable[..., Prompt]
) -> None:
    model = made(name, generator, dtype)
    prompt = draw(name, queries=3, dtype=dtype)
    asked = prompt.asked  # (B, n, q, d)
    together = il.trajectory(model, prompt).predictions  # (K + 1, B, n, q, k)
    for i in range(POINTS):
        # Every query in a prompt of its own, in the place of x_i.
        alone = prompt.ask(None).select(torch.arange(prompt.batch).repeat_interleave(3))
        alone.xs[:, i] = asked[:, i].flatten(0, 1)  # (B q, d)
        answers = il.trajectory(model, alone).predictions[:, :, i]  # (K + 1, B q, k)
        found = together[:, :, i].flatten(1, 2)  # (K + 1, B q, k)
        assert float((found - answers).abs().max()) < ONE_PASS[dtype]
    assert float(together[-1].abs().max()) > 1e-3  # the answers are not all zero


@pytest.mark.parametrize("name", CASES)
def test_every_parameter_receives_a_gradient(
    name: str, generator: torch.Generator, draw: Callable[..., Prompt]
) -> None:
    model = made(name, generator)
    prompt = draw(name)
    *_, state = il.iterate(model, prompt)
    outputs = model.outputs(prompt, state)  # (B, n, k)
    (
        outputs * torch.randn(outputs.shape, generator=generator, dtype=torch.float64)
    ).sum().backward()
    for parameter_name, parameter in model.named_parameters():
        assert parameter.grad is not None, parameter_name
        assert bool((parameter.grad != 0).any()), parameter_name


@pytest.mark.parametrize("name", CAUSAL)
def test_queries_carry_gradients(
    name: str, generator: torch.Generator, draw: Callable[..., Prompt]
) -> None:
    model = made(name, generator)
    prompt = draw(name, queries=2)
    same_as_x = prompt.ask(prompt.xs[:, :, None].clone())
    plain = prompt.ask(None)
    gradients: list[list[Tensor]] = []
    for question in (plain, same_as_x):
        *_, state = il.iterate(model, question)
        loss = model.outputs(question, state).square().sum()
        gradients.append(list(torch.autograd.grad(loss, list(model.parameters()))))
    for one, other in zip(*gradients, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("name", CASES)
def test_same_generator_same_weights(name: str) -> None:
    first, second, third = (
        made(name, torch.Generator().manual_seed(seed)).state_dict() for seed in (1, 1, 2)
    )
    assert all(torch.equal(first[key], second[key]) for key in first)
    drawn = name != "linear looped as gradient descent"
    assert any(not torch.equal(first[key], third[key]) for key in first) == drawn


@pytest.mark.parametrize("name", CASES)
@torch.no_grad()
def test_looped_models_run_on_and_others_stop(
    name: str, generator: torch.Generator, draw: Callable[..., Prompt]
) -> None:
    model = made(name, generator)
    prompt = draw(name)
    trained = il.trajectory(model, prompt).predictions  # (K + 1, B, n, k)
    longer = il.trajectory(model, prompt, steps=model.steps + 3).predictions  # (K + 4, B, n, k)
    assert torch.equal(longer[: model.steps + 1], trained)
    moves = [not torch.equal(longer[k], longer[k + 1]) for k in range(model.steps, model.steps + 3)]
    assert moves == 3 * [model.looped]
