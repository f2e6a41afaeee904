"""One block of a transformer: attention and an MLP, each added to the residual stream.

Shapes, beside those of a prompt: T tokens, D width, h heads, s head size, H hidden units.
"""

from typing import Literal

import torch
from pydantic import Field, model_validator
from torch import Tensor, nn
from torch.nn import functional

from innerloop.core.config import Config, Float32
from innerloop.models.attention import Attention
from innerloop.models.hidden import Hidden, Visible

Activation = Literal["gelu", "gelu-tanh", "relu"]
Norm = Literal["pre", "mlp-only", "rms", "none"]
EPSILON = 1e-5
"""What norms add to a variance."""


class BlockSize(Config):
    """What one block may have of its own: circuits need more of some blocks than of others."""

    heads: int = Field(ge=1, description="attention heads")
    head_size: int = Field(ge=1, description="numbers per head that are compared")
    hidden: int = Field(ge=0, description="units of the MLP; 0: no MLP")


class BlockShape(Config):
    """What every block of a backbone has in common.

    The defaults are those of GPT-2, but for its activation: the exact GELU is several times quicker
    on a CPU than the tanh form, and as good.
    """

    width: int = Field(default=256, ge=1, description="size of the residual stream")
    heads: int = Field(default=8, ge=1, description="attention heads")
    head_size: int | None = Field(
        default=None, ge=1, description="numbers per head that are compared; None: width / heads"
    )
    hidden: int | None = Field(
        default=None, ge=0, description="units of the MLP; 0: no MLP; None: 4 width"
    )
    attention: Literal["softmax", "relu", "linear"] = Field(
        default="softmax", description="what becomes of the scores"
    )
    mask: Literal["causal", "full"] = Field(
        default="causal", description="which tokens a token sees"
    )
    score_scale: Float32 | None = Field(
        default=None, description="factor of the scores; None: 1 / sqrt(head size)"
    )
    divisor: Float32 | None = Field(
        default=None,
        gt=0,
        description="of ReLU and linear attention; None: the number of tokens that are seen",
    )
    activation: Activation = Field(default="gelu", description="of the MLP")
    norm: Norm = Field(
        default="pre",
        description="pre: LayerNorm before attention and MLP; mlp-only; rms: as pre, without mean",
    )
    biases: bool = Field(default=True, description="whether linear maps have biases")

    @model_validator(mode="after")
    def _check_heads(self) -> "BlockShape":
        if self.head_size is None and self.width % self.heads:
            raise ValueError(
                f"{self.heads} heads do not divide the width {self.width}: choose a width that is "
                "a multiple of the heads, or give head_size"
            )
        return self

    @property
    def numbers_per_head(self) -> int:
        """The head size s."""
        return self.head_size or self.width // self.heads

    @property
    def hidden_units(self) -> int:
        """The units H of the MLP."""
        return 4 * self.width if self.hidden is None else self.hidden


class Block(nn.Module):
    """x <- x + attention(norm(x)), then x <- x + MLP(norm(x))."""

    def __init__(self, shape: BlockShape) -> None:
        super().__init__()
        self.shape = shape
        self.attention_norm = make_norm(shape, shape.norm in ("pre", "rms"))
        self.attention = Attention(
            width=shape.width,
            heads=shape.heads,
            head_size=shape.numbers_per_head,
            kind=shape.attention,
            causal=shape.mask == "causal",
            scale=shape.score_scale,
            divisor=shape.divisor,
            biases=shape.biases,
        )
        self.mlp_norm = make_norm(shape, shape.hidden_units > 0)
        self.mlp = Mlp(shape) if shape.hidden_units else None

    def forward(self, hidden: Hidden, visible: Visible) -> Hidden:
        """The hidden states after the block."""
        return self.finish(hidden, self.attention(hidden.map(self.attention_norm), visible))

    def finish(self, hidden: Hidden, change: Hidden) -> Hidden:
        """The hidden states after the block, once attention has its change."""
        hidden = hidden.map(torch.add, change)
        if self.mlp is None:
            return hidden
        mlp, norm = self.mlp, self.mlp_norm
        return hidden.map(lambda part: part + mlp(norm(part)))


class Mlp(nn.Module):
    """Two linear maps with an activation between: D -> H -> D."""

    def __init__(self, shape: BlockShape) -> None:
        super().__init__()
        self.activation: Activation = shape.activation
        self.up = nn.Linear(shape.width, shape.hidden_units, bias=shape.biases)
        self.down = nn.Linear(shape.hidden_units, shape.width, bias=shape.biases)

    def forward(self, inputs: Tensor) -> Tensor:
        """The change (.., D) that inputs (.., D) make."""
        return self.down(activate(self.up(inputs), self.activation))


def activate(values: Tensor, activation: Activation) -> Tensor:
    """The activation of each value."""
    if activation == "relu":
        return functional.relu(values)
    return functional.gelu(values, approximate="tanh" if activation == "gelu-tanh" else "none")


def make_norm(shape: BlockShape, present: bool) -> nn.Module:
    """The norm of the kind that the shape asks for, or the identity."""
    if not present or shape.norm == "none":
        return nn.Identity()
    if shape.norm == "rms":
        return nn.RMSNorm(shape.width, eps=EPSILON)
    return nn.LayerNorm(shape.width, eps=EPSILON)
