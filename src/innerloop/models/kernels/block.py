"""One pre-norm block with a GELU, forward and backward, by hand: as autograd, with less traffic.

Gradients of the weights are added up loop after loop in the same form as the weights.

Matrix products may be computed in bfloat16, which some processors do two to three times as fast as
float32. Everything that adds up stays in the stream's own type: the stream, norms, gradients.

Shapes: B prompts, T tokens, R = B T rows, D width, h heads, s head size, H hidden units. The last
block before a readout goes on with the x tokens alone once attention is done: R' rows; else R' = R.
"""

from typing import NamedTuple

import torch
from torch import Tensor, nn
from torch.nn import functional

from innerloop.models.block import EPSILON, Block
from innerloop.models.kernels.attention import AttentionPass, Sizes

_norm_backward = torch.ops.aten.native_layer_norm_backward.default
_gelu = torch.ops.aten.gelu.out
_gelu_backward = torch.ops.aten.gelu_backward.grad_input


class BlockWeights(NamedTuple):
    """The maps of a block, with norms' gains, biases and scale folded in; or their gradients."""

    inward: Tensor  # (3 h s, D)
    outward: Tensor  # (D, h s)
    outward_bias: Tensor  # (D,)
    up: Tensor  # (H, D)
    down: Tensor  # (D, H)
    down_bias: Tensor  # (D,)

    def multiplied_in(self, product: torch.dtype) -> "BlockWeights":
        """The same with its matrices in the type that products are computed in."""
        return BlockWeights(*(each.to(product) if each.ndim == 2 else each for each in self))

    def transposed(self) -> "BlockWeights":
        """The same with its matrices transposed."""
        return BlockWeights(*(each.t() for each in self))


def fold(block: Block) -> BlockWeights:
    """The weights as the kernels want them; autograd carries the gradients back to the block."""
    attention, mlp = block.attention, block.mlp
    assert mlp is not None
    size = attention.heads * attention.head_size
    scale = attention.inward.weight.new_ones(3 * size, 1)  # (3 h s, 1)
    scale[:size] = attention.scale
    inward = scale * _behind_norm(attention.inward, block.attention_norm)  # (3 h s, D)
    up, outward = _behind_norm(mlp.up, block.mlp_norm), attention.outward  # up: (H, D)
    return BlockWeights(inward, outward.weight, outward.bias, up, mlp.down.weight, mlp.down.bias)


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


def _add_product(total: Tensor, left: Tensor, right: Tensor) -> Tensor:
    """Add a product (m, n) of (m, k) and (k, n), of its own type, to a total (m, n)."""
    return total.addmm_(left, right) if total.dtype == left.dtype else total.add_(left @ right)


class _NormPass:
    """1 + z, z = (x - mean) / deviation of each row: see `_behind_norm` for the 1."""

    def __init__(self, ones: Tensor, product: torch.dtype) -> None:
        self.ones = self.values = self.inverse_deviation = ones  # (D,)
        self.product = product

    def forward(self, stream: Tensor) -> Tensor:
        """The norm (R, D) of (R, D), in the type of products."""
        values, _, self.inverse_deviation = torch.native_layer_norm(
            stream, self.ones.shape, self.ones, self.ones, EPSILON
        )  # (R, D), (R, 1), (R, 1)
        self.values = values.to(self.product)  # (R, D)
        return self.values

    def add_backward(self, change: Tensor, d_values: Tensor) -> None:
        """Add (dz - mean(dz) - z mean(z dz)) / deviation to the gradient of the stream (R, D).

        Torch's kernel gives the bracket, if 1 + z is its input, of mean 1 and deviation 1: so the
        stream need not be kept.
        """
        ones, only_input = torch.ones_like(self.inverse_deviation), [True, False, False]  # (R, 1)
        d_values, values = d_values.to(change.dtype), self.values.to(change.dtype)  # (R, D) each
        bracket, _, _ = _norm_backward(
            d_values, values, self.ones.shape, ones, ones, None, None, only_input
        )  # (R, D)
        change.addcmul_(bracket, self.inverse_deviation)


class BlockPass:
    """One pass through a block, with what its way back needs."""

    def __init__(self, sizes: Sizes, like: Tensor, product: torch.dtype, keep: slice) -> None:
        """After attention it goes on with the tokens to `keep`."""
        self.sizes, self.keep = sizes, keep
        tokens = len(range(sizes.tokens)[keep])
        self.all_kept = tokens == sizes.tokens
        rows, ones = sizes.batch * tokens, like.new_ones(sizes.width)  # R', (D,)
        self.attention_norm, self.mlp_norm = _NormPass(ones, product), _NormPass(ones, product)
        inner, like = sizes.heads * sizes.head_size, like.new_empty(0, dtype=product)
        self.all_taken = like.new_empty(sizes.batch * sizes.tokens, inner)  # (R, h s)
        self.taken = self.all_taken if self.all_kept else like.new_empty(rows, inner)  # (R', h s)
        self.attention = AttentionPass(sizes, self.all_taken)
        self.hidden = like.new_empty(rows, sizes.hidden)  # (R', H), before the activation
        self.active = torch.empty_like(self.hidden)  # (R', H), after it

    def forward(self, weights: BlockWeights, stream: Tensor) -> Tensor:
        """The stream (R', D) after the block, in place of (R, D) before; by transposed weights."""
        # x <- x + taken Wo' + bo, taken = attention(z Wi'), z = norm(x)
        self.attention.forward(self.attention_norm.forward(stream) @ weights.inward)
        if not self.all_kept:
            self.taken.copy_(self.sizes.kept(self.all_taken, self.keep).flatten(0, 1))
            stream = self.sizes.kept(stream, self.keep).flatten(0, 1)  # (R', D)
        _add_product(stream, self.taken, weights.outward).add_(weights.outward_bias)
        # x <- x + f(z Wu') Wd' + bd, z = norm(x)
        torch.mm(self.mlp_norm.forward(stream), weights.up, out=self.hidden)
        _gelu(self.hidden, out=self.active)
        return _add_product(stream, self.active, weights.down).add_(weights.down_bias)

    def backward(self, weights: BlockWeights, sums: BlockWeights, change: Tensor) -> Tensor:
        """The gradient before the block, (R, D), of that after it, (R', D), which is overwritten.

        The weights' gradients are added to `sums`.
        """
        # The MLP: x <- x + f(z Wu') Wd' + bd
        low = change.to(self.active.dtype)  # (R', D), itself where that is its type
        _add_product(sums.down, low.t(), self.active)
        sums.down_bias.add_(change.sum(0))
        d_hidden = low @ weights.down  # (R', H)
        _gelu_backward(d_hidden, self.hidden, grad_input=d_hidden)
        _add_product(sums.up, d_hidden.t(), self.mlp_norm.values)
        self.mlp_norm.add_backward(change, d_hidden @ weights.up)
        # Attention: x <- x + taken Wo' + bo, taken = attention(z Wi')
        low = change.to(self.active.dtype)  # (R', D)
        _add_product(sums.outward, low.t(), self.taken)
        sums.outward_bias.add_(change.sum(0))
        d_taken = low @ weights.outward  # (R', h s)
        if not self.all_kept:
            change, d_taken = self._among_all(change), self._among_all(d_taken)  # (R, ..)
        d_inner = self.attention.backward(d_taken)  # (R, 3 h s)
        _add_product(sums.inward, d_inner.t(), self.attention_norm.values)
        self.attention_norm.add_backward(change, d_inner @ weights.inward)
        return change

    def _among_all(self, kept: Tensor) -> Tensor:
        """The rows (R, ..) that are (R', ..) at the tokens that are kept, and 0 elsewhere."""
        rows = kept.new_zeros(self.sizes.batch * self.sizes.tokens, kept.shape[1])
        place = self.sizes.kept(rows, self.keep)  # (B, n, ..)
        place.copy_(kept.view(place.shape))
        return rows
