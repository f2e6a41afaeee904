"""The backbone of every transformer here, hidden states to hidden states: a stack or a loop.

It knows nothing of prompts. `begin`, `step` and `end` are the three parts of an iteration: what
happens before it, once in it, and after it.
"""

from dataclasses import dataclass, replace
from typing import Literal

import torch
from pydantic import Field, model_validator
from torch import Tensor, nn

from innerloop.core.errors import PromptError
from innerloop.models.block import Block, BlockShape, BlockSize, make_norm
from innerloop.models.hidden import Hidden, Visible
from innerloop.models.settings import BACKWARD


class _Blocks(BlockShape):
    """What a stack and a loop have in common: blocks before, in and after the iteration."""

    layers: int = Field(ge=1, description="blocks of the iteration")
    pre: int = Field(default=0, ge=0, description="blocks of the pre-transformer")
    post: int = Field(default=0, ge=0, description="blocks of the post-transformer")
    sizes: tuple[BlockSize, ...] | None = Field(
        default=None,
        description="of each block: those of pre, of the iteration, of post; None: all alike",
    )

    @model_validator(mode="after")
    def _check_sizes(self) -> "_Blocks":
        total = self.pre + self.layers + self.post
        if self.sizes is not None and len(self.sizes) != total:
            raise ValueError(
                f"sizes of {len(self.sizes)} blocks for {total} (pre {self.pre}, layers "
                f"{self.layers}, post {self.post}): give one a block, or none"
            )
        return self

    @property
    def trained_loops(self) -> int | None:
        """The loops that it is trained with; None if it does not loop."""
        return None

    @property
    def reinjects(self) -> bool:
        """Whether the input comes in again at every loop."""
        return False

    @property
    def summary(self) -> str:
        """`12 layers`."""
        return f"{self.layers} layer{'s' if self.layers > 1 else ''}"

    def block_operations(self, tokens: int) -> float:
        """Operations, about, of one block on a prompt of so many tokens, without its gradient."""
        # 12 D^2 weights, each a product and a sum; scores and values over all earlier tokens.
        return tokens * (24 * self.width**2 + 4 * tokens * self.width)

    def operations(self, tokens: int, loops: int, window: int) -> float:
        """Operations, about, of a prompt and its gradient, which goes through the last loops."""
        blocks = self.layers + self.pre + self.post
        return self.block_operations(tokens) * (1 + BACKWARD) * blocks

    def block(self, index: int) -> BlockShape:
        """The shape of one block, counted from the first of the pre-transformer."""
        if self.sizes is None:
            return self
        return self.model_copy(update=dict(self.sizes[index]))


class Stack(_Blocks):
    """Blocks one after the other, each with weights of its own; a step is a block, or several.

    Blocks before the first step and after the last are for circuits: an algorithm may need them to
    prepare what its steps work on, and to read its answer.
    """

    kind: Literal["stack"] = "stack"
    layers: int = Field(default=12, ge=1, description="blocks, one after the other")
    layers_per_step: int = Field(default=1, ge=1, description="blocks of one step")
    final_norm: bool = Field(default=True, description="a norm before the readout")

    @model_validator(mode="after")
    def _check_steps(self) -> "Stack":
        if self.layers % self.layers_per_step:
            raise ValueError(
                f"{self.layers} layers are no whole number of steps of {self.layers_per_step}: "
                "choose a multiple"
            )
        return self

    @property
    def steps(self) -> int:
        """One a block, or a group of blocks."""
        return self.layers // self.layers_per_step


class Loop(_Blocks):
    """The same blocks again and again: Y <- M(Y + P), from Y = 0.

    P is the input with its positions, or what the pre-transformer makes of it. Without injection
    Y starts at P (positions are still added at every loop where there is no pre-transformer);
    with `multiply` Y <- M(Y * E + positions), from Y = 1. The post-transformer is applied where the
    result is read.
    """

    kind: Literal["loop"] = "loop"
    layers: int = Field(default=1, ge=1, description="blocks of the loop")
    loops: int = Field(default=20, ge=1, description="loops that it is trained with")
    inject: Literal["none", "add", "multiply"] = Field(
        default="add", description="how the input comes in again at every loop"
    )
    final_norm: bool = Field(default=True, description="a norm at the end")
    norm_inside: bool = Field(
        default=True, description="whether the norm at the end is part of the loop"
    )

    @property
    def trained_loops(self) -> int | None:
        """As they are given."""
        return self.loops

    @property
    def reinjects(self) -> bool:
        """Whether the input comes in again at every loop."""
        return self.inject != "none"

    @property
    def summary(self) -> str:
        """`1 layer looped 20 times (add)`."""
        return f"{super().summary} looped {self.loops} times ({self.inject})"

    def operations(self, tokens: int, loops: int, window: int) -> float:
        """Operations, about, of a prompt and its gradient, which goes through the last loops."""
        # The post-transformer reads every loop of the window.
        once = (1 + BACKWARD) * (self.pre + self.post * window)
        return self.block_operations(tokens) * (self.layers * (loops + BACKWARD * window) + once)

    @property
    def steps(self) -> int:
        """One a loop."""
        return self.loops


BackboneShape = Stack | Loop


@dataclass(frozen=True, slots=True, eq=False)
class BackboneState:
    """Where an iteration stands."""

    now: Hidden
    """What the steps move."""
    injected: Hidden | None = None
    """What comes in at every step."""


class Backbone(nn.Module):
    """Hidden states (B, T, D) -> hidden states (B, T, D), by a `Stack` or a `Loop` of blocks."""

    def __init__(self, shape: BackboneShape, *, positions: int = 0) -> None:
        """Positions are learned vectors for so many tokens; 0: there are none."""
        super().__init__()
        self.shape = shape
        self.positions = nn.Parameter(torch.zeros(positions, shape.width)) if positions else None
        first, last = shape.pre, shape.pre + shape.layers
        self.blocks = _blocks(shape, range(first, last))
        self.pre = _blocks(shape, range(first))
        self.post = _blocks(shape, range(last, last + shape.post))
        inside = isinstance(shape, Loop) and shape.norm_inside and shape.final_norm
        self.loop_norm = make_norm(shape, inside)
        # A norm inside the loop is the last one, unless other blocks come after it.
        outside = shape.final_norm and (not inside or len(self.post) > 0)
        self.final_norm = make_norm(shape, outside)

    @property
    def steps(self) -> int:
        """How many steps it takes by default."""
        return self.shape.steps

    def begin(self, embedded: Hidden, visible: Visible) -> BackboneState:
        """Before the first step."""
        if isinstance(self.shape, Stack):
            placed = self._with_positions(embedded, visible)
            return BackboneState(self._run(self.pre, placed, visible))
        injected = embedded
        if len(self.pre):
            injected = self._run(self.pre, self._with_positions(embedded, visible), visible)
        if self.shape.inject == "none":
            return BackboneState(injected)
        if self.shape.inject == "add":
            # Positions are part of what is injected; behind a pre-transformer they are in already.
            if not len(self.pre):
                injected = self._with_positions(injected, visible)
            return BackboneState(injected.map(torch.zeros_like), injected)
        return BackboneState(injected.map(torch.ones_like), injected)

    def step(self, state: BackboneState, k: int, visible: Visible) -> BackboneState:
        """After the blocks of step k of a stack (beyond the last there are none), or a loop."""
        if isinstance(self.shape, Stack):
            each = self.shape.layers_per_step
            return BackboneState(
                self._run(self.blocks[k * each : (k + 1) * each], state.now, visible)
            )
        hidden = self._run(self.blocks, self._combined(state, visible), visible)
        return replace(state, now=hidden.map(self.loop_norm))

    def end(self, state: BackboneState, visible: Visible) -> Hidden:
        """What the state comes to when it is read now."""
        return self._run(self.post, state.now, visible).map(self.final_norm)

    def forward(self, embedded: Hidden, visible: Visible, *, steps: int | None = None) -> Hidden:
        """From beginning to end."""
        state = self.begin(embedded, visible)
        for k in range(self.steps if steps is None else steps):
            state = self.step(state, k, visible)
        return self.end(state, visible)

    def _combined(self, state: BackboneState, visible: Visible) -> Hidden:
        """What goes into the blocks of the loop."""
        assert isinstance(self.shape, Loop)
        if self.shape.inject == "add":
            assert state.injected is not None
            return state.now.map(torch.add, state.injected)
        hidden = state.now
        if self.shape.inject == "multiply":
            assert state.injected is not None
            hidden = hidden.map(torch.mul, state.injected)
        return hidden if len(self.pre) else self._with_positions(hidden, visible)

    def _with_positions(self, hidden: Hidden, visible: Visible) -> Hidden:
        """Tokens plus the vector of their place, queries plus that of the x that they replace."""
        if self.positions is None:
            return hidden
        length = hidden.tokens.shape[1]
        if length > len(self.positions):
            raise PromptError(
                f"the prompt has {length} tokens, the model has positions for "
                f"{len(self.positions)}: take fewer points, or a model made for more."
            )
        tokens = hidden.tokens + self.positions[:length]  # (B, T, D)
        if hidden.asked is None:
            return Hidden(tokens)
        place = visible.counts(range(hidden.asked.shape[1]), tokens.device)  # (n,)
        return Hidden(tokens, hidden.asked + self.positions[place][:, None])

    @staticmethod
    def _run(blocks: nn.ModuleList, hidden: Hidden, visible: Visible) -> Hidden:
        for block in blocks:
            hidden = block(hidden, visible)
        return hidden


def _blocks(shape: BackboneShape, which: range) -> nn.ModuleList:
    return nn.ModuleList(Block(shape.block(index)) for index in which)


def moving_part(state: BackboneState) -> Tensor:
    """What the steps of a loop move: (B, T, D), or (B, .) with the queries behind the tokens."""
    now = state.now
    if now.asked is None:
        return now.tokens
    return torch.cat([now.tokens.flatten(1), now.asked.flatten(1)], dim=1)


def with_moving_part(state: BackboneState, moving: Tensor) -> BackboneState:
    """The state with what its steps move replaced."""
    now = state.now
    if now.asked is None:
        return replace(state, now=Hidden(moving))
    split = now.tokens[0].numel()
    tokens = moving[:, :split].reshape(now.tokens.shape)  # (B, T, D)
    asked = moving[:, split:].reshape(now.asked.shape)  # (B, n, q, D)
    return replace(state, now=Hidden(tokens, asked))
