"""A looped transformer over tables: features are a set, rows are a set, every loop is a step.

Shapes: B tables, n points, of which m = n - 1 are examples, q questions, d features, k outputs;
r = 1 + m + q rows, c = d + 1 cells per row, D width.
"""

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Literal

import torch
from pydantic import Field
from torch import Tensor, nn

from innerloop.core.learner import Traits
from innerloop.core.prompt import Prompt
from innerloop.core.state_parts import MovingPart
from innerloop.models.model import Model, initialise
from innerloop.models.settings import BACKWARD, ModelSettings
from innerloop.models.tabular_block import TabularBlock, TabularShape

FARTHEST = 10.0
"""Standardised inputs beyond are put here: one outlier must not drown a table."""
SURENESS = (-9.0, 3.0)
"""Bounds of a log-variance, in units of the examples' spread."""


class TabularConfig(ModelSettings):
    """All that a `TabularTransformer` is but its weights; it reads tables of any size."""

    kind: Literal["tabular"] = Field(default="tabular", description="the model: tabular")
    label: str = Field(default="", description="what tables call it; empty: what it is made of")
    outputs: int = Field(default=1, ge=1, description="outputs of a row")
    head: Literal["regression", "gaussian", "binary"] = Field(
        default="gaussian", description="what the readout means"
    )
    shape: TabularShape = Field(default_factory=TabularShape, description="of its blocks")

    @property
    def blocks(self) -> int:
        """As they are given."""
        return self.shape.layers

    @property
    def trained_loops(self) -> int:
        """As they are given."""
        return self.shape.loops

    def operations(self, points: int, loops: int | None, window: int | None) -> float:
        """Those of the blocks on an average table: half of the most rows, and 7 features."""
        shape, cells = self.shape, 8 * points / 2
        per_cell = (16 * shape.width + 4 * shape.hidden_units + 4 * (points + 9)) * shape.width
        each = shape.layers * cells * per_cell
        return each * ((loops or 1) + BACKWARD * (window or 1))


@dataclass(frozen=True, slots=True, eq=False)
class TabularState:
    """The cells of all rows, and what is known of the table beside them."""

    now: Tensor
    """(B, r, c, D): a learned row, the examples, the questions."""
    term: Tensor
    """(B, r, c, D): the table, added again at every loop."""
    present: Tensor
    """(B, c) bool: the features that differ between examples, and the target."""
    centre: Tensor
    """(B, 1, k): the mean of the examples' outputs, which answers are measured from."""
    spread: Tensor
    """(B, 1, k): their deviation, which answers are measured in."""


class TabularTransformer(Model[TabularState, TabularConfig]):
    """Y <- norm(M(Y + P)) over the cells of a table, from Y = 0: P is the embedded table.

    The table transformer of TabPFN (Hollmann et al. 2025) in the small form of nanoTabPFN, run in a
    loop: in each block a cell looks at the cells of its row, then at the examples' cells of its
    column. It standardises columns and outputs by the examples, so that units do not matter; a
    feature that all examples agree in is left out. Examples and features are sets, and no question
    sees another: any number of them may be asked at the end.
    """

    looped = True
    answers_at_end = True
    traits = Traits(causal=False, order_invariant=True)

    def __init__(self, config: TabularConfig, *, generator: torch.Generator | None = None) -> None:
        """Weights are drawn from the generator; without one, from a seed of 0."""
        super().__init__()
        self.config, self.head, self.steps = config, config.head, config.shape.loops
        width, outputs = config.shape.width, config.outputs
        self.feature = nn.Linear(1, width)
        self.target = nn.Linear(outputs, width)
        self.unknown = nn.Parameter(torch.zeros(width))
        """The target of a question."""
        self.first_row = nn.Parameter(torch.zeros(2, width))
        """A feature and the target of a learned row above all others: there is always one."""
        self.blocks = nn.ModuleList(TabularBlock(config.shape) for _ in range(config.shape.layers))
        self.norm = nn.LayerNorm(width)
        self.readout = nn.Linear(width, 2 * outputs if config.head == "gaussian" else outputs)
        initialise(self, spread="fan-in", generator=generator or torch.Generator().manual_seed(0))

    @cached_property
    def name(self) -> str:
        """Its label, or what it is and how large."""
        shape = self.config.shape
        layers = "1 layer" if shape.layers == 1 else f"{shape.layers} layers"
        return self.config.label or f"tabular transformer ({layers})"

    def init(self, prompt: Prompt) -> TabularState:
        """Standardise by the examples, and embed every cell."""
        weight = self.feature.weight
        examples, asked = prompt.xs[:, :-1], prompt.asked[:, -1]  # (B, m, d), (B, q, d)
        middle, deviation = _moments(examples)  # (B, 1, d) each
        present = deviation[:, 0] > 0  # (B, d)
        used = present.any(dim=0)  # (d,): what no table of the batch has is not computed
        rows = torch.cat([examples, asked], dim=1)  # (B, m + q, d)
        scaled = (rows - middle) / torch.where(deviation > 0, deviation, 1.0)  # (B, m + q, d)
        scaled = scaled[..., used].clamp(-FARTHEST, FARTHEST).to(weight)  # (B, m + q, u)
        ys = prompt.ys[:, :-1]  # (B, m, k)
        centre, spread = self._scale_of(ys)  # (B, 1, k) each
        targets = self.target(((ys - centre) / spread).to(weight))  # (B, m, D)
        unknown = self.unknown.expand(prompt.batch, asked.shape[1], -1)  # (B, q, D)
        last = torch.cat([targets, unknown], dim=1)[:, :, None]  # (B, m + q, 1, D)
        cells = torch.cat([self.feature(scaled[..., None]), last], dim=2)  # (B, m + q, c, D)
        first = torch.cat([self.first_row[:1].expand(cells.shape[2] - 1, -1), self.first_row[1:]])
        term = torch.cat([first.expand(prompt.batch, 1, -1, -1), cells], dim=1)  # (B, r, c, D)
        shown = torch.cat([present[:, used], present.new_ones(prompt.batch, 1)], dim=1)  # (B, c)
        return TabularState(torch.zeros_like(term), term, shown, centre, spread)

    def step(self, prompt: Prompt, state: TabularState, k: int) -> TabularState:
        """One more loop."""
        cells = state.now + state.term  # (B, r, c, D)
        present = None if bool(state.present.all()) else state.present
        for block in self.blocks:
            cells = block(cells, present, prompt.points)  # the learned row and m examples
        return replace(state, now=self.norm(cells))

    def outputs(self, prompt: Prompt, state: TabularState) -> Tensor:
        """The readout of the questions' targets, in the units of the examples.

        Without queries the question is the last x, and the answers at all others are 0.
        """
        values = self.readout(state.now[:, prompt.points :, -1])  # (B, q, k or 2 k)
        if self.head != "binary":
            means, *logs = values.chunk(2 if self.head == "gaussian" else 1, dim=-1)
            means = means * state.spread.to(values) + state.centre.to(values)  # (B, q, k)
            logs = [log.clamp(*SURENESS) + 2 * state.spread.log().to(values) for log in logs]
            values = torch.cat([means, *logs], dim=-1)
        if prompt.queries is not None:
            return values[:, None]  # (B, 1, q, k or 2 k)
        before = values.new_zeros(prompt.batch, prompt.points - 1, values.shape[-1])
        return torch.cat([before, values], dim=1)  # (B, n, k or 2 k)

    def _scale_of(self, ys: Tensor) -> tuple[Tensor, Tensor]:
        """What answers are measured from and in, (B, 1, k) each; labels are what they are."""
        if self.head == "binary":
            return ys.new_zeros(len(ys), 1, ys.shape[2]), ys.new_ones(len(ys), 1, ys.shape[2])
        centre, deviation = _moments(ys)
        return centre, torch.where(deviation > 0, deviation, 1.0)

    @property
    def moving(self) -> MovingPart[TabularState]:
        """The cells."""
        return MovingPart(
            self.name, lambda state: state.now, lambda state, now: replace(state, now=now)
        )

    def bytes_per_prompt(self, prompt: Prompt) -> int:
        """The cells of all rows, a few times over."""
        rows = prompt.points + prompt.asked.shape[2]
        shape, cells = self.config.shape, rows * (prompt.dims + 1)
        return cells * (10 * shape.width + 2 * shape.hidden_units) * self.dtype.itemsize

    def matrices(self) -> list[nn.Parameter]:
        """The linear maps of all blocks."""
        return [one for block in self.blocks for one in block.parameters() if one.ndim == 2]

    def compiled_parts(self) -> list[nn.Module]:
        """The blocks."""
        return list(self.blocks)


def _moments(values: Tensor) -> tuple[Tensor, Tensor]:
    """Mean and deviation (B, 1, d) over the rows (B, m, d); 0 where nothing differs."""
    if not values.shape[1]:
        nothing = values.new_zeros(len(values), 1, values.shape[2])
        return nothing, nothing
    middle = values.mean(dim=1, keepdim=True)  # (B, 1, d)
    deviation = (values - middle).square().mean(dim=1, keepdim=True).sqrt()  # (B, 1, d)
    # Equal values whose mean is rounded differ from it by about an ulp of the largest.
    tiny = 8 * torch.finfo(values.dtype).eps * values.abs().amax(dim=1, keepdim=True)  # (B, 1, d)
    return middle, torch.where(deviation > tiny, deviation, 0.0)
