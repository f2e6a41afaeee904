"""One pre-norm block with a GELU, forward and backward, by hand: as autograd, with less traffic.

Gradients of the weights are added up loop after loop in the same form as the weights.

Shapes: B prompts, T tokens, R = B T rows, D width, h heads, s head size, H hidden units. The last
block before a readout goes on with the x tokens alone once attention is done: R' rows; else R' = R.
"""

from typing import NamedTuple

import torch
from torch import Tensor, nn
from torch.nn import functional

from innerloop.models.block import EPSILON, Block
from innerloop.models.kernels.attention import AttentionPass, AttentionRoom
from innerloop.models.kernels.memory import Sizes

_norm_backward = torch.ops.aten.native_layer_norm_backward.default
_ONLY_INPUT = [True, False, False]
_gelu = torch.ops.aten.gelu.out
_gelu_backward = torch.ops.aten.gelu_backward.grad_input


class BlockWeights(NamedTuple):
    """The maps of a block, or their gradients.

    The norms' gains, all biases behind norms and the scale of the scores are part of the maps.
    """

    inward: Tensor
    """(3 h s, D)."""
    outward: Tensor
    """(D, h s)."""
    outward_bias: Tensor
    up: Tensor
    """(H, D)."""
    down: Tensor
    """(D, H)."""
    down_bias: Tensor

    @property
    def transposed(self) -> "BlockWeights":
        """Views of the maps, for products from the right; the biases as they are."""
        return BlockWeights(*(each.t() for each in self))


def fold(block: Block) -> BlockWeights:
    """The weights as the kernels want them; autograd carries the gradients back to the block."""
    attention, mlp = block.attention, block.mlp
    assert mlp is not None
    size = attention.heads * attention.head_size
    scale = attention.inward.weight.new_ones(3 * size, 1)  # (3 h s, 1)
    scale[:size] = attention.scale
    return BlockWeights(
        inward=scale * _behind_norm(attention.inward, block.attention_norm),  # (3 h s, D)
        outward=attention.outward.weight,
        outward_bias=attention.outward.bias,
        up=_behind_norm(mlp.up, block.mlp_norm),  # (H, D)
        down=mlp.down.weight,
        down_bias=mlp.down.bias,
    )


def _behind_norm(linear: nn.Linear, norm: nn.Module) -> Tensor:
    """One matrix (outputs, D) for a norm's gain and bias and a map with its bias.

    The norm gives g * z + c, so the map gives V z + b with V = W g and b = W c + b_0. Since the
    numbers of z sum to 0, V without the means of its rows does as well, and a 1 added to each of
    them meets nothing but what is put in place of those means, b / D: together the bias.
    """
    assert isinstance(norm, nn.LayerNorm)
    weight = linear.weight * norm.weight  # (outputs, D)
    bias = functional.linear(norm.bias, linear.weight, linear.bias)  # (outputs,)
    return weight - weight.mean(1, keepdim=True) + bias[:, None] / linear.in_features


class BlockRoom:
    """Memory that all passes share: nothing in it outlives one pass."""

    def __init__(self, sizes: Sizes, like: Tensor) -> None:
        self.sizes = sizes
        self.attention = AttentionRoom(sizes, like)
        self.hidden = like.new_empty(sizes.rows, sizes.hidden)  # (R, H)
        self.change = like.new_empty(sizes.rows, sizes.width)  # (R, D)
        self.ones = like.new_ones(sizes.rows, 1)  # (R, 1)
        self.wide_ones = like.new_ones(sizes.width)  # (D,)


class NormPass:
    """1 + z, z = (x - mean) / deviation of each row: see `_behind_norm` for the 1."""

    def __init__(self, rows: int, room: BlockRoom) -> None:
        self.wide_ones, self.ones = room.wide_ones, room.ones[:rows]  # (D,), (R, 1)
        self.shape = self.wide_ones.shape
        self.values, self.inverse_deviation = room.change[:rows], self.ones  # (R, D), (R, 1)

    def forward(self, stream: Tensor) -> Tensor:
        """The norm (R, D) of (R, D).

        Torch has no such kernel that writes to given memory; it finds what is freed here again.
        """
        self.values, _, self.inverse_deviation = torch.native_layer_norm(
            stream, self.shape, self.wide_ones, self.wide_ones, EPSILON
        )  # (R, D), (R, 1), (R, 1)
        return self.values

    def add_backward(self, change: Tensor, d_values: Tensor) -> None:
        """Add (dz - mean(dz) - z mean(z dz)) / deviation to the gradient of the stream (R, D).

        Torch's kernel gives the bracket, if 1 + z is its input, of mean 1 and deviation 1: so the
        stream need not be kept.
        """
        bracket, _, _ = _norm_backward(
            d_values, self.values, self.shape, self.ones, self.ones, None, None, _ONLY_INPUT
        )  # (R, D)
        change.addcmul_(bracket, self.inverse_deviation)


class BlockPass:
    """One pass through a block, with what its way back needs."""

    def __init__(self, room: BlockRoom, keep: slice | None) -> None:
        """After attention it goes on with the tokens to `keep`; None: all."""
        self.room, self.keep = room, keep
        sizes, like = room.sizes, room.change
        every = range(sizes.tokens)
        kept = sizes.batch * len(every if keep is None else every[keep])
        self.attention_norm, self.mlp_norm = NormPass(sizes.rows, room), NormPass(kept, room)
        self.taken = like.new_empty(kept, sizes.inner)  # (R', h s)
        everything = self.taken if keep is None else room.attention.taken  # (R, h s)
        self.attention = AttentionPass(room.attention, everything)
        self.hidden = like.new_empty(kept, sizes.hidden)  # (R', H), before the activation
        self.active = torch.empty_like(self.hidden)  # (R', H), after it
        self.kept_stream = None if keep is None else like.new_empty(kept, sizes.width)  # (R', D)
        self.d_hidden, self.d_normed = room.hidden[:kept], room.change[:kept]  # (R', H), (R', D)
        self.d_hidden_across = self.d_hidden.t()  # (H, R')

    def forward(self, weights: BlockWeights, stream: Tensor) -> Tensor:
        """The residual stream (R', D) after the block; (R, D) before it is overwritten.

        Here the weights are transposed.
        """
        # x <- x + taken Wo' + bo, taken = attention(z Wi'), z = norm(x)
        normed = self.attention_norm.forward(stream)  # (R, D)
        torch.mm(normed, weights.inward, out=self.room.attention.inner)
        self.attention.forward()
        stream = self._go_on_with_kept(stream)  # (R', D)
        stream.addmm_(self.taken, weights.outward).add_(weights.outward_bias)
        # x <- x + f(z Wu') Wd' + bd, z = norm(x)
        normed = self.mlp_norm.forward(stream)  # (R', D)
        torch.mm(normed, weights.up, out=self.hidden)
        _gelu(self.hidden, out=self.active)
        return stream.addmm_(self.active, weights.down).add_(weights.down_bias)

    def backward(self, weights: BlockWeights, sums: BlockWeights, change: Tensor) -> Tensor:
        """The gradient of the stream before the block, (R, D), of that after it, (R', D).

        What it is given is overwritten; the weights' gradients are added to `sums`.
        """
        # The MLP: x <- x + f(z Wu') Wd' + bd
        _add_products(sums.down, sums.down_bias, change, self.active)
        torch.mm(change, weights.down, out=self.d_hidden)
        _gelu_backward(self.d_hidden, self.hidden, grad_input=self.d_hidden)
        sums.up.addmm_(self.d_hidden_across, self.mlp_norm.values)
        torch.mm(self.d_hidden, weights.up, out=self.d_normed)
        self.mlp_norm.add_backward(change, self.d_normed)
        # Attention: x <- x + taken Wo' + bo, taken = attention(z Wi')
        _add_products(sums.outward, sums.outward_bias, change, self.taken)
        change = self._outward_backward(weights.outward, change)  # (R, D)
        self.attention.backward()
        d_inner, d_normed = self.room.attention.inner, self.room.change  # (R, 3 h s), (R, D)
        sums.inward.addmm_(d_inner.t(), self.attention_norm.values)
        torch.mm(d_inner, weights.inward, out=d_normed)
        self.attention_norm.add_backward(change, d_normed)
        return change

    def _go_on_with_kept(self, stream: Tensor) -> Tensor:
        """The stream (R', D) of the tokens that are kept; what they have taken is set aside."""
        if self.keep is None or self.kept_stream is None:
            return stream
        for rows, chosen in ((stream, self.kept_stream), (self.room.attention.taken, self.taken)):
            place = self.room.sizes.by_prompt(rows)[:, self.keep]  # (B, n, D) or (B, n, h s)
            chosen.view(place.shape).copy_(place)
        return self.kept_stream

    def _outward_backward(self, outward: Tensor, change: Tensor) -> Tensor:
        """Fill the room's `taken` with its gradient, and return that of the stream: (R, D)."""
        taken, sizes = self.room.attention.taken, self.room.sizes
        if self.keep is None:
            torch.mm(change, outward, out=taken)  # (R, h s)
            return change
        whole = change.new_zeros(sizes.rows, sizes.width)  # (R, D)
        taken.zero_()
        for rows, chosen in ((whole, change), (taken, change @ outward)):
            place = sizes.by_prompt(rows)[:, self.keep]  # (B, n, D) or (B, n, h s)
            place.copy_(chosen.view(place.shape))
        return whole


def _add_products(weight: Tensor, bias: Tensor, outputs: Tensor, inputs: Tensor) -> None:
    """Add the gradients of a map, from those of its outputs (R, o) and its inputs (R, i)."""
    weight.addmm_(outputs.t(), inputs)  # (o, i)
    bias += outputs.sum(0)  # (o,)
