"""Causal softmax attention between the tokens of a prompt, forward and backward, by hand.

At the lengths of these prompts (tens of tokens) batched products are quicker than torch's flash
attention, most of all backward. Long prompts go in tiles of queries, which see the tokens up to
their own last one: most scores that the mask would hide are not computed.

All views are made once, with the memory: at small sizes making them takes as long as using them.

Shapes: B prompts, T tokens, h heads, s head size, R = B T, G = B h; a tile has t queries that see u
tokens.
"""

from itertools import pairwise

import torch
from torch import Tensor

from innerloop.models.kernels.memory import Sizes

_TILE = 48
"""Most queries of a tile."""
_softmax_backward = torch.ops.aten._softmax_backward_data.out


class AttentionRoom:
    """Memory that all passes share: nothing in it outlives one pass."""

    def __init__(self, sizes: Sizes, like: Tensor) -> None:
        self.sizes = sizes
        tokens, groups, size = sizes.tokens, sizes.batch * sizes.heads, sizes.head_size
        self.inner = like.new_empty(sizes.rows, 3 * sizes.inner)  # (R, 3 h s)
        """Queries, keys and values, with the scale in the queries; backward, their gradients."""
        self.inner_by_head = sizes.by_head(self.inner)  # (3, B, h, T, s)
        self.taken = like.new_empty(sizes.rows, sizes.inner)  # (R, h s)
        """What is taken; backward, its gradient."""
        self.taken_by_head = sizes.by_head(self.taken)[0]  # (B, h, T, s)
        self.d_taken = like.new_empty(self.taken_by_head.shape)  # (B, h, T, s)
        self.d_seen = like.new_empty(2, *self.d_taken.shape)  # (2, B, h, T, s), of keys and values
        count = -(-tokens // _TILE)
        self.tiles = list(pairwise(i * tokens // count for i in range(count + 1)))
        """The first query of each tile, and the one behind its last."""
        hidden = like.new_full((tokens, tokens), -torch.inf).triu_(1)  # (T, T)
        self.masks = [hidden[start:end, :end] for start, end in self.tiles]  # (t, u) each
        shapes = [(groups, *mask.shape) for mask in self.masks]
        self.scores = [like.new_empty(each) for each in shapes]  # (G, t, u) each
        self.d_weights = [like.new_empty(each) for each in shapes]  # (G, t, u) each
        self.parts = [like.new_empty(groups, t, size) for _, t, _ in shapes]  # (G, t, s) each
        self.seen = [like.new_empty(2, groups, u, size) for _, _, u in shapes]  # (2, G, u, s) each


class AttentionPass:
    """One pass through attention, with what its way back needs."""

    def __init__(self, room: AttentionRoom, taken: Tensor) -> None:
        """What is taken is written to `taken` (R, h s)."""
        self.room = room
        self.heads = taken.new_empty(room.inner_by_head.shape)  # (3, B, h, T, s)
        targets = room.sizes.by_head(taken)[0]  # (B, h, T, s)
        self.tiles = [_Tile(room, i, self.heads, targets) for i in range(len(room.tiles))]

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
        self.room.inner_by_head[1:].copy_(self.room.d_seen)


class _Tile:
    """Some queries, of all prompts and heads, and the tokens that they see."""

    def __init__(self, room: AttentionRoom, i: int, heads: Tensor, targets: Tensor) -> None:
        """Heads (3, B, h, T, s) hold queries, keys and values; targets (B, h, T, s) the result."""
        start, end = room.tiles[i]
        queries, keys, values = heads.flatten(1, 2)  # (G, T, s) each
        self.queries = queries[:, start:end]  # (G, t, s)
        self.keys, self.values = keys[:, :end], values[:, :end]  # (G, u, s) each
        self.keys_across, self.values_across = self.keys.mT, self.values.mT  # (G, s, u) each
        self.mask, self.scores = room.masks[i], room.scores[i]  # (t, u), (G, t, u)
        self.weights = torch.empty_like(self.scores)  # (G, t, u)
        self.part = room.parts[i]  # (G, t, s), what is taken; backward, the queries' gradient
        self.part_by_head = self.part.unflatten(0, targets.shape[:2])  # (B, h, t, s)
        self.target = targets[:, :, start:end]  # (B, h, t, s)
        # Backward, the gradient of the scores takes their place.
        self.d_taken = room.d_taken.flatten(0, 1)[:, start:end]  # (G, t, s)
        self.d_weights = room.d_weights[i]  # (G, t, u)
        self.scores_across, self.weights_across = self.scores.mT, self.weights.mT  # (G, u, t) each
        self.d_queries = room.inner_by_head[0][:, :, start:end]  # (B, h, t, s)
        self.d_seen = room.d_seen.flatten(1, 2)[:, :, :end]  # (2, G, u, s)
        self.last = end == room.sizes.tokens
        self.seen = self.d_seen if self.last else room.seen[i]  # (2, G, u, s)
        self.d_keys, self.d_values = self.seen  # (G, u, s) each

    def forward(self) -> None:
        """O = A V, A = softmax(S), S = Q K'."""
        torch.baddbmm(self.mask, self.queries, self.keys_across, out=self.scores)
        torch.softmax(self.scores, -1, out=self.weights)
        # Batched products are quick to memory without gaps alone.
        torch.bmm(self.weights, self.values, out=self.part)
        self.target.copy_(self.part_by_head)

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
        torch.bmm(self.scores, self.keys, out=self.part)
        self.d_queries.copy_(self.part_by_head)
        if not self.last:
            self.d_seen += self.seen
