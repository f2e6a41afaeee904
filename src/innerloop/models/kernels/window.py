"""Training steps of transformers on a CPU: the outputs of a window of loops, by fused kernels.

Blocks and loops run in `FusedLoop`; the embedding, the readout, the injection and the folding of
norms into weights are left to autograd and to the model itself, since they happen once per step.

Shapes: B prompts, T tokens, n points, D width, W loops in the window, k outputs.
"""

from collections.abc import Iterable
from typing import TypeGuard

import torch
from torch import Tensor, nn

from innerloop.core.errors import ConfigurationError, NotSupportedError
from innerloop.core.prompt import Prompt
from innerloop.models.block import Block
from innerloop.models.hidden import Hidden, Visible
from innerloop.models.kernels.block import fold
from innerloop.models.kernels.loop import FusedLoop, LoopPlan
from innerloop.models.kernels.memory import Sizes
from innerloop.models.model import AnyModel
from innerloop.models.transformer import InContextTransformer

WIDEST = 96
"""The widest residual stream that the kernels are used for.

They save traffic to memory, which grows with the width D, and no matrix products, which grow with
D^2: so their gain falls with the width. See docs/benchmarks.md for what was measured.
"""
_EVERY = (0, 1)
"""All tokens: from token 0 on each."""


def supports(model: AnyModel, prompt: Prompt) -> TypeGuard[InContextTransformer]:
    """Whether `window_outputs` can replace this model's steps on this prompt, and is quicker."""
    return _computes(model, prompt) and model.config.backbone.width <= WIDEST


def _computes(model: AnyModel, prompt: Prompt) -> TypeGuard[InContextTransformer]:
    """Whether there are kernels: for what is trained at small sizes, and nothing else."""
    if not isinstance(model, InContextTransformer):
        return False
    shape = model.config.backbone
    return (
        (shape.attention, shape.mask, shape.norm) == ("softmax", "causal", "pre")
        and (shape.activation, shape.biases, shape.sizes) == ("gelu", True, None)
        and shape.hidden_units > 0
        and shape.inject != "multiply"
        and prompt.queries is None
        and model.dtype in (torch.float32, torch.float64)
        and model.readout.weight.device.type == prompt.xs.device.type == "cpu"
        and not torch.is_autocast_enabled("cpu")
    )


def window_outputs(
    model: InContextTransformer, prompt: Prompt, *, loops: int, window: int
) -> Tensor:
    """The model's outputs (W, B, n, k) after each of the last `window` loops.

    Earlier loops have no gradient: the state is detached before the window, what is injected is
    not. A stack is read once, after its last block: (1, B, n, k), whatever `loops` and `window`.
    The gradient can be taken once.
    """
    if not _computes(model, prompt):
        raise NotSupportedError(
            f"{model.name} has no fused kernels for this prompt: ask `supports` first, and take "
            "the steps of `iterate` instead."
        )
    if not 1 <= window <= loops:
        raise ConfigurationError(
            f"a window of {window} in {loops} loops: expected at least 1 and at most all of them."
        )
    if not model.looped:
        loops = window = 1
    embedding, backbone = model.embedding, model.backbone
    state = backbone.begin(model.embed(prompt), embedding.visible, run=_run_pre)
    start = state.now.tokens  # (B, T, D)
    read = (embedding.first, embedding.stride)
    states = _run(
        "loop",
        backbone.blocks,
        start if window == loops else start.detach(),
        _EVERY if len(backbone.post) else read,
        term=state.term,
        norm=backbone.loop_norm,
        loops=loops,
        window=window,
    )  # (W, B, T or n, D)
    if len(backbone.post):
        ended = _run("post", backbone.post, states.flatten(0, 1), read)[0]  # (W B, n, D)
        states = ended.unflatten(0, states.shape[:2])
    return model.readout(backbone.final_norm(states))  # (W, B, n, k)


def _run_pre(blocks: Iterable[nn.Module], hidden: Hidden, visible: Visible) -> Hidden:
    return Hidden(_run("pre", blocks, hidden.tokens, _EVERY)[0])


def _run(
    role: str,
    modules: Iterable[nn.Module],
    start: Tensor,
    read: tuple[int, int],
    *,
    term: Hidden | None = None,
    norm: nn.Module | None = None,
    loops: int = 1,
    window: int = 1,
) -> Tensor:
    """States (W, B, n, D) from y = start (B, T, D), by y <- norm(blocks(y + term)).

    They are read at the tokens first, first + stride, ..: `read` is (first, stride).
    """
    blocks = [module for module in modules if isinstance(module, Block)]
    gain, bias = (norm.weight, norm.bias) if isinstance(norm, nn.LayerNorm) else (None, None)
    added = None if term is None else term.tokens.expand_as(start).contiguous()  # (B, T, D)
    weights = [tensor for block in blocks for tensor in fold(block)]
    inputs = [added, gain, bias, *weights]
    gradient = torch.is_grad_enabled() and any(
        each is not None and each.requires_grad for each in (start, *inputs)
    )
    shape = blocks[0].shape
    plan = LoopPlan(
        role=role if gradient else f"{role} without gradient",
        sizes=Sizes(*start.shape, shape.heads, shape.numbers_per_head, shape.hidden_units),
        blocks=len(blocks),
        loops=loops,
        window=window,
        first=read[0],
        stride=read[1],
        gradient=gradient,
    )
    return FusedLoop.apply(plan, start.contiguous(), *inputs)
