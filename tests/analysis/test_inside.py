"""Looking inside models: hooks, attention patterns, patching, ablation, direct attribution."""

import dataclasses
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from innerloop.analysis import (
    ablate,
    attention_patterns,
    direct_attribution,
    error,
    fit_readouts,
    patch,
)
from innerloop.analysis.places import places_of, row_names, token_names
from innerloop.core.chunks import budget
from innerloop.core.components import Components, Place, Tap
from innerloop.core.edited import run_edited
from innerloop.core.errors import ConfigurationError, NotSupportedError, PromptError
from innerloop.core.iterate import predict
from innerloop.core.prompt import Prompt
from innerloop.learners.ols import OLS
from innerloop.models.backbone import Loop, Stack
from innerloop.models.linear_looped import LinearLoopedConfig, LinearLoopedTransformer
from innerloop.models.lstm import LSTM, LSTMConfig
from innerloop.models.model import AnyModel
from innerloop.models.transformer import InContextTransformer, TransformerConfig
from innerloop.tasks.linear import LinearRegression

DIMS, POINTS = 2, 4
TASK = LinearRegression(dims=DIMS, dtype="float64")
SMALL: dict[str, Any] = {"width": 8, "heads": 2, "hidden": 12}
WRONG: Any = "wrong"
EVERYTHING = ("head", "mlp", "residual", "pattern")


def transformer(backbone: Stack | Loop, **settings: Any) -> InContextTransformer:
    config = TransformerConfig(dims=DIMS, points=POINTS, backbone=backbone, **settings)
    generator = torch.Generator().manual_seed(3)
    return InContextTransformer(config, generator=generator).double()


MODELS: dict[str, Callable[[], AnyModel]] = {
    "stack": lambda: transformer(Stack(layers=3, **SMALL)),
    "two blocks per step": lambda: transformer(Stack(layers=4, layers_per_step=2, **SMALL)),
    "loop": lambda: transformer(Loop(layers=1, loops=3, **SMALL)),
    "rms": lambda: transformer(Loop(layers=2, loops=2, norm="rms", norm_inside=False, **SMALL)),
    "AlgoFormer": lambda: transformer(Loop(pre=1, post=1, loops=3, **SMALL), start_token=True),
    "full relu": lambda: transformer(Stack(layers=2, mask="full", attention="relu", **SMALL)),
    "linear": lambda: transformer(Stack(layers=2, attention="linear", divisor=3.0, **SMALL)),
    "linear looped": lambda: LinearLoopedTransformer(
        LinearLoopedConfig(dims=DIMS, loops=3)
    ).double(),
    "LSTM": lambda: LSTM(LSTMConfig(dims=DIMS, layers=2, width=8)).double(),
}
TRANSFORMERS = [name for name in MODELS if name not in ("LSTM", "linear looped")]


def draw(prompts: int = 6, seed: int = 0) -> Prompt:
    return TASK.sample(prompts, POINTS, generator=torch.Generator().manual_seed(seed))


@pytest.mark.parametrize("name", MODELS)
def test_a_run_with_hooks_that_change_nothing_is_the_run_without(name: str) -> None:
    model, prompt = MODELS[name](), draw()
    seen: list[Place] = []
    with torch.no_grad():
        found = run_edited(model, prompt, lambda place, _: seen.append(place), kinds=EVERYTHING)
        assert torch.equal(found[:, -1], predict(model, prompt)[:, -1])
    listed = [
        tap.place
        for k in range(-1, model.steps + 1)
        for tap in model.components.taps(k, model.steps)
    ]
    assert seen == listed
    assert len(set(seen)) == len(seen)


def test_hooks_are_gone_after_a_run_and_after_an_error() -> None:
    model, prompt = MODELS["loop"](), draw()

    def fail(place: Place, value: Tensor) -> None:
        raise ArithmeticError

    with pytest.raises(ArithmeticError):
        run_edited(model, prompt, fail, kinds=EVERYTHING)
    left = [
        module for module in model.modules() if module._forward_hooks or module._forward_pre_hooks
    ]
    assert left == []


@pytest.mark.parametrize("name", TRANSFORMERS)
def test_heads_take_what_their_pattern_says(name: str) -> None:
    model, prompt = MODELS[name](), draw()
    values: dict[Place, Tensor] = {}
    inner: list[Tensor] = []
    handles = [
        module.register_forward_hook(lambda _, __, output: inner.append(output))
        for label, module in model.named_modules()
        if label.endswith("attention.inward")
    ]
    with torch.no_grad():
        run_edited(
            model, prompt, lambda place, value: values.update({place: value}), kinds=("head",)
        )
        patterns = attention_patterns(model, prompt)
    for handle in handles:
        handle.remove()
    assert len(values) == patterns.values.shape[1]
    for row, taken in enumerate(values.values()):
        looked_at = inner[row].unflatten(-1, (3, 2, -1))[:, :, 2].transpose(1, 2)  # (P, h, T, s)
        expected = (patterns.values[:, row] @ looked_at).transpose(1, 2)  # (P, T, h, s)
        torch.testing.assert_close(taken, expected)


def test_rows_of_softmax_add_up_to_one_and_see_nothing_later() -> None:
    found = attention_patterns(MODELS["loop"](), draw(), at_steps=[0, 2])
    assert found.axes == ("step", "head", "token", "seen")
    assert found.ticks["step"] == ["0", "2"]
    assert found.ticks["seen"] == ["x0", "y0", "x1", "y1", "x2", "y2", "x3"]
    torch.testing.assert_close(found.values.sum(-1), torch.ones(6, 2, 2, 7, dtype=torch.float64))
    assert torch.equal(found.values, found.values.tril())


@pytest.mark.parametrize("name", [name for name in MODELS if name != "linear looped"])
def test_all_that_enters_or_all_that_is_read_restores_the_whole_prediction(name: str) -> None:
    model = MODELS[name]()
    found = patch(model, draw(), draw(seed=1), component="residual", tokens="all")
    assert found.grid.ticks["step"][0] == "input"
    torch.testing.assert_close(found.predictions[:, 0], found.clean)
    torch.testing.assert_close(found.predictions[:, -1], found.clean)
    share = found.restored.values.mean(dim=0)
    assert float(share[0]) == pytest.approx(1.0) == float(share[-1])


def test_a_token_of_a_causal_model_reaches_no_earlier_prediction() -> None:
    model, clean, corrupted = MODELS["stack"](), draw(), draw(seed=1)
    found = patch(model, clean, corrupted, component="residual", prefix=1)
    assert found.grid.ticks["token"] == ["x0", "y0", "x1"]
    torch.testing.assert_close(found.clean, predict(model, clean)[:, 1].detach())


def test_movement_in_both_directions_is_no_share_and_yet_movement() -> None:
    found = patch(MODELS["loop"](), draw(2), draw(2, seed=1), component="mlp", at_steps=[0])
    change = torch.tensor([[1.0], [3.0]])  # (P, k): 5 is the mean square
    astray = torch.tensor([[3.0], [-1.0]])
    made = dataclasses.replace(
        found, corrupted=torch.zeros(2, 1), clean=change, predictions=astray[:, None]
    )
    torch.testing.assert_close(made.restored.values, torch.tensor([[0.6], [-0.6]]).double())
    torch.testing.assert_close(made.moved.values, torch.tensor([[1.8], [0.2]]).double())


def test_tokens_may_go_together() -> None:
    model, clean, corrupted = MODELS["loop"](), draw(), draw(seed=1)
    whole = patch(model, clean, corrupted, component="residual", tokens=[range(7), [1, 3], 6])
    assert whole.grid.ticks["token"] == ["x0..x3", "y0..y1", "x3"]
    everything = patch(model, clean, corrupted, component="residual", tokens="all")
    torch.testing.assert_close(whole.predictions[:, :, 0], everything.predictions)
    # Outputs of the first two examples enter with their own tokens.
    mixed = torch.cat([clean.ys[:, :2], corrupted.ys[:, 2:]], dim=1)
    expected = predict(model, Prompt(xs=corrupted.xs, ys=mixed))[:, -1].detach()
    torch.testing.assert_close(whole.predictions[:, 0, 1], expected)


def test_one_head_is_patched_by_itself() -> None:
    model, clean, corrupted = MODELS["loop"](), draw(), draw(seed=1)
    found = patch(model, clean, corrupted, at_steps=[1], tokens=[6])
    assert found.restored.axes == ("step", "head", "token")
    values: dict[Place, Tensor] = {}

    def keep(place: Place, value: Tensor) -> None:
        values[place] = value

    def put(place: Place, value: Tensor) -> Tensor:
        if place.step != 1:
            return value
        value = value.clone()
        value[:, 6, 1] = values[place][:, 6, 1]
        return value

    with torch.no_grad():
        run_edited(model, clean, keep, kinds=("head",))
        expected = run_edited(model, corrupted, put, kinds=("head",))[:, -1]
    torch.testing.assert_close(found.predictions[:, 0, 1, 0], expected)
    assert not torch.allclose(found.predictions[:, 0, 0, 0], expected)


@pytest.mark.parametrize("name", MODELS)
def test_parts_of_a_batch_give_what_all_of_it_does(name: str) -> None:
    model, clean, corrupted = MODELS[name](), draw(), draw(seed=1)
    component = "residual" if name == "LSTM" else "head"

    def measures() -> list[Tensor]:
        return [
            patch(model, clean, corrupted, component=component).restored.values,
            ablate(model, clean, TASK, component=component).errors.values,
            *([] if name == "LSTM" else [direct_attribution(model, clean).parts["rest"].values]),
        ]

    together = measures()
    with budget(1):
        alone = measures()
    for one, other in zip(together, alone, strict=True):
        torch.testing.assert_close(one, other)


def test_ablation_by_the_mean_keeps_what_all_prompts_share() -> None:
    model, prompt = MODELS["loop"](), draw()
    same = prompt.select(torch.zeros(5, dtype=torch.int64))
    found = ablate(model, same, TASK)
    whole = error(model, same, TASK).values[:, -1]
    torch.testing.assert_close(found.intact.values, whole)
    torch.testing.assert_close(found.errors.values, whole[:, None, None].expand(-1, 3, 2))
    torch.testing.assert_close(found.change.values, torch.zeros_like(found.errors.values))
    assert ablate(model, same, TASK, kind="zero").change.values.abs().min() > 1e-9


def test_without_anything_from_some_step_on() -> None:
    model, prompt = MODELS["stack"](), draw()
    only = ablate(model, prompt, TASK, component="mlp", kind="zero").errors
    onward = ablate(model, prompt, TASK, component="mlp", kind="zero", span="onward").errors
    torch.testing.assert_close(only.values[:, -1], onward.values[:, -1])
    with torch.no_grad():
        silent = run_edited(
            model, prompt, lambda place, value: torch.zeros_like(value), kinds=("mlp",)
        )[:, -1, 0]
    everywhere = ablate(model, prompt, TASK, component="mlp", kind="zero", span="all").errors
    assert everywhere.ticks["step"] == ["all"]
    torch.testing.assert_close(everywhere.values[:, 0], onward.values[:, 0])
    expected = (silent - prompt.ys[:, -1, 0]).square() / TASK.scale_at(POINTS)[-1]
    torch.testing.assert_close(onward.values[:, 0], expected)


@pytest.mark.parametrize("name", [name for name in MODELS if name != "LSTM"])
def test_direct_parts_add_up_to_the_prediction(name: str) -> None:
    model, prompt = MODELS[name](), draw()
    found = direct_attribution(model, prompt)
    total = sum(part.values.reshape(len(part.values), -1).sum(1) for part in found.parts.values())
    torch.testing.assert_close(total, predict(model, prompt)[:, -1, 0].detach())
    torch.testing.assert_close(total, found.predictions)


@pytest.mark.parametrize(
    "backbone",
    [
        Stack(layers=3, **SMALL),
        Loop(layers=1, loops=3, **SMALL),
        Loop(layers=2, loops=2, norm="rms", norm_inside=False, **SMALL),
        Loop(pre=1, post=1, loops=3, **SMALL),
    ],
    ids=lambda backbone: backbone.title,
)
def test_without_positions_and_biases_nothing_is_left(backbone: Stack | Loop) -> None:
    model = transformer(backbone, positions=False)  # all biases of new weights are 0
    found = direct_attribution(model, draw())
    torch.testing.assert_close(
        found.parts["rest"].values, torch.zeros(6, dtype=torch.float64), atol=1e-12, rtol=0
    )


def test_the_direct_part_of_an_mlp_is_its_output_through_norm_and_readout() -> None:
    model, prompt = MODELS["stack"](), draw()
    outputs: dict[Place, Tensor] = {}
    inputs: list[Tensor] = []
    norm, readout = model.get_submodule("backbone.final_norm"), model.get_submodule("readout")
    assert isinstance(norm, nn.LayerNorm)
    assert isinstance(readout, nn.Linear)
    handle = norm.register_forward_hook(lambda _, arguments, __: inputs.append(arguments[0]))
    with torch.no_grad():
        norm.weight.copy_(torch.linspace(0.5, 2.0, 8))
        run_edited(
            model, prompt, lambda place, value: outputs.update({place: value}), kinds=("mlp",)
        )
    handle.remove()
    found = direct_attribution(model, prompt).parts["mlp"]
    deviation = (inputs[0][:, -1].var(dim=-1, correction=0) + norm.eps).sqrt()  # (P,)
    for row, value in enumerate(outputs.values()):
        last = value[:, -1]  # (P, D)
        normed = (last - last.mean(dim=-1, keepdim=True)) / deviation[:, None] * norm.weight
        torch.testing.assert_close(found.values[:, row], (normed @ readout.weight[0]).detach())


def test_blocks_with_fewer_heads_than_others_do_not_count() -> None:
    sizes = [{"heads": heads, "head_size": 4, "hidden": 8} for heads in (1, 2)]
    model = transformer(Stack.model_validate({"layers": 2, "sizes": sizes, **SMALL}))
    expected = [[True, False], [True, True]]
    assert ablate(model, draw(), TASK).errors.mask[0].tolist() == expected
    assert patch(model, draw(), draw(seed=1)).restored.mask[0].tolist() == expected
    assert direct_attribution(model, draw()).parts["head"].mask[0].tolist() == expected
    assert attention_patterns(model, draw()).mask[0, :, :, 0, 0].tolist() == expected
    assert len(ablate(model, draw(), TASK).errors.table()) == 3


def test_readouts_of_every_step_leave_the_components_as_they_are() -> None:
    model, prompt = MODELS["loop"](), draw()
    read = fit_readouts(model, draw(40, seed=2))
    found = patch(read, prompt, draw(seed=1), component="mlp")
    torch.testing.assert_close(found.clean, predict(read, prompt)[:, -1])


class Foreign(nn.Module):
    """A module of somebody else's: blocks return tuples, and heads lie before a projection."""

    def __init__(self) -> None:
        super().__init__()
        self.project = nn.Linear(6, 4)

    def forward(self, tokens: Tensor) -> tuple[Tensor, str]:
        return self.project(tokens), "cache"


def test_the_default_tap_is_the_first_output_of_a_layer() -> None:
    module, tokens = Foreign(), torch.ones(2, 3, 6)
    layer = Tap(place=Place("residual", 0), module=module)
    with layer.hooked(lambda place, value: torch.zeros_like(value)):
        output, rest = module(tokens)
    assert torch.equal(output, torch.zeros(2, 3, 4))
    assert rest == "cache"
    heads = Tap.of_heads(Place("head", 0, heads=3), module.project)
    shapes: list[tuple[int, ...]] = []
    with heads.hooked(lambda place, value: shapes.append(tuple(value.shape))):
        assert torch.equal(module(tokens)[0], module.project(tokens))
    assert shapes[0] == (2, 3, 3, 2)


def test_rows_and_tokens_have_names() -> None:
    model = MODELS["AlgoFormer"]()
    assert row_names(places_of(model, "residual"), 3) == ["input", "pre.0", "0", "1", "2", "read.0"]
    assert token_names(model, draw())[:4] == ["start", "x0", "y0", "x1"]
    twice = MODELS["two blocks per step"]()
    assert row_names(places_of(twice, "mlp"), 2) == ["0.0", "0.1", "1.0", "1.1"]


CALLS: dict[str, tuple[Callable[[AnyModel, Any], Any], type[Exception], str]] = {
    "no model": (lambda m, p: patch(OLS(), p, p), NotSupportedError, "not a model"),
    "no heads": (lambda m, p: ablate(MODELS["LSTM"](), p, TASK), NotSupportedError, "no head"),
    "no pattern": (
        lambda m, p: attention_patterns(MODELS["LSTM"](), p), NotSupportedError, "no attention",
    ),
    "no parts": (
        lambda m, p: direct_attribution(MODELS["LSTM"](), p), NotSupportedError, "Ablate or patch",
    ),
    "component": (lambda m, p: patch(m, p, p, component=WRONG), ConfigurationError, "component"),
    "steps": (lambda m, p: ablate(m, p, TASK, at_steps=[7]), ConfigurationError, "from 0 to 2"),
    "pattern steps": (
        lambda m, p: attention_patterns(m, p, at_steps=[7]), ConfigurationError, "from 0 to 2",
    ),
    "token": (lambda m, p: patch(m, p, p, tokens=[9]), ConfigurationError, "no token 9"),
    "no tokens": (lambda m, p: patch(m, p, p, tokens=[[]]), ConfigurationError, "is empty"),
    "tokens": (lambda m, p: patch(m, p, p, tokens=WRONG), ConfigurationError, "'wrong'"),
    "prefix": (lambda m, p: ablate(m, p, TASK, prefix=4), ConfigurationError, "expected 0 to 3"),
    "kind": (lambda m, p: ablate(m, p, TASK, kind=WRONG), ConfigurationError, "'wrong'"),
    "span": (lambda m, p: ablate(m, p, TASK, span=WRONG), ConfigurationError, "'wrong'"),
    "shape": (lambda m, p: patch(m, draw(3), p), PromptError, "pairs of prompts"),
    "same": (lambda m, p: patch(m, p, p).restored, PromptError, "prompts that differ"),
    "numbers": (lambda m, p: patch(m, p, p, numbers=[0]), ConfigurationError, "residual"),
    "output": (lambda m, p: direct_attribution(m, p, output=1), ConfigurationError, "output is 1"),
    "queries": (
        lambda m, p: patch(m, p.ask(torch.ones(6, 4, 1, 2)), p), PromptError, "queries",
    ),
}  # fmt: skip


@pytest.mark.parametrize("mistake", CALLS)
def test_a_mistake_is_one_sentence(mistake: str) -> None:
    call, kind, text = CALLS[mistake]
    with pytest.raises(kind, match=text):
        call(MODELS["loop"](), draw())


def test_a_norm_whose_scale_cannot_be_frozen_is_refused() -> None:
    class Unknown(OLS):
        @property
        def components(self) -> Components:
            norms = (nn.BatchNorm1d(3),)
            return Components(taps=lambda k, steps: [], norms=norms, complete=True)

    with pytest.raises(NotSupportedError, match="BatchNorm1d cannot be frozen"):
        direct_attribution(Unknown(), draw())
