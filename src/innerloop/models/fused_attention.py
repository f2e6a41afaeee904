"""Causal softmax attention between the tokens of a prompt, forward and backward, by hand.

Queries go in tiles: a tile sees the tokens up to its own last one, so that scores which the mask
would hide are not computed for most of a long prompt. At these lengths (tens of tokens) batched
products are quicker than torch's flash attention, most of all backward.

All views are made once, with the memory: at small sizes making them takes as long as using them.

Shapes: B prompts, T tokens, h heads, s head size, R = B T, G = B h; a tile has t queries that see u
tokens.
"""

from dataclasses import dataclass
from itertools import pairwise

import torch
from torch import Tensor

_softmax_backward = torch.ops.aten._softmax_backward_data.out
_TILE = 48
"""Most queries of a tile."""


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
        """The first query of each tile and the one behind its last."""
        count = -(-self.tokens // _TILE)
        return list(pairwise(i * self.tokens // count for i in range(count + 1)))

    def by_head(self, rows: Tensor) -> Tensor:
        """A view (B, h, T, s) of (R, h s)."""
        return rows.view(self.batch, self.tokens, self.heads, self.head_size).transpose(1, 2)

    def three_by_head(self, rows: Tensor) -> Tensor:
        """A view (3, B, h, T, s) of (R, 3 h s)."""
        parts = rows.view(self.batch, self.tokens, 3, self.heads, self.head_size)
        return parts.permute(2, 0, 3, 1, 4)


class AttentionRoom:
    """Memory that all passes of a chunk share: nothing in it outlives one pass."""

    def __init__(self, shape: AttentionShape, like: Tensor) -> None:
        self.shape = shape
        batch, heads, tokens, size = shape.batch, shape.heads, shape.tokens, shape.head_size
        groups = batch * heads
        self.inner = like.new_empty(shape.rows, 3 * shape.inner)  # (R, 3 h s)
        self.inner_by_head = shape.three_by_head(self.inner)  # (3, B, h, T, s)
        self.taken = like.new_empty(shape.rows, shape.inner)  # (R, h s)
        self.taken_by_head = shape.by_head(self.taken)  # (B, h, T, s)
        self.outer = like.new_empty(batch, heads, tokens, size)  # (B, h, T, s)
        self.heads = like.new_empty(3, batch, heads, tokens, size)  # (3, B, h, T, s)
        hidden = like.new_full((tokens, tokens), -torch.inf).triu_(1)  # (T, T)
        self.masks = [hidden[start:end, :end] for start, end in shape.tiles]  # (t, u) each
        rows = [(groups, end - start, end) for start, end in shape.tiles]
        self.scores = [like.new_empty(each) for each in rows]  # (G, t, u) each
        self.changes = [like.new_empty(each) for each in rows]  # (G, t, u) each
        self.parts = [like.new_empty(groups, t, size) for _, t, _ in rows]  # (G, t, s) each
        self.seen = [like.new_empty(groups, u, size) for _, _, u in rows]  # (G, u, s) each


@dataclass(frozen=True, slots=True, eq=False)
class _Tile:
    """Some queries and the tokens that they see: views, but for the weights."""

    last: bool
    mask: Tensor
    """(t, u)."""
    queries: Tensor
    """(G, t, s)."""
    keys: Tensor
    """(G, u, s)."""
    keys_transposed: Tensor
    """(G, s, u)."""
    values: Tensor
    """(G, u, s)."""
    values_transposed: Tensor
    """(G, s, u)."""
    scores: Tensor
    """(G, t, u); backward, their gradient."""
    scores_transposed: Tensor
    """(G, u, t)."""
    weights: Tensor
    """(G, t, u)."""
    weights_transposed: Tensor
    """(G, u, t)."""
    d_weights: Tensor
    """(G, t, u)."""
    taken: Tensor
    """(G, t, s): the product; backward, the gradient of the queries."""
    taken_by_head: Tensor
    """(B, h, t, s): the same."""
    target: Tensor
    """(B, h, t, s): where it belongs."""
    d_taken: Tensor
    """(G, t, s)."""
    d_queries: Tensor
    """(G, t, s)."""
    d_keys: Tensor
    """(G, u, s)."""
    d_values: Tensor
    """(G, u, s)."""
    seen: Tensor
    """(G, u, s): room for what is added to the gradients of keys and values."""


class AttentionPass:
    """One pass through attention, with what its way back needs."""

    def __init__(self, room: AttentionRoom, taken: Tensor) -> None:
        """What is taken is written to `taken` (R, h s)."""
        self.room = room
        self.heads = torch.empty_like(room.heads)  # (3, B, h, T, s)
        targets = room.shape.by_head(taken)  # (B, h, T, s)
        self.tiles = [self._tile(i, targets) for i in range(len(room.masks))]

    def _tile(self, i: int, targets: Tensor) -> _Tile:
        room, shape = self.room, self.room.shape
        start, end = shape.tiles[i]
        queries, keys, values = self.heads.flatten(1, 2)  # (G, T, s) each
        d_queries, d_keys, d_values = room.heads.flatten(1, 2)  # (G, T, s) each
        weights = torch.empty_like(room.scores[i])  # (G, t, u)
        return _Tile(
            last=end == shape.tokens,
            mask=room.masks[i],
            queries=queries[:, start:end],
            keys=keys[:, :end],
            keys_transposed=keys[:, :end].mT,
            values=values[:, :end],
            values_transposed=values[:, :end].mT,
            scores=room.scores[i],
            scores_transposed=room.scores[i].mT,
            weights=weights,
            weights_transposed=weights.mT,
            d_weights=room.changes[i],
            taken=room.parts[i],
            taken_by_head=room.parts[i].unflatten(0, (shape.batch, shape.heads)),
            target=targets[:, :, start:end],
            d_taken=room.outer.flatten(0, 1)[:, start:end],
            d_queries=d_queries[:, start:end],
            d_keys=d_keys[:, :end],
            d_values=d_values[:, :end],
            seen=room.seen[i],
        )

    def forward(self) -> None:
        """From the room's `inner` to `taken`: A = softmax(Q K'), A V."""
        self.heads.copy_(self.room.inner_by_head)
        for tile in self.tiles:
            torch.baddbmm(tile.mask, tile.queries, tile.keys_transposed, out=tile.scores)
            torch.softmax(tile.scores, -1, out=tile.weights)
            torch.bmm(tile.weights, tile.values, out=tile.taken)
            tile.target.copy_(tile.taken_by_head)

    def backward(self) -> None:
        """From the gradient in the room's `taken` to that in its `inner`.

        dV = A' dO, dA = dO V', dS = A * (dA - rowsum(A * dA)), dQ = dS K, dK = dS' Q.
        """
        room = self.room
        room.outer.copy_(room.taken_by_head)
        # The last tile sees all tokens: it writes the gradients that the others add to.
        for tile in reversed(self.tiles):
            torch.bmm(tile.d_taken, tile.values_transposed, out=tile.d_weights)
            _softmax_backward(
                tile.d_weights, tile.weights, -1, tile.weights.dtype, grad_input=tile.scores
            )
            _put(tile, tile.weights_transposed, tile.d_taken, tile.d_values)
            _put(tile, tile.scores_transposed, tile.queries, tile.d_keys)
            torch.bmm(tile.scores, tile.keys, out=tile.taken)
            tile.d_queries.copy_(tile.taken)
        room.inner_by_head.copy_(room.heads)


def _put(tile: _Tile, left: Tensor, right: Tensor, total: Tensor) -> None:
    """Write a product (G, u, s), or add it where a later tile has written."""
    if tile.last:
        torch.bmm(left, right, out=total)
    else:
        torch.bmm(left, right, out=tile.seen)
        total += tile.seen
