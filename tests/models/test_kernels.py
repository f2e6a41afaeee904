"""The fused kernels against the steps of the model itself, in value and gradient."""

from collections.abc import Callable

import pytest
import torch
from torch import Tensor

from benchmarks.bench_training import as_ours
from benchmarks.plain_transformer import PlainLoopedTransformer, plain_loss
from innerloop.core.errors import ConfigurationError, NotSupportedError, PromptError
from innerloop.core.prompt import Prompt
from innerloop.core.tolerances import CONTRACT
from innerloop.models import InContextTransformer, Loop, Stack, TransformerConfig
from innerloop.models.block import Block
from innerloop.models.kernels import attention, loop, release_memory, supports, window_outputs
from innerloop.models.kernels.window import WIDEST

Draw = Callable[..., Prompt]

ROUNDING = 1e-12
"""Of float64, through a few blocks and loops and back."""

BACKBONES = {
    "looped": Loop(width=8, heads=2),
    "two layers": Loop(width=8, heads=2, layers=2),
    "tied": Loop(width=8, heads=2, inject="none"),
    "AlgoFormer": Loop(width=8, heads=2, pre=1, post=1),
    "AlgoFormer, tied": Loop(width=8, heads=2, pre=2, post=2, inject="none", norm_inside=False),
    "AlgoFormer, two layers": Loop(width=8, heads=2, pre=1, layers=2),
    "post alone": Loop(width=8, heads=2, post=1),
    "norm outside": Loop(width=8, heads=2, norm_inside=False),
    "no final norm": Loop(width=8, heads=2, final_norm=False),
    "odd sizes": Loop(width=7, heads=3, head_size=5, hidden=11, score_scale=0.3),
    "stack": Stack(width=8, heads=2, layers=3),
    "stack of one": Stack(width=8, heads=4, layers=1, final_norm=False),
    "stack, pre and post": Stack(width=8, heads=2, pre=1, layers=2, post=1),
}


def build(
    backbone: Loop | Stack,
    settings: dict[str, object] | None = None,
    *,
    dtype: torch.dtype = torch.float64,
) -> InContextTransformer:
    """A small model in which no parameter is 0 or 1; settings are those of its embedding."""
    config = TransformerConfig.model_validate(
        {"dims": 2, "points": 8, "backbone": backbone, **(settings or {})}
    )
    generator = torch.Generator().manual_seed(7)
    model = InContextTransformer(config, generator=generator).to(dtype)
    with torch.no_grad():
        for parameter in model.parameters():
            noise = torch.randn(parameter.shape, generator=generator, dtype=torch.float64)
            parameter += 0.2 * noise.to(dtype)
    return model


def by_steps(model: InContextTransformer, prompt: Prompt, *, loops: int, window: int) -> Tensor:
    """What the kernels must give, by the steps of the model: (W, B, n, k)."""
    state = model.init(prompt)
    if not model.looped:
        for k in range(model.steps):
            state = model.step(prompt, state, k)
        return model.outputs(prompt, state)[None]
    outputs: list[Tensor] = []
    for k in range(loops):
        counted = k >= loops - window
        with torch.set_grad_enabled(counted):
            state = model.step(prompt, state, k)
        if counted:
            outputs.append(model.outputs(prompt, state))
    return torch.stack(outputs)


def weighted(outputs: Tensor) -> Tensor:
    """A loss whose gradient differs from output to output."""
    weights = torch.arange(1.0, outputs.numel() + 1).to(outputs).sin().view(outputs.shape)
    return (weights * outputs).sum() + outputs.square().mean()


def gradients(model: InContextTransformer, outputs: Tensor) -> dict[str, Tensor]:
    """Of all parameters that the outputs depend on, by name."""
    model.zero_grad()
    weighted(outputs).backward()
    return {
        name: parameter.grad.clone()
        for name, parameter in model.named_parameters()
        if parameter.grad is not None
    }


def assert_same(
    model: InContextTransformer, prompt: Prompt, *, loops: int, window: int, tolerance: float
) -> None:
    """Outputs and all gradients, relative to the largest number of each."""
    expected = by_steps(model, prompt, loops=loops, window=window)
    actual = window_outputs(model, prompt, loops=loops, window=window)
    assert actual.shape == expected.shape
    pairs = {"outputs": (actual.detach(), expected.detach())}
    expected_gradients, actual_gradients = gradients(model, expected), gradients(model, actual)
    assert actual_gradients.keys() == expected_gradients.keys()
    # Keys' biases move all scores of a query alike: their gradient is 0 but for rounding.
    scale = max(float(gradient.abs().max()) for gradient in expected_gradients.values())
    for name, gradient in expected_gradients.items():
        pairs[name] = (actual_gradients[name], gradient)
    for name, (ours, theirs) in pairs.items():
        size = max(float(theirs.abs().max()), 1e-3 * scale)
        assert float((ours - theirs).abs().max()) <= tolerance * size, name


@pytest.mark.parametrize("name", BACKBONES)
def test_equals_the_steps(name: str, random_prompt: Draw) -> None:
    model = build(BACKBONES[name])
    prompt = random_prompt(points=7)
    assert supports(model, prompt)
    assert_same(model, prompt, loops=5, window=3, tolerance=ROUNDING)


@pytest.mark.parametrize("name", ["looped", "tied", "AlgoFormer", "AlgoFormer, tied"])
@pytest.mark.parametrize("window", [1, 2, 3, 4])
def test_every_window(name: str, window: int, random_prompt: Draw) -> None:
    assert_same(build(BACKBONES[name]), random_prompt(), loops=4, window=window, tolerance=ROUNDING)


@pytest.mark.parametrize("name", BACKBONES)
def test_float32(name: str, random_prompt: Draw) -> None:
    model = build(BACKBONES[name], dtype=torch.float32)
    prompt = random_prompt(points=7, dtype=torch.float32)
    assert_same(model, prompt, loops=4, window=2, tolerance=CONTRACT[torch.float32])


@pytest.mark.parametrize("name", ["looped", "AlgoFormer, two layers", "stack"])
@pytest.mark.parametrize("tile", [1, 3, 48])
@pytest.mark.parametrize("chunk", [1, 300])
def test_tiles_and_chunks_change_nothing(
    name: str, tile: int, chunk: int, random_prompt: Draw, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(attention, "_TILE", tile)
    monkeypatch.setattr(loop, "_CHUNK", chunk)
    release_memory()
    model = build(BACKBONES[name])
    assert_same(model, random_prompt(batch=5), loops=3, window=2, tolerance=ROUNDING)
    release_memory()


def test_a_prompt_of_several_tiles(random_prompt: Draw) -> None:
    model = build(Loop(width=8, heads=2), {"points": 60})
    assert_same(model, random_prompt(points=57), loops=3, window=2, tolerance=ROUNDING)


@pytest.mark.parametrize(
    "settings",
    [
        {"start_token": True},
        {"positions": False},
        {"outputs": 3, "output_place": "own"},
        {"layout": "stream", "outputs": 2},
        {"layout": "stream", "outputs": 2, "start_token": True, "head": "classes"},
    ],
    ids=str,
)
def test_every_embedding(settings: dict[str, object], random_prompt: Draw) -> None:
    model = build(Loop(width=8, heads=2), settings)
    prompt = random_prompt(outputs=model.config.outputs, layout=model.config.layout)
    assert_same(model, prompt, loops=4, window=3, tolerance=ROUNDING)


def test_one_point(random_prompt: Draw) -> None:
    model = build(BACKBONES["AlgoFormer"])
    assert_same(model, random_prompt(batch=1, points=1), loops=2, window=2, tolerance=ROUNDING)


def test_two_computations_before_their_gradients(random_prompt: Draw) -> None:
    model = build(BACKBONES["AlgoFormer"])
    prompts = [random_prompt(), random_prompt()]
    alone = [
        gradients(model, window_outputs(model, prompt, loops=4, window=2)) for prompt in prompts
    ]
    both = [window_outputs(model, prompt, loops=4, window=2) for prompt in prompts]
    for expected, outputs in zip(alone, both, strict=True):
        actual = gradients(model, outputs)
        assert all(torch.equal(actual[name], expected[name]) for name in expected)


def test_memory_that_is_used_again_remembers_nothing(random_prompt: Draw) -> None:
    model, prompt = build(BACKBONES["looped"]), random_prompt()
    release_memory()
    first = gradients(model, window_outputs(model, prompt, loops=4, window=2))
    broken = Prompt(xs=prompt.xs.clone(), ys=prompt.ys)
    broken.xs.fill_(torch.nan)  # no prompt is made of NaN
    spoilt = gradients(model, window_outputs(model, broken, loops=4, window=2))
    assert all(bool(gradient.isnan().any()) for gradient in spoilt.values())
    again = gradients(model, window_outputs(model, prompt, loops=4, window=2))
    assert all(torch.equal(again[name], first[name]) for name in first)


def test_models_of_one_size_may_take_turns(random_prompt: Draw) -> None:
    prompt = random_prompt()
    for name in ("looped", "no final norm", "AlgoFormer", "tied", "looped"):
        assert_same(build(BACKBONES[name]), prompt, loops=4, window=2, tolerance=ROUNDING)


def test_a_computation_that_is_dropped_harms_nobody(random_prompt: Draw) -> None:
    model, prompt = build(BACKBONES["looped"]), random_prompt()
    window_outputs(model, random_prompt(), loops=4, window=2)
    assert_same(model, prompt, loops=4, window=2, tolerance=ROUNDING)


def test_gradients_are_taken_once(random_prompt: Draw) -> None:
    outputs = window_outputs(build(BACKBONES["looped"]), random_prompt(), loops=4, window=2)
    outputs.sum().backward(retain_graph=True)
    with pytest.raises(NotSupportedError, match="backward once"):
        outputs.sum().backward()


@pytest.mark.parametrize("name", ["looped", "AlgoFormer", "stack"])
def test_without_gradient(name: str, random_prompt: Draw) -> None:
    model, prompt = build(BACKBONES[name]), random_prompt()
    expected = window_outputs(model, prompt, loops=4, window=3)
    with torch.no_grad():
        actual = window_outputs(model, prompt, loops=4, window=3)
    assert not actual.requires_grad
    torch.testing.assert_close(actual, expected.detach(), rtol=0, atol=0)


def test_frozen_parameters_get_no_gradient(random_prompt: Draw) -> None:
    model = build(BACKBONES["looped"])
    frozen = {"backbone.blocks.0.mlp.up.weight", "embedding.inward.weight"}
    for name, parameter in model.named_parameters():
        parameter.requires_grad_(name not in frozen)
    trained = gradients(model, window_outputs(model, random_prompt(), loops=3, window=2))
    assert set(trained) == {name for name, _ in model.named_parameters()} - frozen
    assert_same(model, random_prompt(), loops=3, window=2, tolerance=ROUNDING)


def test_equals_the_plain_transcription() -> None:
    generator = torch.Generator().manual_seed(3)
    xs = torch.randn(4, 6, 3, generator=generator, dtype=torch.float64)  # (B, n, d)
    ys = torch.randn(4, 6, generator=generator, dtype=torch.float64)  # (B, n)
    plain = PlainLoopedTransformer(dims=3, points=6, width=8, heads=2, generator=generator).double()
    ours = as_ours(plain)
    prompt = Prompt(xs=xs, ys=ys[..., None])
    loss = (window_outputs(ours, prompt, loops=5, window=3) - prompt.ys).square().mean()
    expected = plain_loss(plain, xs, ys, loops=5, window=3)
    torch.testing.assert_close(loss, expected, rtol=ROUNDING, atol=0)
    loss.backward()
    expected.backward()
    actual = ours.embedding.inward.weight.grad
    torch.testing.assert_close(actual, plain.embedding.weight.grad, rtol=ROUNDING, atol=ROUNDING)


@pytest.mark.parametrize(
    "backbone",
    [
        Loop(width=8, heads=2, norm="rms"),
        Loop(width=8, heads=2, norm="mlp-only"),
        Loop(width=8, heads=2, attention="relu"),
        Loop(width=8, heads=2, hidden=0),
        Loop(width=8, heads=2, inject="multiply"),
        Loop(width=8, heads=2, activation="gelu-tanh"),
        Loop(width=8, heads=2, activation="relu"),
        Loop(width=8, heads=2, biases=False),
        Stack(width=8, heads=2, mask="full"),
    ],
    ids=str,
)
def test_what_is_not_supported_is_refused(backbone: Loop | Stack, random_prompt: Draw) -> None:
    model, prompt = build(backbone), random_prompt()
    assert not supports(model, prompt)
    with pytest.raises(NotSupportedError, match="no fused kernels"):
        window_outputs(model, prompt, loops=2, window=1)


def test_queries_and_other_types_are_not_supported(random_prompt: Draw) -> None:
    model = build(BACKBONES["looped"])
    assert not supports(model, random_prompt(queries=2))
    assert supports(model, random_prompt(dtype=torch.float32))
    with torch.autocast("cpu", dtype=torch.bfloat16):
        assert not supports(model, random_prompt())  # of float64
        assert supports(model.to(torch.float32), random_prompt())
    with torch.autocast("cpu", dtype=torch.float16):
        assert not supports(model, random_prompt())
    assert not supports(model.to(torch.bfloat16), random_prompt())


def _with_types(
    model: InContextTransformer, prompt: Prompt, outputs: Callable[..., Tensor], *, low: bool
) -> Tensor:
    """Outputs and gradients of a few loops as one vector, by products in bfloat16 or not."""
    with torch.autocast("cpu", dtype=torch.bfloat16, enabled=low):
        result = outputs(model, prompt, loops=4, window=3).to(model.dtype)
    parts = [result.detach(), *gradients(model, result).values()]
    return torch.cat([(part / part.norm()).flatten() for part in parts]).double()


@pytest.mark.parametrize("name", BACKBONES)
def test_bfloat16_is_as_exact_as_autocast(name: str, random_prompt: Draw) -> None:
    model = build(BACKBONES[name], dtype=torch.float32)
    # Their gradient is 0 but for rounding, here and everywhere.
    for block in model.modules():
        if isinstance(block, Block):
            block.attention.inward.bias.requires_grad_(False)
    prompt = random_prompt(batch=8, points=7, dtype=torch.float32)
    exact = _with_types(model, prompt, by_steps, low=False)
    kernels = _with_types(model, prompt, window_outputs, low=True)
    own_steps = _with_types(model, prompt, by_steps, low=True)
    error, expected = (float((each - exact).norm()) for each in (kernels, own_steps))
    # Rounded, and by products alone: 0.5 to 2 times as far off as autocast, by chance.
    assert 1e-3 < error < 3 * expected


def test_bfloat16_has_kernels_at_every_width(random_prompt: Draw) -> None:
    model = build(Loop(width=WIDEST + 2, heads=2), dtype=torch.float32)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        assert supports(model, random_prompt())
    assert not supports(model, random_prompt())


@pytest.mark.parametrize(("loops", "window"), [(2, 3), (2, 0), (0, 0)])
def test_a_window_that_is_none(loops: int, window: int, random_prompt: Draw) -> None:
    with pytest.raises(ConfigurationError, match="window"):
        window_outputs(build(BACKBONES["looped"]), random_prompt(), loops=loops, window=window)


def test_more_points_than_positions(random_prompt: Draw) -> None:
    with pytest.raises(PromptError, match="positions for 15"):
        window_outputs(build(BACKBONES["looped"]), random_prompt(points=9), loops=2, window=1)


@pytest.mark.parametrize("bound", ["largest_input", "largest_output"])
def test_prompts_beyond_the_bounds_of_the_model(bound: str, random_prompt: Draw) -> None:
    model = build(BACKBONES["looped"], {bound: 1e-3})
    with pytest.raises(PromptError, match="the model was made for at most"):
        window_outputs(model, random_prompt(), loops=2, window=1)


def test_wide_models_take_the_steps_of_the_model(random_prompt: Draw) -> None:
    widths = {WIDEST: True, WIDEST + 2: False}
    for width, expected in widths.items():
        model = build(Loop(width=width, heads=2))
        assert supports(model, random_prompt()) is expected
        assert_same(model, random_prompt(), loops=2, window=2, tolerance=ROUNDING)
