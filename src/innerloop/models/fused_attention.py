"""Causal softmax attention between the tokens of a prompt, forward and backward, by hand.

At the lengths of these prompts (tens of tokens) batched products are quicker than torch's flash
attention, most of all backward. Long prompts go in tiles of queries, which see the tokens up to
their own last one: most scores that the mask would hide are not computed.

All views are made once, with the memory: at small sizes making them takes as long as using them.

Shapes: B prompts, T tokens, h heads, s head size, R = B T, G = B h; a tile has t queries that see u
tokens.
"""

from dataclasses import dataclass
from itertools import pairwise

import torch
from torch import Tensor

_TILE = 48
"""Most queries of a tile."""
_softmax_backward = torch.ops.aten._softmax_backward_data.out


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
        """A view (B, h, T, s) of (R, h s)."""
        return rows.view(self.batch, self.tokens, self.heads, self.head_size).transpose(1, 2)

    def three_by_head(self, rows: Tensor) -> Tensor:
        """A view (3, B, h, T, s) of (R, 3 h s): queries, keys and values."""
        parts = rows.view(self.batch, self.tokens, 3, self.heads, self.head_size)
        return parts.permute(2, 0, 3, 1, 4)


class AttentionRoom:
    """Memory that all passes of a chunk share: nothing in it outlives one pass."""

    def __init__(self, shape: AttentionShape, like: Tensor) -> None:
        self.shape = shape
        batch, heads, tokens, size = shape.batch, shape.heads, shape.tokens, shape.head_size
        groups = batch * heads
        self.inner = like.new_empty(shape.rows, 3 * shape.inner)  # (R, 3 h s)
        """Queries, keys and values, with the scale in the queries; backward, their gradients."""
        self.inner_by_head = shape.three_by_head(self.inner)  # (3, B, h, T, s)
        self.taken = like.new_empty(shape.rows, shape.inner)  # (R, h s)
        """What is taken; backward, its gradient."""
        self.taken_by_head = shape.by_head(self.taken)  # (B, h, T, s)
        self.d_taken = like.new_empty(batch, heads, tokens, size)  # (B, h, T, s)
        self.d_heads = like.new_empty(3, batch, heads, tokens, size)  # (3, B, h, T, s)
        hidden = like.new_full((tokens, tokens), -torch.inf).triu_(1)  # (T, T)
        self.masks = [hidden[start:end, :end] for start, end in shape.tiles]  # (t, u) each
        rows = [(groups, end - start, end) for start, end in shape.tiles]
        self.scores = [like.new_empty(each) for each in rows]  # (G, t, u) each
        self.d_weights = [like.new_empty(each) for each in rows]  # (G, t, u) each
        self.parts = [like.new_empty(groups, t, size) for _, t, _ in rows]  # (G, t, s) each
        self.seen = [like.new_empty(2, groups, u, size) for _, _, u in rows]  # (2, G, u, s) each


class AttentionPass:
    """One pass through attention, with what its way back needs."""

    def __init__(self, room: AttentionRoom, taken: Tensor) -> None:
        """What is taken is written to `taken` (R, h s)."""
        self.room = room
        self.heads = torch.empty_like(room.d_heads)  # (3, B, h, T, s)
        targets = room.shape.by_head(taken)  # (B, h, T, s)
        self.tiles = [_Tile(room, i, self.heads, targets) for i in range(len(room.masks))]

    def forward(self) -> None:
        """From the room's `inner` to `taken`."""
        self.heads.copy_(self.room.inner_by_head)
        for tile in self.tiles:
            tile.forward()

    def backward(self) -> None:
        """From the gradient in the room's `taken` to that in its `inner`."""
        self.room.d_taken.copy_(self.room.taken_by_head)
        # The last tile sees all tokens: it writes the gradients that the others add to.
        for tile in reversed(self.tiles):
            tile.backward()
        self.room.inner_by_head.copy_(self.room.d_heads)


class _Tile:
    """Some queries, of all prompts and heads, and the tokens that they see."""

    def __init__(self, room: AttentionRoom, i: int, heads: Tensor, targets: Tensor) -> None:
        """Heads (3, B, h, T, s) hold queries, keys and values; targets (B, h, T, s) the result."""
        start, end = room.shape.tiles[i]
        queries, keys, values = heads.flatten(1, 2)  # (G, T, s) each
        self.queries = queries[:, start:end]  # (G, t, s)
        self.keys, self.values = keys[:, :end], values[:, :end]  # (G, u, s) each
        self.keys_across, self.values_across = self.keys.mT, self.values.mT  # (G, s, u) each
        self.mask, self.scores = room.masks[i], room.scores[i]  # (t, u), (G, t, u)
        self.weights = torch.empty_like(self.scores)  # (G, t, u)
        self.taken = room.parts[i]  # (G, t, s)
        self.taken_by_head = self.taken.unflatten(0, targets.shape[:2])  # (B, h, t, s)
        self.target = targets[:, :, start:end]  # (B, h, t, s)
        # Backward, the gradient of the scores takes their place.
        self.d_taken = room.d_taken.flatten(0, 1)[:, start:end]  # (G, t, s)
        self.d_weights = room.d_weights[i]  # (G, t, u)
        self.scores_across, self.weights_across = self.scores.mT, self.weights.mT  # (G, u, t) each
        self.d_queries = room.d_heads[0].flatten(0, 1)[:, start:end]  # (G, t, s)
        self.d_seen = room.d_heads[1:].flatten(1, 2)[:, :, :end]  # (2, G, u, s)
        self.last, self.only = end == room.shape.tokens, len(room.masks) == 1
        self.seen = self.d_seen if self.last else room.seen[i]  # (2, G, u, s)
        self.d_keys, self.d_values = self.seen  # (G, u, s) each

    def forward(self) -> None:
        """O = A V, A = softmax(S), S = Q K'."""
        torch.baddbmm(self.mask, self.queries, self.keys_across, out=self.scores)
        torch.softmax(self.scores, -1, out=self.weights)
        torch.bmm(self.weights, self.values, out=self.taken)
        self.target.copy_(self.taken_by_head)

    def backward(self) -> None:
        """The gradients of queries, keys and values.

        dA = dO V', dS = A * (dA - rowsum(A * dA)); dQ = dS K, dK = dS' Q, dV = A' dO.
        """
        torch.bmm(self.d_taken, self.values_across, out=self.d_weights)
        _softmax_backward(
            self.d_weights, self.weights, -1, self.weights.dtype, grad_input=self.scores
        )
        torch.bmm(self.scores_across, self.queries, out=self.d_keys)
        torch.bmm(self.weights_across, self.d_taken, out=self.d_values)
        if self.only:
            torch.bmm(self.scores, self.keys, out=self.d_queries)
        else:
            # Batched products are quick to memory without gaps alone.
            self.d_queries.copy_(torch.bmm(self.scores, self.keys, out=self.taken))
        if not self.last:
            self.d_seen += self.seen
