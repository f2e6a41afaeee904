"""A looped transformer as one would write it in eager torch, from the equations of Yang et al.

One block of GPT-2, Y_{t+1} = M(Y_t + P) from Y_0 = 0; positions are part of P, the final norm is
part of M. The loss is the mean squared error at the x tokens, over the last T of b loops; the loops
before them run without gradient. What speeds of training are compared with.
"""

import torch
from torch import Tensor, nn
from torch.nn import functional


class PlainBlock(nn.Module):
    """x <- x + attention(norm(x)), then x <- x + MLP(norm(x))."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.attention_norm = nn.LayerNorm(width)
        self.inward = nn.Linear(width, 3 * width)
        self.outward = nn.Linear(width, width)
        self.mlp_norm = nn.LayerNorm(width)
        self.up = nn.Linear(width, 4 * width)
        self.down = nn.Linear(4 * width, width)

    def forward(self, hidden: Tensor) -> Tensor:
        """The hidden states (B, T, D) after the block."""
        batch, length, width = hidden.shape
        inner = self.inward(self.attention_norm(hidden))  # (B, T, 3 D)
        queries, keys, values = (
            part.view(batch, length, self.heads, width // self.heads).transpose(1, 2)
            for part in inner.split(width, dim=2)
        )  # (B, h, T, s) each
        taken = functional.scaled_dot_product_attention(queries, keys, values, is_causal=True)
        joined = taken.transpose(1, 2).reshape(batch, length, width)  # (B, T, D)
        hidden = hidden + self.outward(joined)  # (B, T, D)
        return hidden + self.down(functional.gelu(self.up(self.mlp_norm(hidden))))


class PlainLoopedTransformer(nn.Module):
    """Tokens x_0 y_0 x_1 y_1 .. x_{n-1} y_{n-1}, with y in the first place of its token."""

    def __init__(
        self, *, dims: int, points: int, width: int, heads: int, generator: torch.Generator
    ) -> None:
        super().__init__()
        self.embedding = nn.Linear(dims, width)
        self.positions = nn.Embedding(2 * points, width)
        self.block = PlainBlock(width, heads)
        self.final_norm = nn.LayerNorm(width)
        self.readout = nn.Linear(width, 1)
        # Wide enough for the block to move from the first loop on, as after some training.
        for parameter in self.parameters():
            fan_in = parameter.shape[-1] if parameter.ndim == 2 else 2500
            nn.init.normal_(parameter, std=0.7 * fan_in**-0.5, generator=generator)
        for norm in (self.block.attention_norm, self.block.mlp_norm, self.final_norm):
            nn.init.ones_(norm.weight)

    def forward(self, xs: Tensor, ys: Tensor, *, loops: int, window: int) -> list[Tensor]:
        """Predictions (B, n) after each of the last `window` loops, of (B, n, d) and (B, n)."""
        batch, points, dims = xs.shape
        wide = torch.cat([ys[..., None], ys.new_zeros(batch, points, dims - 1)], dim=2)  # (B, n, d)
        tokens = torch.stack([xs, wide], dim=2).view(batch, 2 * points, dims)  # (B, 2n, d)
        places = self.positions(torch.arange(2 * points, device=xs.device))  # (2n, D)
        injected = self.embedding(tokens)  # (B, 2n, D)
        state = torch.zeros_like(injected)  # (B, 2n, D)
        predictions: list[Tensor] = []
        for loop in range(loops):
            counted = loop >= loops - window
            with torch.set_grad_enabled(counted):
                state = self.final_norm(self.block(state + injected + places))  # (B, 2n, D)
                if counted:
                    predictions.append(self.readout(state)[:, ::2, 0])  # (B, n)
        return predictions


def plain_loss(
    model: PlainLoopedTransformer, xs: Tensor, ys: Tensor, *, loops: int, window: int
) -> Tensor:
    """The mean squared error over the window, the prompts and the points."""
    predictions = model(xs, ys, loops=loops, window=window)
    losses = [(prediction - ys).square().mean() for prediction in predictions]
    return torch.stack(losses).mean()
