"""Training steps of transformers on a CPU: the outputs of a window of loops, by fused kernels.

The same numbers as `init`, `step` and `outputs` give, to rounding, with the same gradients. Blocks
and loops run in `FusedLoop`; the embedding, the readout and the folding of norms into weights are
left to autograd, since they happen once a step.

Shapes: B prompts, T tokens, n points, D width, W loops in the window, k outputs.
"""

import torch
from torch import Tensor, nn

from innerloop.core.errors import ConfigurationError, NotSupportedError, PromptError
from innerloop.core.prompt import Prompt
from innerloop.models.backbone import Loop, Stack
from innerloop.models.block import Block
from innerloop.models.fused_attention import AttentionShape
from innerloop.models.fused_block import BlockSizes, fold
from innerloop.models.fused_loop import FusedLoop, LoopPlan
from innerloop.models.fused_workspace import release_workspaces
from innerloop.models.model import AnyModel
from innerloop.models.transformer import InContextTransformer

__all__ = ["release_workspaces", "supports", "window_outputs"]


def supports(model: AnyModel, prompt: Prompt) -> bool:
    """Whether `window_outputs` can take the place of this model's steps on this prompt."""
    if not isinstance(model, InContextTransformer):
        return False
    shape = model.config.backbone
    return (
        (shape.attention, shape.mask, shape.norm) == ("softmax", "causal", "pre")
        and shape.hidden_units > 0
        and shape.sizes is None
        and (isinstance(shape, Loop) or shape.pre + shape.post == 0)
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
    _check(model, prompt, loops, window)
    embedding, backbone = model.embedding, model.backbone
    tokens = embedding(prompt).tokens  # (B, T, D)
    places = backbone.positions
    if places is not None:
        places = places[: tokens.shape[1]].expand_as(tokens)  # (B, T, D)
    read = (embedding.first, embedding.stride)
    if isinstance(backbone.shape, Stack):
        states = _run("stack", backbone.blocks, _sum(tokens, places), read)  # (1, B, n, D)
    else:
        states = _run_loop(model, tokens, places, read, loops, window)  # (W, B, n, D)
    return model.readout(backbone.final_norm(states))  # (W, B, n, k)


def _check(model: InContextTransformer, prompt: Prompt, loops: int, window: int) -> None:
    if not supports(model, prompt):
        raise NotSupportedError(
            f"{model.name} has no fused kernels for this prompt: ask `supports` first, and take "
            "the steps of `iterate` instead."
        )
    if not 1 <= window <= loops:
        raise ConfigurationError(
            f"a window of {window} in {loops} loops: expected at least 1 and at most all of them."
        )
    if model.points is not None and prompt.points > model.points:
        raise PromptError(
            f"the prompt has {prompt.points} points, the model has positions for {model.points}: "
            "take fewer points, or a model made for more."
        )


def _run_loop(
    model: InContextTransformer,
    tokens: Tensor,
    places: Tensor | None,
    read: tuple[int, int],
    loops: int,
    window: int,
) -> Tensor:
    """The states (W, B, n, D) of the x tokens, behind the post-transformer."""
    backbone, shape = model.backbone, model.config.backbone
    assert isinstance(shape, Loop)
    if len(backbone.pre):
        # Behind a pre-transformer the positions are in already.
        tokens, places = _run("pre", backbone.pre, _sum(tokens, places), (0, 1))[0], None
    factor = None
    if shape.inject == "none":
        start, term = tokens, places
    elif shape.inject == "add":
        start, term = torch.zeros_like(tokens), _sum(tokens, places)
    else:
        start, factor, term = torch.ones_like(tokens), tokens, places
    states = _run(
        "loop",
        backbone.blocks,
        start if window == loops else start.detach(),
        (0, 1) if len(backbone.post) else read,
        factor=factor,
        term=term,
        norm=backbone.loop_norm,
        loops=loops,
        window=window,
    )  # (W, B, T or n, D)
    if not len(backbone.post):
        return states
    ended = _run("post", backbone.post, states.flatten(0, 1), read)[0]  # (W B, n, D)
    return ended.unflatten(0, states.shape[:2])


def _run(
    role: str,
    modules: nn.ModuleList,
    start: Tensor,
    read: tuple[int, int],
    *,
    factor: Tensor | None = None,
    term: Tensor | None = None,
    norm: nn.Module | None = None,
    loops: int = 1,
    window: int = 1,
) -> Tensor:
    """States (W, B, n, D) from y = start (B, T, D), by y <- norm(blocks(y * factor + term)).

    They are read at the tokens first, first + stride, ..: `read` is (first, stride).
    """
    blocks = [module for module in modules if isinstance(module, Block)]
    affine = norm if isinstance(norm, nn.LayerNorm) else None
    weights = [tensor for block in blocks for tensor in fold(block).tensors()]
    given = [start, factor, term, *weights] + ([] if affine is None else [affine.weight])
    gradient = torch.is_grad_enabled() and any(
        each is not None and each.requires_grad for each in given
    )
    plan = LoopPlan(
        role=role if gradient else f"{role} without gradient",
        sizes=_sizes(blocks[0], start),
        blocks=len(blocks),
        loops=loops,
        window=window,
        first=read[0],
        stride=read[1],
        gradient=gradient,
    )
    return FusedLoop.apply(
        plan,
        start.contiguous(),
        None if factor is None else factor.contiguous(),
        None if term is None else term.contiguous(),
        None if affine is None else affine.weight,
        None if affine is None else affine.bias,
        *weights,
    )


def _sizes(block: Block, start: Tensor) -> BlockSizes:
    shape, norm = block.shape, block.attention_norm
    assert isinstance(norm, nn.LayerNorm)
    batch, tokens, width = start.shape
    return BlockSizes(
        attention=AttentionShape(batch, tokens, shape.heads, shape.numbers_per_head),
        width=width,
        hidden=shape.hidden_units,
        activation=shape.activation,
        eps=norm.eps,
    )


def _sum(tokens: Tensor, places: Tensor | None) -> Tensor:
    """Tokens with their positions, (B, T, D)."""
    return tokens if places is None else tokens + places
