"""One block of a transformer over tables: cells look along their row, then along their column.

Shapes: B tables, m example rows, r rows in all (examples first, then questions), c cells per row
(one per feature, then the target), D width, h heads, s head size.
"""

from pydantic import Field, model_validator
from torch import Tensor, nn

from innerloop.core.config import Config
from innerloop.models.attention import Attention
from innerloop.models.block import BlockShape, Mlp
from innerloop.models.settings import MOST_LOOPS


class TabularShape(Config):
    """The size of the blocks, and how often they are run."""

    width: int = Field(default=64, ge=1, description="size of a cell's vector")
    heads: int = Field(default=4, ge=1, description="attention heads")
    hidden: int | None = Field(default=None, ge=1, description="units of the MLP; None: 2 width")
    layers: int = Field(default=1, ge=1, description="blocks of the loop")
    loops: int = Field(default=8, ge=1, le=MOST_LOOPS, description="loops that it is trained with")

    @model_validator(mode="after")
    def _check_heads(self) -> "TabularShape":
        if self.width % self.heads:
            raise ValueError(
                f"{self.heads} heads do not divide the width {self.width}: choose a width that is "
                "a multiple of the heads"
            )
        return self

    @property
    def hidden_units(self) -> int:
        """The units of the MLP."""
        return 2 * self.width if self.hidden is None else self.hidden


class TabularBlock(nn.Module):
    """Attention among the cells of a row, attention down a column, an MLP; each added.

    Down a column every row looks at the examples and at nothing else: no example sees a question,
    and no question another. Which features there are is a mask: an absent one is never looked at.
    """

    def __init__(self, shape: TabularShape) -> None:
        super().__init__()
        self.row_norm, self.column_norm, self.mlp_norm = (
            nn.LayerNorm(shape.width) for _ in range(3)
        )
        self.row_attention, self.column_attention = (
            Attention(
                width=shape.width, heads=shape.heads, head_size=shape.width // shape.heads,
                causal=False,
            )
            for _ in range(2)
        )  # fmt: skip
        self.mlp = Mlp(BlockShape(width=shape.width, heads=shape.heads, hidden=shape.hidden_units))

    def forward(self, cells: Tensor, present: Tensor | None, examples: int) -> Tensor:
        """The cells (B, r, c, D) after the block; `present` is (B, c), or None: all of them."""
        cells = cells + self._along_rows(self.row_norm(cells), present)
        cells = cells + self._along_columns(self.column_norm(cells), examples)
        return cells + self.mlp(self.mlp_norm(cells))

    def _along_rows(self, cells: Tensor, present: Tensor | None) -> Tensor:
        """What each cell takes from the cells of its row: (B, r, c, D)."""
        batch, rows, number, _ = cells.shape
        queries, keys, values = self.row_attention.split(cells.flatten(0, 1))  # (B r, h, c, s)
        hidden = None
        if present is not None:
            hidden = ~present[:, None, None, None].expand(batch, rows, 1, 1, number).flatten(0, 1)
        taken = _taken(queries, keys, values, hidden)  # (B r, h, c, s)
        return self.row_attention.join(taken).unflatten(0, (batch, rows))

    def _along_columns(self, cells: Tensor, examples: int) -> Tensor:
        """What each cell takes from the examples' cells of its column: (B, r, c, D)."""
        columns = cells.transpose(1, 2).flatten(0, 1)  # (B c, r, D)
        queries, keys, values = self.column_attention.split(columns)  # (B c, h, r, s) each
        taken = _taken(queries, keys[:, :, :examples], values[:, :, :examples])  # (B c, h, r, s)
        mixed = self.column_attention.join(taken)  # (B c, r, D)
        return mixed.unflatten(0, (cells.shape[0], cells.shape[2])).transpose(1, 2)


def _taken(queries: Tensor, keys: Tensor, values: Tensor, hidden: Tensor | None = None) -> Tensor:
    """What softmax attention gives, without the keys that are hidden: (.., t, s).

    By plain products: torch's own kernel is ten times slower on many short sequences on a CPU.
    """
    scores = (queries * queries.shape[-1] ** -0.5) @ keys.mT  # (.., t, u)
    if hidden is not None:
        scores = scores.masked_fill(hidden, float("-inf"))
    return scores.softmax(dim=-1) @ values
