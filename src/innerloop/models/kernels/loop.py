"""Blocks applied again and again, as one differentiable function with a backward pass by hand.

    y <- norm(blocks(y + term))

A stack, and the pre- and the post-transformer, are the same with one loop.

Shapes: B prompts, T tokens, n tokens that are returned, D width, W loops in the window; R = B T
rows, or R' = B n behind the last block.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.autograd import Function
from torch.autograd.function import once_differentiable

from innerloop.core.errors import NotSupportedError
from innerloop.models.block import EPSILON
from innerloop.models.kernels.block import BlockPass, BlockRoom, BlockWeights
from innerloop.models.kernels.memory import Sizes, borrow, give_back

_norm_backward = torch.ops.aten.native_layer_norm_backward.default
_PER_BLOCK = len(BlockWeights._fields)


@dataclass(frozen=True, slots=True)
class LoopPlan:
    """What is computed, but for the numbers."""

    role: str
    """Computations of one role use the same memory after each other: see `borrow`."""
    sizes: Sizes
    blocks: int
    loops: int
    window: int
    """How many loops, the last ones, have gradients and are returned."""
    first: int
    """The first token that is returned."""
    stride: int
    """How far the tokens lie apart that are returned."""
    gradient: bool
    """Whether there may be a way back."""

    @property
    def keep(self) -> slice:
        """The tokens that are returned."""
        return slice(self.first, None, self.stride)


class _Inputs(NamedTuple):
    """What all loops read, or the gradients of it."""

    term: Tensor | None
    """(R, D), or None for 0."""
    gain: Tensor | None
    """(D,), of the norm at the end of a loop; None: there is no norm."""
    bias: Tensor | None
    """(D,)."""
    blocks: list[BlockWeights]

    @classmethod
    def of(cls, tensors: Sequence[Tensor | None]) -> "_Inputs":
        """Term (B, T, D), gain, bias and all weights, in this order."""
        term, gain, bias, *weights = tensors
        starts = range(0, len(weights), _PER_BLOCK)
        blocks = [BlockWeights(*weights[i : i + _PER_BLOCK]) for i in starts]  # pyright: ignore[reportArgumentType]
        return cls(None if term is None else term.flatten(0, 1), gain, bias, blocks)


class _LoopPass:
    """One loop, with what its way back needs."""

    def __init__(self, room: BlockRoom, keeps: Sequence[slice | None]) -> None:
        self.blocks = [BlockPass(room, keep) for keep in keeps]
        self.stream = torch.empty_like(room.change)  # (R, D)
        self.shape = [room.sizes.width]
        self.normed: tuple[Tensor, ...] = ()
        """What goes into the norm (R', D), with its mean and inverse deviation (R', 1)."""

    def forward(self, inputs: _Inputs, transposed: Sequence[BlockWeights], state: Tensor) -> Tensor:
        """The state (R', D) after the loop, of that before it, (R, D)."""
        stream = self.stream
        if inputs.term is None:
            stream.copy_(state)
        else:
            torch.add(state, inputs.term, out=stream)
        for block, weights in zip(self.blocks, transposed, strict=True):
            stream = block.forward(weights, stream)  # (R', D)
        if inputs.gain is None:
            return stream
        state, *moments = torch.native_layer_norm(
            stream, self.shape, inputs.gain, inputs.bias, EPSILON
        )  # (R', D), (R', 1), (R', 1)
        self.normed = (stream, *moments)
        return state

    def backward(self, inputs: _Inputs, sums: _Inputs, change: Tensor) -> Tensor:
        """The gradient of the state before the loop, (R, D), of that after it, (R', D).

        The other gradients are added to `sums`.
        """
        if sums.gain is not None and sums.bias is not None:
            stream, mean, inverse = self.normed
            change, d_gain, d_bias = _norm_backward(
                change, stream, self.shape, mean, inverse, inputs.gain, inputs.bias, [True] * 3
            )  # (R', D), (D,), (D,)
            sums.gain.add_(d_gain)
            sums.bias.add_(d_bias)
        for i in reversed(range(len(self.blocks))):
            change = self.blocks[i].backward(inputs.blocks[i], sums.blocks[i], change)  # (R, D)
        if sums.term is not None:
            sums.term.add_(change)
        return change


class _Loops:
    """The loops of a plan, and their memory."""

    def __init__(self, plan: LoopPlan, like: Tensor) -> None:
        self.plan = plan
        room = BlockRoom(plan.sizes, like)
        every: list[slice | None] = [None] * plan.blocks
        # Only the last block of the last loop may drop tokens: others are still to be seen.
        whole = (plan.first, plan.stride) == (0, 1)
        last = _LoopPass(room, every if whole else [*every[1:], plan.keep])
        kept = plan.window if plan.gradient else 1
        # Loops whose way back is not taken share one pass.
        forgotten = [_LoopPass(room, every)] * (plan.loops - kept) if plan.loops > kept else []
        self.passes = [*forgotten, *(_LoopPass(room, every) for _ in range(kept - 1)), last]

    def forward(self, inputs: _Inputs, start: Tensor) -> Tensor:
        """Run all loops, from (B, T, D) to the states (W, B, n, D) of the window."""
        plan, transposed = self.plan, [block.transposed for block in inputs.blocks]
        tokens = len(range(plan.sizes.tokens)[plan.keep])
        states = start.new_empty(plan.window, len(start), tokens, plan.sizes.width)  # (W, B, n, D)
        state, early = start.flatten(0, 1), plan.loops - plan.window  # (R, D)
        for loop, each in enumerate(self.passes):
            state = each.forward(inputs, transposed, state)  # (R, D), at last (R', D)
            if loop == plan.loops - 1:
                states[-1] = state.view(states.shape[1:])
            elif loop >= early:
                states[loop - early] = plan.sizes.by_prompt(state)[:, plan.keep]
        return states

    def backward(self, inputs: _Inputs, sums: _Inputs, changes: Tensor) -> Tensor:
        """The gradient (R, D) before the window, from those (W, B, n, D) of its states."""
        plan = self.plan
        change = changes[-1].flatten(0, 1).clone()  # (R', D)
        for i in reversed(range(plan.window)):
            change = self.passes[i - plan.window].backward(inputs, sums, change)  # (R, D)
            if i > 0:
                kept = plan.sizes.by_prompt(change)[:, plan.keep]  # (B, n, D), a view
                kept += changes[i - 1]
        return change


class FusedLoop(Function):
    """The states (W, B, n, D) after each loop of the window.

    A window of fewer than all loops has no gradient of the start.
    """

    @staticmethod
    def forward(ctx: Any, plan: LoopPlan, start: Tensor, *tensors: Tensor | None) -> Tensor:
        """From a start (B, T, D), and the tensors of `_Inputs.of`."""
        key = (plan, start.dtype, start.device)
        loops = borrow(plan.role, key, lambda: _Loops(plan, start))
        states = loops.forward(_Inputs.of(tensors), start)  # (W, B, n, D)
        if plan.gradient:
            ctx.plan, ctx.key, ctx.loops, ctx.shape = plan, key, loops, start.shape
            ctx.save_for_backward(*tensors)
        else:
            give_back(plan.role, key, loops)
        return states

    @staticmethod
    @once_differentiable
    def backward(  # pyright: ignore[reportIncompatibleMethodOverride]
        ctx: Any, *changes: Tensor
    ) -> tuple[Tensor | None, ...]:
        """Run the window backwards; then its memory is free for the next step."""
        if ctx.loops is None:
            raise NotSupportedError(
                "fused kernels run backward once: call window_outputs again instead of keeping "
                "its graph."
            )
        sums = [None if each is None else _zeros_like(each) for each in ctx.saved_tensors]
        inputs = _Inputs.of(ctx.saved_tensors)
        change = ctx.loops.backward(inputs, _Inputs.of(sums), changes[0])  # (R, D)
        d_start = change.view(ctx.shape) if ctx.plan.window == ctx.plan.loops else None
        give_back(ctx.plan.role, ctx.key, ctx.loops)
        ctx.loops = None
        return (None, d_start, *sums)


def _zeros_like(value: Tensor) -> Tensor:
    """Zeros, with the shorter axis of a matrix first in memory: products are quicker to that."""
    tall = value.ndim == 2 and value.shape[0] > value.shape[1]
    return value.new_zeros(value.shape[::-1]).t() if tall else torch.zeros_like(value)
