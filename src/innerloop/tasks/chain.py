"""Chains of thought through random networks."""

import torch
from pydantic import Field
from torch import Tensor
from torch.nn.functional import leaky_relu

from innerloop.core.prompt import Prompt
from innerloop.core.task import PromptForm, Task
from innerloop.tasks.draws import normal


class ChainOfThought(Task):
    """Chains of thought through random networks.

    The states of a leaky-ReLU network, one token per layer, input after input. The tokens are x_0,
    s_0^1 .. s_0^L, x_1, s_1^1 .. with x ~ N(0, I), s^0 = x and s^l = leaky_relu(s^{l-1} W_l); the
    network is drawn anew for each prompt (Gao et al., 2025, after Li et al., 2023). `points` counts
    tokens. Positions that are followed by a fresh x are not scored. The truth holds "layers" (B, L,
    d, d), input by output, and "level" (B, n), the number l of the token at each position.

    The weights are N(0, 2 / ((1 + slope^2) d)): given s, each coordinate before the activation is
    normal, and the activation keeps (1 + slope^2) / 2 of its second moment, so that E[s^2] = 1 at
    every level.
    """

    layers: int = Field(
        default=6, ge=1, le=1000, description="layers of the network: thoughts between two inputs"
    )
    slope: float = Field(default=0.01, ge=0, le=1, description="slope of the activation below zero")

    @property
    def form(self) -> PromptForm:
        """A stream, scored from its first token on."""
        return PromptForm(dims=self.dims, outputs=self.dims, layout="stream")

    def draw(self, batch: int, points: int, generator: torch.Generator) -> Prompt:
        """Whole chains, cut off at the number of tokens asked for and one more, the last target."""
        length = self.layers + 1
        chains = -(-(points + 1) // length)
        state = normal(generator, batch, chains, self.dims, dtype=self.torch_dtype)  # (B, c, d)
        layers = self._draw_layers(batch, generator)  # (B, L, d, d)
        states = [state]
        for level in range(self.layers):
            state = leaky_relu(state @ layers[:, level], self.slope)  # (B, c, d)
            states.append(state)
        tokens = torch.stack(states, dim=2).flatten(1, 2)  # (B, c (L + 1), d)
        level = torch.arange(points, device=tokens.device) % length  # (n,)
        return Prompt(
            xs=tokens[:, :points],
            ys=tokens[:, 1 : points + 1],
            layout="stream",
            scored=(level < self.layers).repeat(batch, 1),
            truth={"layers": layers, "level": level.repeat(batch, 1)},
        )

    def _draw_layers(self, batch: int, generator: torch.Generator) -> Tensor:
        size = (batch, self.layers, self.dims, self.dims)
        weights = normal(generator, *size, dtype=self.torch_dtype)  # (B, L, d, d)
        return weights * (2 / ((1 + self.slope**2) * self.dims)) ** 0.5

    def by_sample(self, values: Tensor) -> Tensor:
        """A whole chain is one sample, of which the thoughts are averaged: (.., chains)."""
        length = self.layers + 1
        whole = values.shape[-1] // length * length
        chains = values[..., :whole].unflatten(-1, (-1, length))  # (.., chains, L + 1)
        return chains[..., : self.layers].mean(dim=-1)

    def scale(self) -> Tensor:
        """E[s^2] = 1 for each coordinate of each token."""
        return torch.tensor(1.0, dtype=torch.float64)
