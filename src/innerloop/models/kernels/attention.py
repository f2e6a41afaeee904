"""Causal softmax attention between the tokens of a prompt, forward and backward, by hand.

At the lengths of these prompts (tens of tokens) batched products are quicker than torch's flash
attention, most of all backward. Long prompts go in tiles of queries, which see the tokens up to
their own last one: most scores that the mask would hide are not computed. Views are made once,
with the memory: at small sizes it takes long to make them.

Shapes: B prompts, T tokens, h heads, s head size, R = B T, G = B h; t queries that see u tokens.
"""

from dataclasses import dataclass

import torch
from torch import Tensor

_TILE = 48
"""Most queries of a tile."""
_softmax_backward = torch.ops.aten._softmax_backward_data.default


@dataclass(frozen=True, slots=True)
class Sizes:
    """Prompts and blocks in numbers; the tokens of all prompts are the rows of one matrix."""

    batch: int
    tokens: int
    width: int
    heads: int
    head_size: int
    hidden: int

    def kept(self, rows: Tensor, keep: slice) -> Tensor:
        """A view (B, n, ..) of the tokens to keep, of (R, ..)."""
        return rows.view(self.batch, self.tokens, -1)[:, keep]

    def by_head(self, rows: Tensor) -> Tensor:
        """A view (m, B, h, T, s) of (R, m h s)."""
        parts = rows.view(self.batch, self.tokens, -1, self.heads, self.head_size)
        return parts.permute(2, 0, 3, 1, 4)


def even_slices(total: int, count: int) -> list[slice]:
    """So many slices of about equal length, one after the other."""
    return [slice(i * total // count, (i + 1) * total // count) for i in range(count)]


class AttentionPass:
    """One pass through attention, with what its way back needs."""

    def __init__(self, sizes: Sizes, taken: Tensor) -> None:
        """What is taken is written to `taken` (R, h s)."""
        self.sizes, tokens = sizes, sizes.tokens
        targets = sizes.by_head(taken)[0]  # (B, h, T, s)
        self.by_head = taken.new_empty(3, *targets.shape)  # (3, B, h, T, s)
        heads = self.by_head.flatten(1, 2)  # (3, G, T, s)
        exact = torch.promote_types(taken.dtype, torch.float32)
        mask = taken.new_full((tokens, tokens), -torch.inf, dtype=exact).triu_(1)  # (T, T)
        tiles = even_slices(tokens, -(-tokens // _TILE))
        self.tiles = [_Tile(heads, mask, targets, which) for which in tiles]

    def forward(self, inner: Tensor) -> None:
        """Attend with queries, keys and values (R, 3 h s); the scale is in the queries."""
        self.by_head.copy_(self.sizes.by_head(inner))
        for tile in self.tiles:
            tile.forward()

    def backward(self, d_taken: Tensor) -> Tensor:
        """The gradient of `inner` (R, 3 h s), of that of what was taken, (R, h s)."""
        d_outputs = self.sizes.by_head(d_taken)[0].flatten(0, 1)  # (G, T, s)
        d_inner = d_taken.new_empty(len(d_taken), 3 * d_taken.shape[1])  # (R, 3 h s)
        d_heads = self.sizes.by_head(d_inner)  # (3, B, h, T, s)
        d_seen = d_taken.new_empty(2, *d_outputs.shape)  # (2, G, T, s), of keys and values
        # The last tile sees all tokens: it writes the gradients that the others add to.
        for tile in reversed(self.tiles):
            tile.backward(d_outputs, d_heads[0], d_seen)
        d_heads[1:].copy_(d_seen.view(d_heads[1:].shape))
        return d_inner


class _Tile:
    """Some queries, of all prompts and heads, and the tokens that they see."""

    def __init__(self, heads: Tensor, mask: Tensor, targets: Tensor, which: slice) -> None:
        """Heads (3, G, T, s) hold queries, keys and values; targets (B, h, T, s) the result."""
        self.which, self.seen, self.last = which, slice(which.stop), which.stop == len(mask)
        self.queries = heads[0, :, which]  # (G, t, s)
        self.keys, self.values = heads[1:, :, self.seen]  # (G, u, s) each
        self.keys_across, self.values_across = self.keys.mT, self.values.mT  # (G, s, u) each
        self.mask = mask[which, self.seen]  # (t, u)
        self.weights = heads.new_empty(heads.shape[1], *self.mask.shape)  # (G, t, u)
        self.weights_across = self.weights.mT  # (G, u, t)
        self.target = targets[:, :, which]  # (B, h, t, s)

    def forward(self) -> None:
        """O = A V, A = softmax(S), S = Q K'."""
        if self.mask.dtype == self.weights.dtype:
            scores = torch.baddbmm(self.mask, self.queries, self.keys_across)  # (G, t, u)
            torch.softmax(scores, -1, out=self.weights)
        else:  # exponentials are quicker in float32, and exact
            scores = torch.bmm(self.queries, self.keys_across).float()  # (G, t, u)
            self.weights.copy_(torch.softmax(scores.add_(self.mask), -1))
        self.target.copy_(torch.bmm(self.weights, self.values).view(self.target.shape))

    def backward(self, d_outputs: Tensor, d_queries: Tensor, d_seen: Tensor) -> None:
        """Write the gradients of queries (B, h, T, s), and of keys and values (2, G, T, s).

        dA = dO V', dS = A * (dA - rowsum(A * dA)); dQ = dS K, dK = dS' Q, dV = A' dO.
        """
        d_part = d_outputs[:, self.which]  # (G, t, s)
        d_weights = torch.bmm(d_part, self.values_across)  # (G, t, u)
        d_scores = _softmax_backward(d_weights, self.weights, -1, d_weights.dtype)  # (G, t, u)
        # Batched products are quick to memory without gaps alone.
        part = torch.bmm(d_scores, self.keys)  # (G, t, s)
        d_queries[:, :, self.which].copy_(part.view(self.target.shape))
        products = (d_scores.mT, self.queries), (self.weights_across, d_part)
        for gradient, (left, right) in zip(d_seen, products, strict=True):
            if self.last:
                torch.bmm(left, right, out=gradient)  # (G, T, s)
            else:
                gradient[:, self.seen] += torch.bmm(left, right)  # (G, u, s)
