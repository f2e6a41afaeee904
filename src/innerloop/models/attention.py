"""Multi-head attention: softmax, ReLU or linear, causal or full, with queries in one pass.

Shapes: B prompts, T tokens, n points, q queries per point, D width, h heads, s head size.
"""

from typing import Literal

import torch
from torch import Tensor, nn
from torch.nn import functional

from innerloop.core.chunks import rows_within_budget
from innerloop.core.errors import NotSupportedError
from innerloop.models.hidden import Hidden, Visible

Kind = Literal["softmax", "relu", "linear"]


class Attention(nn.Module):
    """Each token takes a weighted sum of the values of the tokens that it sees.

    Weights are softmax(scores), or relu(scores) / divisor, or scores / divisor, with scores
    q_i . k_j times the scale; the divisor is the number of tokens seen unless it is given.
    """

    def __init__(
        self,
        *,
        width: int,
        heads: int,
        head_size: int,
        kind: Kind = "softmax",
        causal: bool = True,
        scale: float | None = None,
        divisor: float | None = None,
        biases: bool = True,
    ) -> None:
        super().__init__()
        self.heads, self.head_size = heads, head_size
        self.kind: Kind = kind
        self.causal = causal
        self.scale = head_size**-0.5 if scale is None else scale
        self.divisor = divisor
        self.inward = nn.Linear(width, 3 * heads * head_size, bias=biases)
        """To queries, keys and values, in this order; heads side by side within each."""
        self.outward = nn.Linear(heads * head_size, width, bias=biases)

    def forward(self, hidden: Hidden, visible: Visible) -> Hidden:
        """What each token and each query takes from the tokens that it sees."""
        queries, keys, values = self.split(hidden.tokens)  # (B, h, T, s) each
        taken = self._among_tokens(queries, keys, values, visible.padding)  # (B, h, T, s)
        tokens = self.join(taken)  # (B, T, D)
        if hidden.asked is None:
            return Hidden(tokens)
        if not self.causal:
            raise NotSupportedError(
                "full attention has no place for queries: give prompts of expand_prefixes."
            )
        return Hidden(tokens, self._asked(hidden.asked, keys, values, visible))

    def split(self, tokens: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Queries, keys and values (B, h, T, s) of tokens (B, T, D)."""
        inner = self.inward(tokens)  # (B, T, 3 h s)
        parts = inner.unflatten(-1, (3, self.heads, self.head_size))  # (B, T, 3, h, s)
        queries, keys, values = parts.permute(2, 0, 3, 1, 4).unbind(0)
        return queries, keys, values

    def join(self, taken: Tensor) -> Tensor:
        """What all heads have taken (B, h, T, s), as a change of the tokens: (B, T, D)."""
        return self.outward(taken.transpose(1, 2).flatten(2))

    def _among_tokens(
        self, queries: Tensor, keys: Tensor, values: Tensor, padding: Tensor | None
    ) -> Tensor:
        """What the tokens take from each other: (B, h, T, s)."""
        if padding is not None and not self.causal:
            # Nobody sees the tokens that are padding.
            return self._masked(queries, keys, values, ~padding[:, None, None])
        if self.kind == "softmax":
            return functional.scaled_dot_product_attention(
                queries, keys, values, is_causal=self.causal, scale=self.scale
            )
        scores, divisor = self._scores(queries, keys)  # (B, h, T, T), (T, 1)
        return scores @ values / divisor

    def _scores(self, queries: Tensor, keys: Tensor) -> tuple[Tensor, Tensor | float]:
        """Scores (B, h, T, T) of ReLU and linear attention, and what they are divided by."""
        scores = self._activate(self.scale * queries @ keys.mT)  # (B, h, T, T)
        length = keys.shape[2]
        seen = torch.full((length, 1), float(length), dtype=keys.dtype, device=keys.device)
        if self.causal:
            scores = scores.tril()  # (B, h, T, T)
            seen = torch.arange(1, length + 1, dtype=keys.dtype, device=keys.device)[:, None]
        return scores, seen if self.divisor is None else self.divisor

    def after(
        self, tokens: Tensor, earlier: tuple[Tensor, Tensor] | None, seen: Tensor
    ) -> tuple[Tensor, tuple[Tensor, Tensor]]:
        """What new tokens (B, m, D) take, and the keys and values (B, h, t + m, s) to keep.

        `earlier` are those of the t tokens before; `seen` (B, m, t + m) says which tokens each new
        one sees.
        """
        queries, keys, values = self.split(tokens)  # (B, h, m, s) each
        if earlier is not None:
            keys = torch.cat([earlier[0], keys], dim=2)  # (B, h, t + m, s)
            values = torch.cat([earlier[1], values], dim=2)  # (B, h, t + m, s)
        taken = self._masked(queries, keys, values, seen[:, None])  # (B, h, m, s)
        return self.join(taken), (keys, values)

    def _masked(self, queries: Tensor, keys: Tensor, values: Tensor, seen: Tensor) -> Tensor:
        """What queries (B, h, m, s) take from the tokens that they see, (B, 1, m or 1, T) bool."""
        if self.kind == "softmax":
            return functional.scaled_dot_product_attention(
                queries, keys, values, attn_mask=seen, scale=self.scale
            )
        scores = self._activate(self.scale * queries @ keys.mT) * seen  # (B, h, m, T)
        divisor = seen.sum(-1, keepdim=True) if self.divisor is None else self.divisor
        return scores @ values / divisor

    def pattern(self, tokens: Tensor) -> Tensor:
        """How much each token of (B, T, D) looks at each: (B, h, T, T), row by row."""
        queries, keys, _ = self.split(tokens)  # (B, h, T, s) each
        if self.kind != "softmax":
            scores, divisor = self._scores(queries, keys)  # (B, h, T, T), (T, 1)
            return scores / divisor
        scores = self.scale * queries @ keys.mT  # (B, h, T, T)
        if self.causal:
            length = keys.shape[2]
            later = torch.ones(length, length, dtype=torch.bool, device=keys.device).triu(1)
            scores = scores.masked_fill(later, -torch.inf)  # (B, h, T, T)
        return scores.softmax(-1)

    def _activate(self, scores: Tensor) -> Tensor:
        return functional.relu(scores) if self.kind == "relu" else scores

    def _asked(self, asked: Tensor, keys: Tensor, values: Tensor, visible: Visible) -> Tensor:
        """What the queries (B, n, q, D) take from the tokens and from themselves: the same shape.

        A few points at a time: the scores of all of them may not fit into memory, and early
        points see few tokens.
        """
        batch, points, number, _ = asked.shape
        bytes_per_point = 3 * batch * self.heads * number * (keys.shape[2] + 1) * asked.itemsize
        # Short chunks even where memory is plenty: each reads up to its own last visible token.
        rows = min(rows_within_budget(bytes_per_point), max(1, points // 8))
        parts: list[Tensor] = []
        for start in range(0, points, rows):
            those = range(start, min(start + rows, points))
            own = self.split(asked[:, those.start : those.stop].flatten(1, 2))  # (B, h, p q, s)
            seen = visible.counts(those, asked.device).repeat_interleave(number)  # (p q,)
            most = visible.count(those.stop - 1)
            taken = self._from_tokens(own, keys[:, :, :most], values[:, :, :most], seen)
            mixed = self.join(taken)  # (B, p q, D)
            parts.append(mixed.unflatten(1, (len(those), number)))  # (B, p, q, D)
        return torch.cat(parts, dim=1)

    def _from_tokens(
        self, own: tuple[Tensor, Tensor, Tensor], keys: Tensor, values: Tensor, seen: Tensor
    ) -> Tensor:
        """What queries (B, h, m, s) take from their first `seen` (m,) tokens and themselves."""
        queries, own_keys, own_values = own
        queries = self.scale * queries
        scores = queries @ keys.mT  # (B, h, m, t)
        own_scores = (queries * own_keys).sum(-1, keepdim=True)  # (B, h, m, 1)
        index = torch.arange(keys.shape[2], device=keys.device)  # (t,)
        hidden = index >= seen[:, None]  # (m, t)
        if self.kind == "softmax":
            scores = scores.masked_fill(hidden, -torch.inf)  # (B, h, m, t)
            weights = torch.cat([scores, own_scores], dim=-1).softmax(-1)  # (B, h, m, t + 1)
            return weights[..., :-1] @ values + weights[..., -1:] * own_values
        scores = self._activate(scores).masked_fill(hidden, 0.0)  # (B, h, m, t)
        taken = scores @ values + self._activate(own_scores) * own_values  # (B, h, m, s)
        return taken / (seen[:, None] + 1 if self.divisor is None else self.divisor)
