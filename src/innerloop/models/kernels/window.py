"""Training steps of transformers on a CPU: the outputs of a window of loops, by fused kernels.

Blocks and loops run in `FusedLoop`; the embedding, the readout, the injection and the folding of
norms into weights are left to autograd and to the model itself, since they happen once per step.

Shapes: B prompts, T tokens, n points, D width, W loops in the window, k outputs.
"""

from collections.abc import Iterable
from functools import partial
from typing import TypeGuard

import torch
from torch import Tensor, nn

from innerloop.core.errors import ConfigurationError, NotSupportedError
from innerloop.core.prompt import Prompt
from innerloop.models.block import Block
from innerloop.models.hidden import Hidden
from innerloop.models.kernels.attention import Sizes
from innerloop.models.kernels.block import fold
from innerloop.models.kernels.loop import FusedLoop, LoopPlan
from innerloop.models.model import AnyModel
from innerloop.models.transformer import InContextTransformer

WIDEST = 96
"""The widest residual stream that the kernels are used for: beyond it they gain some 1.1x at best.

They save traffic to memory, which grows with the width D, and hardly any products, which grow with
D^2: so their gain falls with the width. What was measured: docs/benchmarks.md.
"""
_TYPES = {
    (torch.float64, torch.float64), (torch.float32, torch.float32), (torch.float32, torch.bfloat16)
}  # fmt: skip
"""The types of a model and of its products that there are kernels for."""
_EVERY = (0, 1)
"""The first token to read, and how far they lie apart: all."""


def supports(model: AnyModel, prompt: Prompt) -> TypeGuard[InContextTransformer]:
    """Whether `window_outputs` can replace this model's steps on this prompt, and is quicker.

    In bfloat16 it is at every width: autocast converts what each of its products reads.
    """
    if not _computes(model, prompt):
        return False
    return model.config.backbone.width <= WIDEST or _product_type(model) != model.dtype


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
        and (model.dtype, _product_type(model)) in _TYPES
        and model.readout.weight.device.type == prompt.xs.device.type == "cpu"
    )


def _product_type(model: AnyModel) -> torch.dtype:
    """The type that products of matrices are computed in: autocast's, where it is on."""
    if torch.is_autocast_enabled("cpu"):
        return torch.get_autocast_dtype("cpu")
    return model.dtype


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
            f"{model.name} has no fused kernels for this prompt: take the steps of `iterate`."
        )
    if not 1 <= window <= loops:
        raise ConfigurationError(f"window is {window} of {loops} loops, expected 1 to all of them.")
    if not model.looped:
        loops = window = 1
    product = _product_type(model)
    # What is not in the kernels is computed in full precision: it takes no time.
    with torch.autocast("cpu", enabled=False):
        return _outputs(model, prompt, loops=loops, window=window, product=product)


def _outputs(
    model: InContextTransformer, prompt: Prompt, *, loops: int, window: int, product: torch.dtype
) -> Tensor:
    """The outputs (W, B, n, k), by products of a type."""
    embedding, backbone = model.embedding, model.backbone
    run = partial(_run, product=product)
    state = backbone.begin(
        model.embed(prompt), embedding.visible(prompt),
        run=lambda blocks, hidden, _: Hidden(run("pre", blocks, hidden.tokens, _EVERY)[0]),
    )  # fmt: skip
    read = (embedding.first, embedding.stride)
    start = state.now.tokens if window == loops else state.now.tokens.detach()  # (B, T, D)
    states = run(
        "loop", backbone.blocks, start, _EVERY if len(backbone.post) else read,
        term=state.term, norm=backbone.loop_norm, loops=loops, window=window,
    )  # fmt: skip  # (W, B, T or n, D)
    if len(backbone.post):
        ended = run("post", backbone.post, states.flatten(0, 1), read)[0]  # (W B, n, D)
        states = ended.unflatten(0, states.shape[:2])
    return model.readout(backbone.final_norm(states))  # (W, B, n, k)


def _run(
    role: str, modules: Iterable[nn.Module], start: Tensor, read: tuple[int, int], *,
    product: torch.dtype, term: Hidden | None = None, norm: nn.Module | None = None,
    loops: int = 1, window: int = 1,
) -> Tensor:  # fmt: skip
    """States (W, B, n, D) of y <- norm(blocks(y + term)), at the tokens `read`, from (B, T, D)."""
    blocks = [module for module in modules if isinstance(module, Block)]
    gain, bias = (norm.weight, norm.bias) if isinstance(norm, nn.LayerNorm) else (None, None)
    added = None if term is None else term.tokens.expand_as(start).contiguous()  # (B, T, D)
    inputs = [added, gain, bias, *(tensor for block in blocks for tensor in fold(block))]
    learned = [each for each in (start, *inputs) if each is not None and each.requires_grad]
    gradient = torch.is_grad_enabled() and len(learned) > 0
    shape, role = blocks[0].shape, role if gradient else f"{role} without gradient"
    batch, tokens, width = start.shape
    heads, head_size, hidden = shape.heads, shape.numbers_per_head, shape.hidden_units
    sizes = Sizes(batch, tokens, width, heads, head_size, hidden)
    plan = LoopPlan(role, sizes, len(blocks), loops, window, read, gradient, product)
    return FusedLoop.apply(plan, start.contiguous(), *inputs)
