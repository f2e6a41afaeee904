"""The loss over the last loops, against transcriptions."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
import torch
from torch import Tensor

from innerloop.core.prompt import Prompt
from innerloop.models.backbone import Backbone
from innerloop.models.hidden import Hidden
from innerloop.models.model import AnyModel, Head
from innerloop.models.table import build
from innerloop.models.transformer import InContextTransformer
from innerloop.training.window import (
    BALANCE_FLOOR,
    position_losses,
    window_loss,
    window_outputs,
)
from tests.training.configs import LOOP, STACK, stack, tiny

LOOPS = {
    "plain": {},
    "two blocks": {"layers": 2},
    "pre and post": {"pre": 1, "post": 1},
    "multiply": {"inject": "multiply"},
    "norm after": {"norm_inside": False},
    "no kernels": {"activation": "relu"},
}


def make(generator: torch.Generator, **changes: Any) -> InContextTransformer:
    config = tiny(model={"backbone": {**LOOP, **changes}}, window=None)
    model = build(config.model, generator=generator).double()
    assert isinstance(model, InContextTransformer)
    return model


def gradients(model: AnyModel, loss: Tensor) -> dict[str, Tensor]:
    model.zero_grad()
    loss.backward()
    return {
        name: parameter.grad.clone()
        for name, parameter in model.named_parameters()
        if parameter.grad is not None
    }


def unrolled(model: InContextTransformer, prompt: Prompt, loops: int, window: int) -> Tensor:
    """All loops with gradient, the state detached by hand where the window begins: (T, B, n, k)."""
    backbone: Backbone = model.backbone
    visible = model.embedding.visible(prompt)
    state = backbone.begin(model.embedding(prompt), visible)
    outputs = []
    for loop in range(loops):
        if loop == loops - window and loop > 0:
            cut = Hidden(state.now.tokens.detach())
            state = replace(state, now=cut)
        state = backbone.step(state, loop, visible)
        if loop >= loops - window:
            hidden = backbone.end(state, visible)
            outputs.append(model.readout(model.embedding.inputs(hidden.tokens)))
    return torch.stack(outputs)


@pytest.mark.parametrize("use_kernels", [False, True])
@pytest.mark.parametrize("kind", LOOPS)
@pytest.mark.parametrize(("loops", "window"), [(4, 2), (3, 3), (5, 1)])
def test_outputs_and_gradients_are_those_of_unrolling(
    generator: torch.Generator,
    random_prompt: Callable[..., Prompt],
    kind: str,
    loops: int,
    window: int,
    use_kernels: bool,
) -> None:
    model, prompt = make(generator, **LOOPS[kind]), random_prompt(points=5)
    weight = torch.randn(window, 3, 5, 1, generator=generator, dtype=torch.float64)  # (T, B, n, k)
    expected = unrolled(model, prompt, loops, window)  # (T, B, n, k)
    found = window_outputs(model, prompt, loops=loops, window=window, use_kernels=use_kernels)
    assert torch.allclose(found, expected, atol=1e-10)
    wanted = gradients(model, (weight * expected).sum())
    given = gradients(model, (weight * found).sum())
    assert given.keys() == wanted.keys()
    for name, gradient in wanted.items():
        assert torch.allclose(given[name], gradient, atol=1e-9), name


def test_the_embedding_learns_through_what_is_injected(
    generator: torch.Generator, random_prompt: Callable[..., Prompt]
) -> None:
    model = make(generator)
    outputs = window_outputs(model, random_prompt(points=5), loops=9, window=1, use_kernels=False)
    found = gradients(model, outputs.sum())
    assert float(found["embedding.inward.weight"].abs().sum()) > 0


def test_loops_before_the_window_have_no_graph(
    generator: torch.Generator, random_prompt: Callable[..., Prompt]
) -> None:
    model = make(generator)
    seen: list[bool] = []
    model.backbone.blocks[0].register_forward_hook(
        lambda module, inputs, output: seen.append(output.tokens.requires_grad)
    )
    window_outputs(model, random_prompt(points=5), loops=5, window=2, use_kernels=False)
    assert seen == [False, False, False, True, True]


def test_nothing_has_a_graph_where_gradients_are_off(
    generator: torch.Generator, random_prompt: Callable[..., Prompt]
) -> None:
    with torch.no_grad():
        for use_kernels in (True, False):
            outputs = window_outputs(
                make(generator), random_prompt(points=5), loops=3, window=2, use_kernels=use_kernels
            )
            assert not outputs.requires_grad


@pytest.mark.parametrize("use_kernels", [False, True])
@pytest.mark.parametrize(
    "model", [{"backbone": STACK}, {"kind": "lstm", "width": 8, "layers": 2}], ids=["stack", "lstm"]
)
def test_a_model_that_does_not_loop_gives_its_last_step(
    generator: torch.Generator,
    random_prompt: Callable[..., Prompt],
    model: dict[str, Any],
    use_kernels: bool,
) -> None:
    learner = build(stack(model=model).model, generator=generator).double()
    prompt = random_prompt(points=5)
    found = window_outputs(learner, prompt, use_kernels=use_kernels)  # (1, B, n, k)
    state = learner.init(prompt)
    for k in range(learner.steps):
        state = learner.step(prompt, state, k)
    assert torch.allclose(found, learner.outputs(prompt, state)[None], atol=1e-10)
    names = {name for name, _ in learner.named_parameters()}
    assert set(gradients(learner, found.square().sum())) == names


def slow_loss(outputs: Tensor, prompt: Prompt, scale: Tensor, head: Head) -> float:
    """One window, prompt, position and output after the other."""
    total, count = 0.0, 0
    for losses in outputs:
        for b in range(prompt.batch):
            for i in range(prompt.points):
                if prompt.scored is not None and not prompt.scored[b, i]:
                    continue
                z, y = losses[b, i], prompt.ys[b, i]  # (k,) each
                if head == "classes":
                    total += -float((z[int(y.argmax())].exp() / z.exp().sum()).log())
                elif head == "binary":
                    total += float((1 + (-y[0] * z[0]).exp()).log())
                else:
                    squares = [float((z[k] - y[k]) ** 2) for k in range(len(z))]
                    total += sum(squares) / len(squares) / float(scale[i])
                count += 1
    return total / count


def labelled(prompt: Prompt, head: Head, scored: Tensor | None) -> Prompt:
    ys = prompt.ys  # (B, n, k)
    if head == "binary":
        ys = torch.where(ys >= 0, 1.0, -1.0).to(ys)
    if head == "classes":
        ys = torch.nn.functional.one_hot(ys.argmax(dim=-1), ys.shape[-1]).to(ys)
    return Prompt(xs=prompt.xs, ys=ys, scored=scored)


@pytest.mark.parametrize("masked", [False, True])
@pytest.mark.parametrize(("head", "outputs"), [("regression", 3), ("binary", 1), ("classes", 3)])
def test_the_loss_is_that_of_a_slow_transcription(
    generator: torch.Generator,
    random_prompt: Callable[..., Prompt],
    head: Head,
    outputs: int,
    masked: bool,
) -> None:
    scored = torch.rand(3, 6, generator=generator) < 0.5 if masked else None  # (B, n)
    prompt = labelled(random_prompt(outputs=outputs), head, scored)
    values = torch.randn(2, 3, 6, outputs, generator=generator, dtype=torch.float64)  # (T, B, n, k)
    scale = torch.rand(6, generator=generator, dtype=torch.float64) + 0.5  # (n,)
    found = float(window_loss(values, prompt, scale, head))
    assert found == pytest.approx(slow_loss(values, prompt, scale, head), rel=1e-10)


@pytest.mark.parametrize("masked", [False, True])
def test_balanced_losses_are_the_same_number_with_the_gradient_of_logarithms(
    generator: torch.Generator, random_prompt: Callable[..., Prompt], masked: bool
) -> None:
    scored = torch.ones(3, 6, dtype=torch.bool)  # (B, n)
    if masked:
        scored[:, 2] = False
    prompt = labelled(random_prompt(), "regression", scored if masked else None)
    noise = torch.randn(2, 3, 6, 1, generator=generator, dtype=torch.float64)  # (T, B, n, k)
    outputs = (prompt.ys + torch.logspace(0, -2, 6)[:, None] * noise).requires_grad_()
    scale = torch.ones(6, dtype=torch.float64)
    balanced = window_loss(outputs, prompt, scale, "regression", balance=True)
    plain = window_loss(outputs, prompt, scale, "regression")
    assert balanced.item() == pytest.approx(plain.item(), rel=1e-12)
    (found,) = torch.autograd.grad(balanced, outputs)  # (T, B, n, k)
    errors = (outputs - prompt.ys).square().mean(dim=(1, 3))[:, scored[0]]  # (T, n)
    assert float(errors.detach().min()) > BALANCE_FLOOR
    (expected,) = torch.autograd.grad(errors.log().mean(), outputs)
    assert torch.allclose(found, expected, atol=1e-12)


def test_balanced_losses_that_are_all_zero(random_prompt: Callable[..., Prompt]) -> None:
    prompt = random_prompt()
    outputs = prompt.ys[None].clone().requires_grad_()  # (1, B, n, k)
    scale = torch.ones(6, dtype=torch.float64)
    loss = window_loss(outputs, prompt, scale, "regression", balance=True)
    loss.backward()
    assert loss.item() == 0.0
    assert outputs.grad is not None
    assert not outputs.grad.any()


def test_what_is_not_scored_has_no_gradient(
    generator: torch.Generator, random_prompt: Callable[..., Prompt]
) -> None:
    scored = torch.rand(3, 6, generator=generator) < 0.5  # (B, n)
    prompt = labelled(random_prompt(), "regression", scored)
    outputs = torch.zeros(2, 3, 6, 1, dtype=torch.float64, requires_grad=True)
    window_loss(outputs, prompt, torch.ones(6), "regression").backward()
    assert outputs.grad is not None
    assert torch.equal((outputs.grad[..., 0] != 0).all(dim=0), scored)


def test_large_logits_give_finite_losses(random_prompt: Callable[..., Prompt]) -> None:
    prompt = labelled(random_prompt(), "binary", None)
    outputs = torch.full((1, 3, 6, 1), 1e4, dtype=torch.float64)
    assert bool(position_losses(outputs, prompt, torch.ones(6), "binary").isfinite().all())
