"""Blocks applied again and again, as one differentiable function with a backward pass by hand.

    y <- norm(blocks(y + term))

A stack, and the pre- and the post-transformer, are the same with one loop. Prompts are taken a few
at a time, so that what one operation writes is still in the cache when the next one reads it.

Shapes: B prompts, T tokens, n of them returned, D width, W loops in the window; R = B T, R' = B n.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.autograd import Function
from torch.autograd.function import once_differentiable

from innerloop.core.errors import NotSupportedError
from innerloop.models.block import EPSILON
from innerloop.models.kernels.attention import Sizes, even_slices
from innerloop.models.kernels.block import BlockPass, BlockWeights
from innerloop.models.kernels.memory import borrow, give_back

_norm_backward = torch.ops.aten.native_layer_norm_backward.default
_CHUNK = 2**21
"""About how many hidden units the prompts have that are computed at a time."""


@dataclass(frozen=True, slots=True)
class LoopPlan:
    """What is computed, but for the numbers."""

    role: str  # computations of one role use the same memory after each other
    sizes: Sizes
    blocks: int
    loops: int
    window: int  # how many loops, the last ones, have gradients and are returned
    read: tuple[int, int]  # the first token that is returned, and how far they lie apart
    gradient: bool  # whether there may be a way back
    product: torch.dtype  # the type that matrix products are computed in

    @property
    def keep(self) -> slice:
        """The tokens that are returned."""
        return slice(self.read[0], None, self.read[1])

    @property
    def chunks(self) -> list[slice]:
        """The prompts that are taken at a time, about equally many."""
        batch, units = self.sizes.batch, self.sizes.tokens * self.sizes.hidden
        return even_slices(batch, min(-(-batch * units // _CHUNK), batch))


class _Inputs(NamedTuple):
    """What all loops of some prompts read, or the gradients of it."""

    term: Tensor | None  # (R, D), or None for 0
    gain: Tensor | None  # (D,), of the norm at the end of a loop; None: there is no norm
    bias: Tensor | None  # (D,)
    blocks: list[BlockWeights]

    @classmethod
    def of(cls, tensors: Sequence[Any], which: slice) -> "_Inputs":
        """For some prompts: term (B, T, D), gain, bias and all weights, in this order."""
        term, gain, bias, *weights = tensors
        size = len(BlockWeights._fields)
        blocks = [BlockWeights(*weights[i : i + size]) for i in range(0, len(weights), size)]
        return cls(None if term is None else term[which].flatten(0, 1), gain, bias, blocks)

    def multiplied_in(self, product: torch.dtype) -> "_Inputs":
        """The same with all matrices in the type that products are computed in."""
        return self._replace(blocks=[each.multiplied_in(product) for each in self.blocks])


class _LoopPass:
    """One loop, with what its way back needs."""

    def __init__(self, plan: LoopPlan, like: Tensor, *, last: bool = False) -> None:
        sizes, every = plan.sizes, slice(None)
        # Only the last block of the last loop may drop tokens: others are still to be seen.
        keeps = [every] * (plan.blocks - 1) + [plan.keep if last else every]
        self.blocks = [BlockPass(sizes, like, plan.product, keep) for keep in keeps]
        self.stream = like.new_empty(sizes.batch * sizes.tokens, sizes.width)  # (R, D)
        self.normed: tuple[Tensor, ...] = ()  # the norm's input, its mean and 1 / deviation

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
            stream, inputs.gain.shape, inputs.gain, inputs.bias, EPSILON
        )  # (R', D), (R', 1), (R', 1)
        self.normed = (stream, *moments)
        return state

    def backward(self, inputs: _Inputs, sums: _Inputs, change: Tensor) -> Tensor:
        """The gradient before the loop, (R, D), of that after it, (R', D); others go to `sums`."""
        if sums.gain is not None and sums.bias is not None:
            stream, mean, inverse = self.normed
            change, d_gain, d_bias = _norm_backward(
                change, stream, sums.gain.shape, mean, inverse, inputs.gain, inputs.bias, [True] * 3
            )  # (R', D), (D,), (D,)
            sums.gain.add_(d_gain)
            sums.bias.add_(d_bias)
        for i in reversed(range(len(self.blocks))):
            change = self.blocks[i].backward(inputs.blocks[i], sums.blocks[i], change)  # (R, D)
        if sums.term is not None:
            sums.term.add_(change)
        return change


class _Loops:
    """The loops of some prompts, and their memory."""

    def __init__(self, plan: LoopPlan, like: Tensor, which: slice) -> None:
        here = replace(plan.sizes, batch=which.stop - which.start)
        self.plan = plan = replace(plan, sizes=here)
        kept = plan.window if plan.gradient else 1
        # Loops whose way back is not taken share one pass.
        shared = [_LoopPass(plan, like)] * (plan.loops - kept) if plan.loops > kept else []
        self.passes = shared + [_LoopPass(plan, like, last=i == kept - 1) for i in range(kept)]

    def forward(self, inputs: _Inputs, state: Tensor, states: Tensor) -> None:
        """Run all loops from a state (R, D), and write the states (W, B, n, D) of the window."""
        plan = self.plan
        transposed = [block.transposed() for block in inputs.blocks]
        for loop, each in enumerate(self.passes, start=plan.window - plan.loops):
            state = each.forward(inputs, transposed, state)  # (R, D), at last (R', D)
            if loop == plan.window - 1:
                states[loop] = state.view(states.shape[1:])
            elif loop >= 0:
                states[loop] = plan.sizes.kept(state, plan.keep)

    def backward(self, inputs: _Inputs, sums: _Inputs, changes: Tensor) -> Tensor:
        """The gradient (R, D) before the window, from those (W, B, n, D) of its states."""
        plan, change = self.plan, changes[-1].flatten(0, 1).clone()  # (R', D)
        for i in reversed(range(plan.window)):
            change = self.passes[i - plan.window].backward(inputs, sums, change)  # (R, D)
            if i > 0:
                plan.sizes.kept(change, plan.keep).add_(changes[i - 1])  # (B, n, D)
        return change


class FusedLoop(Function):
    """The states (W, B, n, D) after each loop of the window."""

    @staticmethod
    def forward(ctx: Any, plan: LoopPlan, start: Tensor, *tensors: Tensor | None) -> Tensor:
        """From a start (B, T, D), and the tensors of `_Inputs.of`."""
        key = (plan, start.dtype, start.device)
        chunks = borrow(plan.role, key, lambda: [_Loops(plan, start, each) for each in plan.chunks])
        tokens = len(range(plan.sizes.tokens)[plan.keep])
        states = start.new_empty(plan.window, len(start), tokens, plan.sizes.width)  # (W, B, n, D)
        for which, loops in zip(plan.chunks, chunks, strict=True):
            state = start[which].flatten(0, 1)  # (R, D)
            inputs = _Inputs.of(tensors, which).multiplied_in(plan.product)
            loops.forward(inputs, state, states[:, which])
        if plan.gradient:
            ctx.plan, ctx.key, ctx.chunks = plan, key, chunks
            ctx.save_for_backward(start, *tensors)
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
                "fused kernels run backward once: compute the outputs again for another gradient."
            )
        plan, (start, *tensors) = ctx.plan, ctx.saved_tensors
        sums = [None if each is None else _zeros_like(each) for each in tensors]
        d_start = torch.empty_like(start)  # (B, T, D)
        for which, loops in zip(plan.chunks, ctx.chunks, strict=True):
            inputs = _Inputs.of(tensors, which).multiplied_in(plan.product)
            change = loops.backward(inputs, _Inputs.of(sums, which), changes[0][:, which])  # (R, D)
            d_start[which] = change.view(start[which].shape)
        give_back(plan.role, ctx.key, ctx.chunks)
        ctx.chunks = None
        # A window of fewer than all loops is cut off from the start.
        return (None, d_start if plan.window == plan.loops else None, *sums)


def _zeros_like(value: Tensor) -> Tensor:
    """Zeros, with the shorter axis of a matrix first in memory: products are quicker to that."""
    tall = value.ndim == 2 and value.shape[0] > value.shape[1]
    return value.new_zeros(value.shape[::-1]).t() if tall else torch.zeros_like(value)
