"""Causal softmax attention between the tokens of a prompt, forward and backward, by hand.

At the lengths of these prompts (tens of tokens) batched products are quicker than torch's flash
attention, most of all backward. One head goes after the other, all prompts at once: so the products
read queries, keys and values where they stand. Long prompts go in tiles of queries, which see the
tokens up to their own last one: most scores that the mask would hide are not computed.

All views are made once, with the memory: at small sizes making them takes as long as using them.

Shapes: B prompts, T tokens, h heads, s head size, R = B T; a tile has t queries that see u tokens.
"""

from dataclasses import dataclass
from itertools import pairwise

import torch
from torch import Tensor

_TILE = 48
"""Most queries of a tile."""
_softmax_backward = torch.ops.aten._softmax_backward_data.out

Product = tuple[Tensor, Tensor, Tensor]
"""Two factors, and where their product goes."""


@dataclass(frozen=True, slots=True)
class AttentionShape:
    """The sizes of the prompts and of the heads."""

    batch: int
    tokens: int
    heads: int
    head_size: int

    @property
    def rows(self) -> int:
        """R."""
        return self.batch * self.tokens

    @property
    def inner(self) -> int:
        """The numbers h s of all heads."""
        return self.heads * self.head_size

    @property
    def tiles(self) -> list[tuple[int, int]]:
        """The first query of each tile, and the one behind its last."""
        count = -(-self.tokens // _TILE)
        return list(pairwise(i * self.tokens // count for i in range(count + 1)))

    def by_head(self, rows: Tensor) -> Tensor:
        """A view (h, B, T, s) of (R, h s)."""
        tokens = rows.view(self.batch, self.tokens, self.heads, self.head_size)
        return tokens.permute(2, 0, 1, 3)

    def three_by_head(self, rows: Tensor) -> Tensor:
        """A view (3, h, B, T, s) of (R, 3 h s): queries, keys and values."""
        tokens = rows.view(self.batch, self.tokens, 3, self.heads, self.head_size)
        return tokens.permute(2, 3, 0, 1, 4)


class AttentionRoom:
    """Memory that all passes of a chunk share: nothing in it outlives one pass."""

    def __init__(self, shape: AttentionShape, like: Tensor) -> None:
        self.shape = shape
        heads, batch, tokens, size = shape.heads, shape.batch, shape.tokens, shape.head_size
        self.taken = like.new_empty(shape.rows, shape.inner)  # (R, h s)
        """What is taken; backward, its gradient."""
        self.d_inner = like.new_empty(shape.rows, 3 * shape.inner)  # (R, 3 h s)
        self.d_inner_by_head = shape.three_by_head(self.d_inner)  # (3, h, B, T, s)
        self.d_heads = like.new_empty(3, heads, batch, tokens, size)  # (3, h, B, T, s)
        hidden = like.new_full((tokens, tokens), -torch.inf).triu_(1)  # (T, T)
        self.masks = [hidden[start:end, :end] for start, end in shape.tiles]  # (t, u) each
        rows = [(heads, batch, end - start, end) for start, end in shape.tiles]
        self.scores = [like.new_empty(each) for each in rows]  # (h, B, t, u) each
        self.d_weights = [like.new_empty(each) for each in rows]  # (h, B, t, u) each
        self.queries = [like.new_empty(heads, batch, t, size) for _, _, t, _ in rows]
        """(h, B, t, s) for each tile."""
        self.seen = [like.new_empty(2, heads, batch, u, size) for *_, u in rows]
        """(2, h, B, u, s) for each tile."""


class AttentionPass:
    """One pass through attention, with what its way back needs."""

    def __init__(self, room: AttentionRoom, taken: Tensor) -> None:
        """What is taken is written to `taken` (R, h s)."""
        self.room = room
        self.inner = torch.empty_like(room.d_inner)  # (R, 3 h s)
        """Queries, keys and values; the scale of the scores is in the queries."""
        heads = room.shape.three_by_head(self.inner)  # (3, h, B, T, s)
        targets = room.shape.by_head(taken)  # (h, B, T, s)
        self.tiles = [_Tile(room, i, heads, targets) for i in range(len(room.masks))]

    def forward(self) -> None:
        """From `inner` to `taken`: O = A V with A = softmax(Q K')."""
        for tile in self.tiles:
            tile.forward()

    def backward(self) -> None:
        """From the gradient in the room's `taken` to that in its `d_inner`."""
        # The last tile sees all tokens: it writes the gradients that the others add to.
        for tile in reversed(self.tiles):
            tile.backward()
        self.room.d_inner_by_head.copy_(self.room.d_heads)


class _Tile:
    """Some queries, of all heads, and the tokens that they see."""

    def __init__(self, room: AttentionRoom, i: int, heads: Tensor, targets: Tensor) -> None:
        """Heads (3, h, B, T, s) hold queries, keys and values; targets (h, B, T, s) the result."""
        start, end = room.shape.tiles[i]
        queries, keys, values = heads[0, :, :, start:end], *heads[1:, :, :, :end]
        d_taken = room.shape.by_head(room.taken)[:, :, start:end]  # (h, B, t, s)
        self.mask, self.scores, self.d_weights = room.masks[i], room.scores[i], room.d_weights[i]
        self.weights = torch.empty_like(self.scores)  # (h, B, t, u)
        self.taken = room.queries[i]  # (h, B, t, s)
        self.target = targets[:, :, start:end]  # (h, B, t, s)
        self.score_products = _by_head(queries, keys.mT, self.scores)
        self.value_products = _by_head(self.weights, values, self.taken)
        self.d_weight_products = _by_head(d_taken, values.mT, self.d_weights)
        # S holds dS once the weights' gradients are known.
        self.d_queries = room.d_heads[0, :, :, start:end]  # (h, B, t, s)
        self.d_keys_values = room.d_heads[1:, :, :, :end]  # (2, h, B, u, s)
        last = end == room.shape.tokens
        seen = self.d_keys_values if last else room.seen[i]  # (2, h, B, u, s)
        self.seen = None if last else seen
        self.gradient_products = [
            *_by_head(self.scores, keys, room.queries[i]),
            *_by_head(self.scores.mT, queries, seen[0]),
            *_by_head(self.weights.mT, d_taken, seen[1]),
        ]

    def forward(self) -> None:
        """O = A V, A = softmax(S), S = Q K'."""
        for queries, keys, scores in self.score_products:
            torch.baddbmm(self.mask, queries, keys, out=scores)  # (B, t, u)
        torch.softmax(self.scores, -1, out=self.weights)
        for weights, values, taken in self.value_products:
            torch.bmm(weights, values, out=taken)  # (B, t, s)
        self.target.copy_(self.taken)

    def backward(self) -> None:
        """dA = dO V', dS = A * (dA - rowsum(A * dA)); dQ = dS K, dK = dS' Q, dV = A' dO."""
        for d_taken, values, d_weights in self.d_weight_products:
            torch.bmm(d_taken, values, out=d_weights)  # (B, t, u)
        _softmax_backward(
            self.d_weights, self.weights, -1, self.weights.dtype, grad_input=self.scores
        )
        for left, right, product in self.gradient_products:
            torch.bmm(left, right, out=product)  # (B, t, s), (B, u, s) or (B, u, s)
        self.d_queries.copy_(self.taken)
        if self.seen is not None:
            self.d_keys_values += self.seen


def _by_head(left: Tensor, right: Tensor, product: Tensor) -> list[Product]:
    """The products of each head, of (h, B, ., .) each."""
    return list(zip(left, right, product, strict=True))
