"""Blocks applied again and again, as one differentiable function with a backward pass by hand.

    x = y * factor + term;  y <- norm(blocks(x))

A stack, and the pre- and the post-transformer, are the same with one loop. Prompts are taken a few
at a time, so that what one operation writes is still in the cache when the next one reads it.

Shapes: B prompts, T tokens, n tokens that are kept, D width, W loops in the window; R = B T rows,
or R' = B n behind the last block.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import torch
from torch import Tensor
from torch.autograd import Function
from torch.autograd.function import once_differentiable

from innerloop.core.errors import NotSupportedError
from innerloop.models.fused_block import (
    NUMBER_OF_WEIGHTS,
    BlockPass,
    BlockRoom,
    BlockSizes,
    BlockWeights,
)
from innerloop.models.fused_workspace import borrow, give_back

_norm_backward = torch.ops.aten.native_layer_norm_backward.default
_CHUNK = 2**21
"""About how many hidden units the prompts have that are computed at a time."""


@dataclass(frozen=True, slots=True)
class LoopPlan:
    """What is computed, but for the numbers."""

    role: str
    """Computations of one role use the same memory after each other: see `fused_workspace`."""
    sizes: BlockSizes
    blocks: int
    loops: int
    window: int
    """How many loops, the last ones, have gradients and are returned."""
    first: int = 0
    """The first token that is returned."""
    stride: int = 1
    """How far the tokens lie apart that are returned."""
    gradient: bool = True
    """Whether there may be a way back."""

    @property
    def keep(self) -> slice | None:
        """The tokens that are returned; None: all."""
        whole = (self.first, self.stride) == (0, 1)
        return None if whole else slice(self.first, None, self.stride)

    @property
    def chunks(self) -> list[slice]:
        """The prompts that are taken at a time, about equally many."""
        batch, tokens = self.sizes.attention.batch, self.sizes.attention.tokens
        number = min(-(-batch * tokens * self.sizes.hidden // _CHUNK), batch)
        edges = [i * batch // number for i in range(number + 1)]
        return [slice(edges[i], edges[i + 1]) for i in range(number)]

    def of(self, which: slice) -> "LoopPlan":
        """The plan for some of the prompts."""
        attention = replace(self.sizes.attention, batch=which.stop - which.start)
        return replace(self, sizes=replace(self.sizes, attention=attention))


@dataclass(slots=True, eq=False)
class LoopInputs:
    """What is differentiated by, beside the blocks' weights; or the gradients."""

    start: Tensor
    """y before the first loop: (B, T, D), or (R, D) of some prompts."""
    factor: Tensor | None
    """The same shape, or None for 1."""
    term: Tensor | None
    """The same shape, or None for 0."""
    gain: Tensor | None
    """(D,): of the norm at the end of a loop; None: there is no norm."""
    bias: Tensor | None
    """(D,)."""

    def part(self, which: slice) -> "LoopInputs":
        """The rows (R, D) of some prompts."""

        def rows(value: Tensor) -> Tensor:
            return value[which].flatten(0, 1)

        factor = None if self.factor is None else rows(self.factor)
        term = None if self.term is None else rows(self.term)
        return LoopInputs(rows(self.start), factor, term, self.gain, self.bias)


@dataclass(slots=True, eq=False)
class LoopPass:
    """One loop, with what its way back needs."""

    room: BlockRoom
    blocks: list[BlockPass]
    stream: Tensor = field(init=False)
    """(R, D): the residual stream."""
    start: Tensor | None = None
    """(R, D): y before the loop, where the factor's gradient needs it."""
    end: Tensor | None = None
    """(R', D): what goes into the norm."""
    moments: tuple[Tensor, Tensor] | None = None
    """(R', 1) each: the mean and the inverse deviation of the norm's input."""

    def __post_init__(self) -> None:
        """Take the memory of the stream."""
        self.stream = torch.empty_like(self.room.change)

    def forward(self, inputs: LoopInputs, weights: Sequence[BlockWeights], state: Tensor) -> Tensor:
        """One loop, y <- norm(blocks(y * factor + term)): (R', D) of (R, D)."""
        factor, term, stream = inputs.factor, inputs.term, self.stream
        if factor is not None:
            torch.mul(state, factor, out=stream)
            self.start = state
            if term is not None:
                stream += term
        elif term is not None:
            torch.add(state, term, out=stream)
        else:
            stream.copy_(state)
        for block, maps in zip(self.blocks, weights, strict=True):
            stream = block.forward(maps, stream)  # (R', D)
        self.end = stream
        if inputs.gain is None:
            return stream
        sizes = self.room.sizes
        state, *moments = torch.native_layer_norm(
            stream, [sizes.width], inputs.gain, inputs.bias, sizes.eps
        )  # (R', D), (R', 1), (R', 1)
        self.moments = (moments[0], moments[1])
        return state

    def backward(
        self,
        inputs: LoopInputs,
        gradients: LoopInputs,
        weights: Sequence[BlockWeights],
        sums: Sequence[BlockWeights],
        change: Tensor,
    ) -> Tensor:
        """The gradient of y before the loop, (R, D), of that after it, (R', D).

        The other gradients are added to `gradients` and `sums`.
        """
        change = self._norm_backward(inputs, gradients, change)  # (R', D)
        for block, maps, sum_ in reversed(list(zip(self.blocks, weights, sums, strict=True))):
            change = block.backward(maps, sum_, change)  # (R, D)
        if gradients.term is not None:
            gradients.term += change
        if inputs.factor is not None:
            assert gradients.factor is not None
            assert self.start is not None
            gradients.factor.addcmul_(change, self.start)
            change *= inputs.factor
        return change

    def _norm_backward(self, inputs: LoopInputs, gradients: LoopInputs, change: Tensor) -> Tensor:
        if gradients.gain is None or gradients.bias is None:
            return change
        assert self.moments is not None
        d_end, d_gain, d_bias = _norm_backward(
            change,
            self.end,
            [self.room.sizes.width],
            *self.moments,
            inputs.gain,
            inputs.bias,
            [True, True, True],
        )  # (R', D), (D,), (D,)
        gradients.gain += d_gain
        gradients.bias += d_bias
        return d_end


class Chunk:
    """Some prompts, and the memory of their loops."""

    def __init__(self, plan: LoopPlan, like: Tensor) -> None:
        self.plan = plan
        self.room = BlockRoom(plan.sizes, like)
        # Loops whose way back is not taken share one pass.
        forgotten = plan.loops - (plan.window if plan.gradient else 1)
        self.passes = [self._loop(last=False)] * forgotten if forgotten else []
        for i in range(forgotten, plan.loops):
            self.passes.append(self._loop(last=i == plan.loops - 1))

    def _loop(self, *, last: bool) -> LoopPass:
        """Only the last block of the last loop may drop tokens: others are still to be seen."""
        keeps = [None] * (self.plan.blocks - 1) + [self.plan.keep if last else None]
        return LoopPass(self.room, [BlockPass(self.room, keep) for keep in keeps])

    def forward(self, inputs: LoopInputs, weights: Sequence[BlockWeights], states: Tensor) -> None:
        """Run all loops and write the states (W, B, n, D) of the window."""
        state, early = inputs.start, self.plan.loops - self.plan.window  # (R, D)
        for loop, each in enumerate(self.passes):
            state = each.forward(inputs, weights, state)  # (R, D), at last (R', D)
            if loop >= early:
                last = loop == self.plan.loops - 1
                states[loop - early] = self._kept(state, all_are=last)

    def backward(
        self,
        inputs: LoopInputs,
        gradients: LoopInputs,
        weights: Sequence[BlockWeights],
        sums: Sequence[BlockWeights],
        changes: Tensor,
    ) -> None:
        """Run the window backwards, from the gradients (W, B, n, D) of its states."""
        window = self.plan.window
        change = changes[-1].flatten(0, 1).clone()  # (R', D)
        for i in reversed(range(window)):
            each = self.passes[i - window]
            change = each.backward(inputs, gradients, weights, sums, change)  # (R, D)
            if i > 0:
                kept = self._kept(change, all_are=False)  # (B, n, D), a view
                kept += changes[i - 1]
        if window == self.plan.loops:
            gradients.start.copy_(change)

    def _kept(self, rows: Tensor, *, all_are: bool) -> Tensor:
        """A view (B, n, D) of the tokens that are returned."""
        tokens = rows.view(self.plan.sizes.attention.batch, -1, rows.shape[1])  # (B, T or n, D)
        return tokens if all_are else tokens[:, self.plan.first :: self.plan.stride]


class FusedLoop(Function):
    """The states (W, B, n, D) after each loop of the window."""

    @staticmethod
    def forward(
        ctx: Any,
        plan: LoopPlan,
        start: Tensor,
        factor: Tensor | None,
        term: Tensor | None,
        gain: Tensor | None,
        bias: Tensor | None,
        *weights: Tensor,
    ) -> Tensor:
        """Run all loops, chunk by chunk."""
        inputs = LoopInputs(start, factor, term, gain, bias)
        key = (plan, start.dtype, start.device)
        chunks = borrow(plan.role, key, lambda: [Chunk(plan.of(s), start) for s in plan.chunks])
        transposed = [block.transposed for block in _by_block(weights)]
        tokens = len(range(plan.first, start.shape[1], plan.stride))
        states = start.new_empty(plan.window, len(start), tokens, start.shape[2])  # (W, B, n, D)
        for which, chunk in zip(plan.chunks, chunks, strict=True):
            chunk.forward(inputs.part(which), transposed, states[:, which])
        if plan.gradient:
            ctx.plan, ctx.key, ctx.chunks = plan, key, chunks
            ctx.save_for_backward(start, factor, term, gain, bias, *weights)
        else:
            give_back(plan.role, key, chunks)
        return states

    @staticmethod
    @once_differentiable
    def backward(  # pyright: ignore[reportIncompatibleMethodOverride]
        ctx: Any, *changes: Tensor
    ) -> tuple[Tensor | None, ...]:
        """Run the window backwards; then its memory is free for the next step."""
        if ctx.chunks is None:
            raise NotSupportedError(
                "fused kernels run backward once: call window_outputs again instead of keeping "
                "its graph."
            )
        inputs, weights = LoopInputs(*ctx.saved_tensors[:5]), _by_block(ctx.saved_tensors[5:])
        zeros = [None if each is None else _zeros_like(each) for each in ctx.saved_tensors]
        gradients = LoopInputs(*zeros[:5])  # pyright: ignore[reportArgumentType]
        sums = _by_block(zeros[5:])  # pyright: ignore[reportArgumentType]
        for which, chunk in zip(ctx.plan.chunks, ctx.chunks, strict=True):
            chunk.backward(
                inputs.part(which), gradients.part(which), weights, sums, changes[0][:, which]
            )
        give_back(ctx.plan.role, ctx.key, ctx.chunks)
        ctx.chunks = None
        return (None, *zeros)


def _by_block(tensors: Sequence[Tensor]) -> list[BlockWeights]:
    starts = range(0, len(tensors), NUMBER_OF_WEIGHTS)
    return [BlockWeights(*tensors[i : i + NUMBER_OF_WEIGHTS]) for i in starts]


def _zeros_like(value: Tensor) -> Tensor:
    """Zeros, with the shorter axis of a matrix first in memory: products are quicker to that."""
    tall = value.ndim == 2 and value.shape[0] > value.shape[1]
    return value.new_zeros(value.shape[::-1]).t() if tall else torch.zeros_like(value)
