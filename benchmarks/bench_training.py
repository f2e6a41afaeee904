"""Training steps of a looped transformer against eager torch, with 1 and 2 threads.

Beside each ratio stands the share of the machine's rate of float32 matrix products that each side
reaches, measured in the same run, counting the products that the side itself computes. Then the
fused kernels against the steps of the model itself: what `WIDEST` of the kernels rests on; and, on
processors that multiply in bfloat16, the papers' size in that type.
"""

import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial

import torch
from threadpoolctl import threadpool_limits
from torch import Tensor

from benchmarks.plain_transformer import PlainLoopedTransformer, plain_loss
from benchmarks.timing import Row
from innerloop.cli.bench import multiplication_rate
from innerloop.core.prompt import Prompt
from innerloop.models import kernels
from innerloop.models.backbone import Loop
from innerloop.models.transformer import InContextTransformer, TransformerConfig
from innerloop.tasks.linear import LinearRegression
from innerloop.training.window import window_outputs

BATCH, LOOPS, WINDOW = 64, 20, 15


@dataclass(frozen=True, slots=True, kw_only=True)
class Size:
    """One size of the benchmark."""

    dims: int
    points: int
    width: int
    heads: int
    target: float
    repeats: int


SMALL = Size(dims=5, points=11, width=64, heads=4, target=1.3, repeats=15)
PAPER = Size(dims=20, points=41, width=256, heads=8, target=1.15, repeats=3)


def run() -> list[Row]:
    """Both sizes, each with one thread and with two; and the kernels where they are used."""
    rows = [_compare(size, threads) for size in (SMALL, PAPER) for threads in (1, 2)]
    rows.append(kernel_row(SMALL))
    cpu = torch.device("cpu")
    if multiplication_rate(cpu, dtype=torch.bfloat16) > 1.5 * multiplication_rate(cpu):
        rows.append(_compare(replace(PAPER, target=1.5), 1, low=True))
    return rows


def kernel_row(size: Size) -> Row:
    """The kernels, wherever they are used by default, against the model's own steps: one thread.

    By the smallest of alternating times of the processor, which other programs disturb least.
    """
    backbone = Loop(width=size.width, heads=size.heads)
    config = TransformerConfig(dims=size.dims, points=size.points, backbone=backbone)
    model, generator = InContextTransformer(config), torch.Generator().manual_seed(0)
    prompt = LinearRegression(dims=size.dims).sample(BATCH, size.points, generator=generator)

    def fused() -> Tensor:
        return kernels.window_outputs(model, prompt, loops=LOOPS, window=WINDOW)

    def plain() -> Tensor:
        return window_outputs(model, prompt, loops=LOOPS, window=WINDOW, use_kernels=False)

    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        pairs = [(_cost(fused), _cost(plain)) for _ in range(1 + size.repeats)][1:]
    finally:
        torch.set_num_threads(before)
        kernels.release_memory()
    ours, theirs = (min(each) for each in zip(*pairs, strict=True))
    name = f"fused kernels, D {size.width}, {size.points} points, against the steps of the model"
    return Row(name=name, ours=ours, plain=theirs, target=1.1)


def _cost(outputs: Callable[[], Tensor]) -> float:
    """Seconds of the processor for outputs (W, B, n, k) and their gradients."""
    start = time.process_time()
    outputs().square().mean().backward()
    return time.process_time() - start


def as_ours(plain: PlainLoopedTransformer) -> InContextTransformer:
    """The model of the library with the same weights; it has no place for the last y."""
    width, places = plain.readout.in_features, plain.positions.num_embeddings
    backbone = Loop(width=width, heads=plain.block.heads)
    config = TransformerConfig(
        dims=plain.embedding.in_features, points=places // 2, backbone=backbone
    )
    model = InContextTransformer(config).to(plain.readout.weight.dtype)
    block, inner = model.backbone.blocks[0], plain.block
    pairs = [
        (model.embedding.inward, plain.embedding),
        (block.get_submodule("attention_norm"), inner.attention_norm),
        (block.get_submodule("attention.inward"), inner.inward),
        (block.get_submodule("attention.outward"), inner.outward),
        (block.get_submodule("mlp_norm"), inner.mlp_norm),
        (block.get_submodule("mlp.up"), inner.up),
        (block.get_submodule("mlp.down"), inner.down),
        (model.backbone.loop_norm, plain.final_norm),
        (model.readout, plain.readout),
    ]
    for ours, theirs in pairs:
        ours.load_state_dict(theirs.state_dict())
    assert model.backbone.positions is not None
    with torch.no_grad():
        model.backbone.positions.copy_(plain.positions.weight[: places - 1])
    return model


def _compare(size: Size, threads: int, *, low: bool = False) -> Row:
    """Time both alternately, after a check that they have the same loss and the same gradient.

    With `low` our products are in bfloat16, and are compared with rates in that type.
    """
    dtype = torch.bfloat16 if low else torch.float32
    generator = torch.Generator().manual_seed(0)
    plain = PlainLoopedTransformer(
        dims=size.dims,
        points=size.points,
        width=size.width,
        heads=size.heads,
        generator=generator,
    )
    model = as_ours(plain)
    task = LinearRegression(dims=size.dims)
    prompt = task.sample(BATCH, size.points, generator=generator)
    before = torch.get_num_threads()
    torch.set_num_threads(threads)
    try:
        with threadpool_limits(limits=threads):
            step = partial(_step, model, prompt, low=low)
            losses = (_step(model, prompt), _plain_step(plain, prompt))
            _check(model, plain, *losses)
            pairs = [
                (
                    _seconds(step),
                    _seconds(lambda: _plain_step(plain, prompt)),
                )
                for _ in range(size.repeats)
            ]
            rate = multiplication_rate(torch.device("cpu"))
            own_rate = multiplication_rate(torch.device("cpu"), dtype=dtype)
    finally:
        torch.set_num_threads(before)
        kernels.release_memory()
    ours = statistics.median(pair[0] for pair in pairs)
    theirs = statistics.median(pair[1] for pair in pairs)
    shares = (_our_products(size) / ours / own_rate, _plain_products(size) / theirs / rate)
    name = (
        f"looped training step, D {size.width}, {size.points} points, d {size.dims}, batch {BATCH}"
        f", b {LOOPS}, T {WINDOW}, {threads} thread{'s' if threads > 1 else ''} "
        f"({shares[0]:.0%} of {own_rate / 1e9:.0f} and {shares[1]:.0%} of {rate / 1e9:.0f} GFLOP/s)"
        f"{', ours in bfloat16' if low else ''}"
    )
    return Row(name=name, ours=ours, plain=theirs, target=size.target)


def _step(model: InContextTransformer, prompt: Prompt, *, low: bool = False) -> float:
    model.zero_grad()
    with torch.autocast("cpu", dtype=torch.bfloat16, enabled=low):
        outputs = window_outputs(model, prompt, loops=LOOPS, window=WINDOW)  # (W, B, n, 1)
    loss = (outputs - prompt.ys).square().mean()
    loss.backward()
    return loss.item()


def _plain_step(model: PlainLoopedTransformer, prompt: Prompt) -> float:
    model.zero_grad()
    loss = plain_loss(model, prompt.xs, prompt.ys[..., 0], loops=LOOPS, window=WINDOW)
    loss.backward()
    return loss.item()


def _check(
    model: InContextTransformer, plain: PlainLoopedTransformer, ours: float, theirs: float
) -> None:
    assert abs(ours - theirs) <= 1e-4 * theirs, "the losses differ"
    up = model.backbone.blocks[0].get_submodule("mlp.up").get_parameter("weight").grad
    assert up is not None
    torch.testing.assert_close(up, plain.block.up.weight.grad, rtol=1e-2, atol=1e-5)


def _products(size: Size, tokens: int) -> float:
    """Operations of one loop's matrix products, forward, with all scores of the attention."""
    return BATCH * tokens * (24 * size.width**2 + 4 * tokens * size.width)


def _plain_products(size: Size) -> float:
    """The way back takes twice as many as the way there."""
    return (LOOPS + 2 * WINDOW) * _products(size, 2 * size.points)


def _our_products(size: Size) -> float:
    """Without the last y, and at the end without the y tokens behind the attention."""
    left_out = BATCH * (size.points - 1) * 18 * size.width**2
    return (LOOPS + 2 * WINDOW) * _products(size, 2 * size.points - 1) - 3 * left_out


def _seconds(function: Callable[[], object]) -> float:
    start = time.perf_counter()
    function()
    return time.perf_counter() - start
