"""The backbone of every transformer here, hidden states to hidden states: a stack or a loop.

It knows nothing of prompts. `begin`, `step` and `end` are the three parts of an iteration: what
happens before the first step, in each step, and where the result is read.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from typing import ClassVar, Literal

import torch
from pydantic import Field, model_validator
from torch import Tensor, nn

from innerloop.core.errors import PromptError
from innerloop.models.block import Block, BlockShape, BlockSize, make_norm
from innerloop.models.hidden import Hidden, Visible
from innerloop.models.settings import BACKWARD, MOST_LOOPS


@dataclass(frozen=True, slots=True, eq=False)
class BackboneState:
    """Where an iteration is, and what comes in again at every step."""

    now: Hidden
    """What the steps move."""
    factor: Hidden | None = None
    """What it is multiplied by at the beginning of every step; None: nothing."""
    term: Hidden | None = None
    """What is added to it after that; None: nothing."""

    def entering(self) -> Hidden:
        """What the blocks of the next step are applied to: now * factor + term."""
        hidden = self.now if self.factor is None else self.now.map(torch.mul, self.factor)
        return hidden.plus(self.term)


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
        if self.sizes is not None and len(self.sizes) != self.blocks:
            raise ValueError(
                f"sizes of {len(self.sizes)} blocks for {self.blocks} (pre {self.pre}, layers "
                f"{self.layers}, post {self.post}): give one per block, or none"
            )
        return self

    @property
    def blocks(self) -> int:
        """Blocks before, in and after the iteration."""
        return self.pre + self.layers + self.post

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
        return self.block_operations(tokens) * (1 + BACKWARD) * self.blocks

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

    looped: ClassVar[bool] = False
    inject: ClassVar[Literal["none"]] = "none"
    kind: Literal["stack"] = Field(
        default="stack", description="how blocks follow each other: stack or loop"
    )
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
        """The number of steps: one per block, or per group of blocks."""
        return self.layers // self.layers_per_step

    @property
    def title(self) -> str:
        """What a transformer of this shape is called."""
        return f"transformer ({self.layers} layers)"

    @property
    def norm_in_step(self) -> bool:
        """Whether every step ends with a norm."""
        return False

    def blocks_of_step(self, k: int) -> slice:
        """The blocks of step k among all; beyond the last step there are none."""
        return slice(k * self.layers_per_step, (k + 1) * self.layers_per_step)

    def start(self, embedded: Hidden, positions: Hidden | None) -> BackboneState:
        """The state before the first step. Nothing comes in later."""
        return BackboneState(embedded.plus(positions))


class Loop(_Blocks):
    """The same blocks again and again: Y <- M(Y + P), from Y = 0.

    P is the input with its positions, or what the pre-transformer makes of it. Without injection
    Y starts at P (positions are still added at every loop where there is no pre-transformer);
    with `multiply` Y <- M(Y * E + positions), from Y = 1. The post-transformer is applied where the
    result is read.
    """

    looped: ClassVar[bool] = True
    kind: Literal["loop"] = Field(
        default="loop", description="how blocks follow each other: stack or loop"
    )
    layers: int = Field(default=1, ge=1, description="blocks of the loop")
    loops: int = Field(default=20, ge=1, le=MOST_LOOPS, description="loops that it is trained with")
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
        """The number of steps that it is trained with: one per loop."""
        return self.loops

    @property
    def title(self) -> str:
        """What a transformer of this shape is called."""
        if self.pre or self.post:
            return f"AlgoFormer ({self.pre} + {self.layers} + {self.post} layers)"
        kind = "tied" if self.inject == "none" else "looped"
        layers = "1 layer" if self.layers == 1 else f"{self.layers} layers"
        return f"{kind} transformer ({layers})"

    @property
    def norm_in_step(self) -> bool:
        """Whether every step ends with a norm."""
        return self.final_norm and self.norm_inside

    def blocks_of_step(self, k: int) -> slice:
        """The blocks of step k: all of them, at every step."""
        return slice(None)

    def start(self, embedded: Hidden, positions: Hidden | None) -> BackboneState:
        """The state before the first step, with what is injected at every step.

        Positions are injected with the input; behind a pre-transformer, which has seen them, they
        are None.
        """
        if self.inject == "none":
            return BackboneState(embedded, term=positions)
        if self.inject == "add":
            return BackboneState(embedded.map(torch.zeros_like), term=embedded.plus(positions))
        return BackboneState(embedded.map(torch.ones_like), factor=embedded, term=positions)


BackboneShape = Stack | Loop


RunBlocks = Callable[[Iterable[nn.Module], Hidden, Visible], Hidden]
"""Applies blocks one after the other."""


class Backbone(nn.Module):
    """Hidden states (B, T, D) -> hidden states (B, T, D), by a `Stack` or a `Loop` of blocks."""

    def __init__(self, shape: BackboneShape, *, positions: int = 0) -> None:
        """`positions` tokens have a learned vector each; 0: no token has one."""
        super().__init__()
        self.shape = shape
        self.positions = nn.Parameter(torch.zeros(positions, shape.width)) if positions else None
        first, last = shape.pre, shape.pre + shape.layers
        self.blocks = _blocks(shape, range(first, last))
        self.pre = _blocks(shape, range(first))
        self.post = _blocks(shape, range(last, last + shape.post))
        self.loop_norm = make_norm(shape, shape.norm_in_step)
        # A norm inside the loop is the last one, unless other blocks come after it.
        outside = shape.final_norm and (not shape.norm_in_step or shape.post > 0)
        self.final_norm = make_norm(shape, outside)

    def begin(
        self,
        embedded: Hidden,
        visible: Visible,
        *,
        run: RunBlocks | None = None,
        places: Tensor | None = None,
    ) -> BackboneState:
        """The state before the first step: positions, the pre-transformer, what is injected.

        `run`, here and in `step` and `end`, may apply blocks in another way than torch does; tokens
        that are not 0, 1, .. have their `places` (B, T) given.
        """
        positions = self._positions_of(embedded, visible, places)
        if len(self.pre):
            run = self._run if run is None else run
            embedded, positions = run(self.pre, embedded.plus(positions), visible), None
        return self.shape.start(embedded, positions)

    def step(
        self, state: BackboneState, k: int, visible: Visible, *, run: RunBlocks | None = None
    ) -> BackboneState:
        """The state after step k: some blocks of a stack, all blocks of a loop."""
        blocks = list(self.blocks)[self.shape.blocks_of_step(k)]
        hidden = (self._run if run is None else run)(blocks, state.entering(), visible)
        return replace(state, now=hidden.map(self.loop_norm))

    def end(
        self, state: BackboneState, visible: Visible, *, run: RunBlocks | None = None
    ) -> Hidden:
        """What the post-transformer and the final norm make of the state."""
        run = self._run if run is None else run
        return run(self.post, state.now, visible).map(self.final_norm)

    def _positions_of(
        self, hidden: Hidden, visible: Visible, places: Tensor | None
    ) -> Hidden | None:
        """The vectors to add: tokens (T, D), queries (n, 1, D) that of the x that they replace."""
        if self.positions is None:
            return None
        length = hidden.tokens.shape[1] if places is None else int(places.max()) + 1
        if length > len(self.positions):
            raise PromptError(
                f"the prompt has {length} tokens, the model has positions for "
                f"{len(self.positions)}: take fewer points, or a model made for more."
            )
        tokens = self.positions[:length] if places is None else self.positions[places]  # (.., T, D)
        if hidden.asked is None:
            return Hidden(tokens)
        place = visible.counts(range(hidden.asked.shape[1]), tokens.device)  # (n,)
        return Hidden(tokens, self.positions[place][:, None])

    @staticmethod
    def _run(blocks: Iterable[nn.Module], hidden: Hidden, visible: Visible) -> Hidden:
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
