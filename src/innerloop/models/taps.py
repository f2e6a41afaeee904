"""Where hooks reach the components of a transformer: heads, MLPs and residual stream, by step."""

from collections.abc import Iterable
from dataclasses import replace
from typing import cast

from torch import Tensor, nn

from innerloop.core.components import Place, Tap
from innerloop.models.backbone import Backbone
from innerloop.models.block import Block
from innerloop.models.embedding import PromptEmbedding
from innerloop.models.hidden import Hidden


def input_tap(embedding: PromptEmbedding) -> Tap:
    """The embedded prompt: all that ever enters from a token, at every loop where it is injected.

    Positions are added behind it.
    """
    return _tap_of_hidden(Place("residual", -1, -1), embedding)


def transformer_taps(backbone: Backbone, k: int, steps: int) -> list[Tap]:
    """All places of the blocks of one phase: the pre-transformer's at -1, the post's at K.

    The residual stream behind the last block of a step is the state after the step: behind the
    norm of the loop, where there is one.
    """
    if k == -1:
        return _taps_of_blocks(backbone.pre, k)
    if k == steps:
        return _taps_of_blocks(backbone.post, k)
    taps = _taps_of_blocks(list(backbone.blocks)[backbone.shape.blocks_of_step(k)], k)
    if not taps:  # beyond the last block of a stack
        return []
    return [*taps[:-1], Tap(place=taps[-1].place, module=backbone.loop_norm)]


def _taps_of_blocks(blocks: Iterable[nn.Module], step: int) -> list[Tap]:
    taps: list[Tap] = []
    for layer, module in enumerate(blocks):
        block = cast(Block, module)
        heads = block.attention.heads
        taps += [
            _tap_of_pattern(block, Place("pattern", step, layer, heads)),
            Tap.of_heads(Place("head", step, layer, heads), block.attention.outward),
        ]
        if block.mlp is not None:
            taps.append(Tap(place=Place("mlp", step, layer), module=block.mlp))
        taps.append(_tap_of_hidden(Place("residual", step, layer), block))
    return taps


def _tap_of_pattern(block: Block, place: Place) -> Tap:
    """Computed from what enters the attention, whose own way to its output may be a fused one."""

    def pattern(hidden: Hidden) -> Tensor:
        return block.attention.pattern(hidden.tokens)

    return Tap(place=place, module=block.attention, side="input", get=pattern, put=None)


def _tap_of_hidden(place: Place, module: nn.Module) -> Tap:
    """The tokens of what a module returns."""
    return Tap(
        place=place, module=module,
        get=lambda hidden: hidden.tokens,
        put=lambda hidden, tokens: replace(hidden, tokens=tokens),
    )  # fmt: skip
