"""Keys and values of the tokens so far, so that one more token costs one token.

A looped model computes other keys and values at every loop, from the same weights. So they are kept
per application of a block, in the order in which a pass applies them: the pre-transformer, the
blocks of each step, the post-transformer.

Shapes: B texts, t tokens so far, m new ones, D width, h heads, s head size.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field

import torch
from torch import Tensor, nn

from innerloop.core.errors import ConfigurationError, NotSupportedError
from innerloop.models.backbone import Backbone
from innerloop.models.block import Block
from innerloop.models.hidden import Hidden, Visible

KeysAndValues = tuple[Tensor, Tensor]
"""(B, h, t, s) each."""


@dataclass(frozen=True, slots=True, eq=False)
class Cache:
    """What a causal backbone remembers of the tokens of each text; padding is not seen."""

    real: Tensor
    """(B, t) bool: which slots hold a token of the text; the others hold padding."""
    kept: tuple[KeysAndValues, ...] = ()
    """Per application of a block; none before the first pass."""

    @classmethod
    def empty(cls, texts: int, device: torch.device | None = None) -> "Cache":
        """That of so many texts without a token."""
        return cls(torch.zeros(texts, 0, dtype=torch.bool, device=device))

    @property
    def lengths(self) -> Tensor:
        """The tokens of each text so far: (B,)."""
        return self.real.sum(dim=1)

    def select(self, rows: Tensor) -> "Cache":
        """That of some texts (R,), by their numbers, in this order; one may come several times."""
        return Cache(self.real[rows], tuple((k[rows], v[rows]) for k, v in self.kept))


def extend(
    backbone: Backbone,
    cache: Cache,
    embedded: Tensor,
    *,
    real: Tensor | None = None,
    loops: int | None = None,
) -> tuple[Tensor, Cache]:
    """What the backbone makes of new tokens (B, m, D), as if all had come at once; the cache after.

    `real` (B, m) is False at padding, whose results mean nothing. A text goes on at the position
    behind its last token, wherever padding stands. Loops: as many as the model was trained with,
    unless given; the same at every call.
    """
    if backbone.shape.mask == "full":
        raise NotSupportedError(
            "full attention has no cache: an earlier token would see the new one. Give a model "
            "with the mask 'causal'."
        )
    steps = backbone.shape.steps if loops is None else loops
    _require_same_loops(backbone, cache, steps)
    batch, new, _ = embedded.shape
    if real is None:
        real = torch.ones(batch, new, dtype=torch.bool, device=embedded.device)  # (B, m)
    slots = torch.cat([cache.real, real], dim=1)  # (B, t + m)
    # Padding behind the last position would have none: it takes that of the token before it.
    places = (slots.cumsum(1) - 1).clamp(min=0)[:, -new:]  # (B, m)
    blocks = _CachedBlocks(cache, _seen(slots, new))
    visible = Visible()
    state = backbone.begin(Hidden(embedded), visible, run=blocks, places=places)
    for k in range(steps):
        state = backbone.step(state, k, visible, run=blocks)
    hidden = backbone.end(state, visible, run=blocks)
    return hidden.tokens, Cache(slots, tuple(blocks.kept))


def _require_same_loops(backbone: Backbone, cache: Cache, steps: int) -> None:
    """Refuse a cache that was filled with another number of loops."""
    blocks, shape = list(backbone.blocks), backbone.shape
    inside = sum(len(blocks[shape.blocks_of_step(k)]) for k in range(steps))
    turns = len(backbone.pre) + inside + len(backbone.post)
    if cache.kept and len(cache.kept) != turns:
        raise ConfigurationError(
            f"the cache has keys and values of {len(cache.kept)} applications of blocks, {steps} "
            f"steps have {turns}: give the same loops at every call."
        )


def _seen(slots: Tensor, new: int) -> Tensor:
    """Which slots (B, t + m) each of the m new tokens sees: (B, m, t + m).

    The tokens up to itself, and itself even where it is padding, so that no softmax is empty.
    """
    total = slots.shape[1]
    index = torch.arange(total, device=slots.device)  # (t + m,)
    own = index[-new:, None]  # (m, 1)
    return (slots[:, None] & (index <= own)) | (index == own)


@dataclass(slots=True)
class _CachedBlocks:
    """Applies blocks to new tokens, each with the keys and values of its own earlier turn."""

    cache: Cache
    seen: Tensor
    """(B, m, t + m)."""
    kept: list[KeysAndValues] = field(default_factory=list[KeysAndValues])

    def __call__(self, blocks: Iterable[nn.Module], hidden: Hidden, visible: Visible) -> Hidden:
        for block in blocks:
            assert isinstance(block, Block)
            earlier = self.cache.kept[len(self.kept)] if self.cache.kept else None
            tokens = block.attention_norm(hidden.tokens)  # (B, m, D)
            change, kept = block.attention.after(tokens, earlier, self.seen)
            self.kept.append(kept)
            hidden = block.finish(hidden, Hidden(change))
        return hidden
