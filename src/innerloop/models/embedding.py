"""Prompts as tokens: x_0 y_0 x_1 y_1 .. x_{n-1} in pairs, x_0 x_1 .. in a stream.

The last y is no token: nothing may see it.
"""

from typing import Literal

import torch
from torch import Tensor, nn

from innerloop.core.errors import PromptError
from innerloop.core.prompt import Layout, Prompt
from innerloop.models.hidden import Hidden, Visible

OutputPlace = Literal["first", "own"]


class PromptEmbedding(nn.Module):
    """One linear map from what stands in a token to the width of the residual stream.

    A token holds x in its first d numbers. y stands in the first k of them, zeros after, as in Garg
    et al. (2022), or in k numbers of its own behind them, as in Akyurek et al. (2022). A learned
    token may stand before all others.
    """

    def __init__(
        self,
        *,
        dims: int,
        outputs: int,
        width: int,
        layout: Layout = "pairs",
        place: OutputPlace = "first",
        start_token: bool = False,
        bias: bool = True,
    ) -> None:
        super().__init__()
        self.dims, self.outputs, self.layout = dims, outputs, layout
        own = layout == "pairs" and place == "own"
        self.output_offset = dims if own else 0
        numbers = dims + outputs if own else max(dims, outputs)
        self.inward = nn.Linear(numbers, width, bias=bias)
        self.start = nn.Parameter(torch.zeros(width)) if start_token else None

    @property
    def stride(self) -> int:
        """Tokens from one x to the next."""
        return 2 if self.layout == "pairs" else 1

    @property
    def first(self) -> int:
        """Tokens before x_0."""
        return 0 if self.start is None else 1

    def visible(self, prompt: Prompt) -> Visible:
        """How many tokens stand before each x that is asked at: all of them, or the last."""
        before = prompt.points - prompt.asked.shape[1]
        return Visible(first=self.first + self.stride * before, stride=self.stride)

    def tokens(self, points: int) -> int:
        """T, the tokens of a prompt."""
        return self.first + self.stride * (points - 1) + 1

    def input_tokens(self, points: int) -> range:
        """Where the x tokens stand among all."""
        return range(self.first, self.tokens(points), self.stride)

    def inputs(self, states: Tensor) -> Tensor:
        """The states (B, n, D) of the x tokens among (B, T, D)."""
        return states[:, self.first :: self.stride]

    def forward(self, prompt: Prompt) -> Hidden:
        """The embedded prompt, and its queries."""
        self._require_fit(prompt)
        weight = self.inward.weight
        xs = self._padded(prompt.xs.to(weight), 0)  # (B, n, numbers)
        if self.layout == "pairs":
            ys = self._padded(prompt.ys.to(weight), self.output_offset)  # (B, n, numbers)
            both = torch.stack([xs, ys], dim=2)  # (B, n, 2, numbers)
            inner = both.flatten(1, 2)[:, :-1]  # (B, 2n - 1, numbers)
        else:
            inner = xs
        tokens = self.inward(inner)  # (B, T, D)
        if self.start is not None:
            before = self.start.expand(prompt.batch, 1, -1)  # (B, 1, D)
            tokens = torch.cat([before, tokens], dim=1)
        if prompt.queries is None:
            return Hidden(tokens)
        return Hidden(tokens, self.inward(self._padded(prompt.queries.to(weight), 0)))

    def _padded(self, values: Tensor, offset: int) -> Tensor:
        """Values (.., m) with zeros before and behind: (.., numbers)."""
        behind = self.inward.in_features - offset - values.shape[-1]
        if offset == behind == 0:
            return values
        return nn.functional.pad(values, (offset, behind))

    def _require_fit(self, prompt: Prompt) -> None:
        if (prompt.dims, prompt.outputs, prompt.layout) != (self.dims, self.outputs, self.layout):
            raise PromptError(
                f"the prompt has {prompt.dims} dimensions and {prompt.outputs} outputs in layout "
                f"{prompt.layout!r}, the model was made for {self.dims} and {self.outputs} in "
                f"{self.layout!r}: give such prompts, or another model."
            )
