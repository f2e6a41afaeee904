"""A two-layer network trained on each prefix by Adam; all prompts and prefixes together."""

import math
from collections.abc import Iterator
from dataclasses import dataclass as record

import torch
from pydantic import Field
from pydantic.dataclasses import dataclass
from torch import Tensor

from innerloop.core.chunks import rows_within_budget, slices
from innerloop.core.config import STRICT
from innerloop.core.learner import Learner, Traits
from innerloop.core.overflow import refuse_overflow
from innerloop.core.prompt import Prompt
from innerloop.core.state import map_state
from innerloop.core.state_parts import MovingPart
from innerloop.learners.prefix import too_large

_PREFIXES = 8
"""Prefixes trained together: they share the examples of the longest, the rest is masked."""
_BYTES = 2**22
"""Activations held at once. Far below the memory budget: what stays in the cache is faster."""
_DECAY, _SQUARE_DECAY, _EPSILON = 0.9, 0.999, 1e-8
"""Adam's constants, as in torch.optim.Adam."""


@record(frozen=True, slots=True, eq=False)
class Layers:
    """One number for each parameter of each network; the last column belongs to the biases."""

    hidden: Tensor
    """(B, n, h, d + 1)."""
    output: Tensor
    """(B, n, k, h + 1)."""


@record(frozen=True, slots=True, eq=False)
class AdamState:
    """The networks, and Adam's running means."""

    parameters: Layers
    gradient: Layers
    """Mean of the gradients."""
    square: Layers
    """Mean of their squares."""


@dataclass(frozen=True, config=STRICT)
class NetworkByAdam(Learner[AdamState]):
    """A two-layer ReLU network trained by Adam.

    f(x) = V ReLU(W x + b) + c, trained on each prefix by `steps` full-batch steps. A baseline of
    Garg et al. (2022), whose settings are the defaults. The loss is the mean squared error over the
    examples of the prefix (and over the outputs). Every prompt and prefix starts from the same
    network, drawn from `seed` as torch.nn.Linear draws it: uniform in +-1/sqrt(inputs of the
    layer), biases too. Adam's constants are torch's. Without examples there is nothing to train on,
    and the answer is 0.

    Computed in float64. Adam divides each gradient by its own size, so that where a gradient
    vanishes it steps by its rounding: after 100 steps in float32 the order of the examples moves
    predictions by 1e-3 (in float64 by 1e-14, at about twice the time).
    """

    hidden: int = Field(default=100, ge=1, description="hidden units")
    steps: int = Field(default=100, ge=0, description="steps of Adam, on all examples at once")
    learning_rate: float = Field(default=5e-3, gt=0, description="of Adam")
    seed: int = Field(default=0, ge=0, lt=2**63, description="of the first weights")
    traits = Traits(order_invariant=True)
    differentiable = False

    def init(self, prompt: Prompt) -> AdamState:
        """The same untrained network for every prompt and prefix."""
        generator = torch.Generator().manual_seed(self.seed)
        device, batch, points = prompt.xs.device, prompt.batch, prompt.points

        def layer(rows: int, inputs: int) -> Tensor:
            draw = torch.rand(rows, inputs + 1, generator=generator, dtype=torch.float64)
            weights = ((2 * draw - 1) / math.sqrt(inputs)).to(device)  # (rows, inputs + 1)
            return weights.expand(batch, points, -1, -1).contiguous()  # (B, n, rows, inputs + 1)

        hidden = layer(self.hidden, prompt.dims)  # (B, n, h, d + 1)
        start = Layers(hidden, layer(prompt.outputs, self.hidden))
        return AdamState(
            start, map_state(torch.zeros_like, start), map_state(torch.zeros_like, start)
        )

    def step(self, prompt: Prompt, state: AdamState, k: int) -> AdamState:
        """One Adam step of every network."""
        new = map_state(torch.empty_like, state)
        map_state(lambda old, put: put[:, 0].copy_(old[:, 0]), state, new)  # no examples, no step
        for prompts, prefixes in self._blocks(prompt):
            examples = slice(0, prefixes.stop - 1)
            old, put = (_part(whole, prompts, prefixes) for whole in (state, new))
            gradient = gradients(
                old.parameters, prompt.xs[prompts, examples].double(),
                prompt.ys[prompts, examples].double(), prefixes.start,
            )  # fmt: skip
            self._adam(old, gradient, put, k)
        return new

    def read(self, prompt: Prompt, state: AdamState) -> Tensor:
        """The networks' answers; 0 where there are no examples."""
        asked = prompt.asked.double()  # (B, n, q, d)
        hidden, output = state.parameters.hidden, state.parameters.output
        answers = asked.new_zeros(*asked.shape[:3], prompt.outputs)  # (B, n, q, k)
        for i in range(1, prompt.points):
            units = asked[:, i] @ hidden[:, i, :, :-1].mT + hidden[:, i, None, :, -1]  # (B, q, h)
            answer = units.relu() @ output[:, i, :, :-1].mT + output[:, i, None, :, -1]  # (B, q, k)
            answers[:, i] = answer
        answers = answers.reshape(prompt.prediction_shape).to(prompt.xs.dtype)
        # Infinite squares would not show in the answers: Adam then steps by nothing.
        for values in (answers, state.square.hidden, state.square.output):
            refuse_overflow(self.name, values, lambda b: too_large(prompt.select(slice(b, b + 1))))
        return answers

    @property
    def moving(self) -> MovingPart[AdamState]:
        """The parameters: (B, n (h (d + 1) + k (h + 1)))."""

        def get(state: AdamState) -> Tensor:
            layers = state.parameters
            return torch.cat([layers.hidden.flatten(1), layers.output.flatten(1)], dim=1)

        return MovingPart(self.name, get)

    def _blocks(self, prompt: Prompt) -> Iterator[tuple[slice, slice]]:
        """Prompts and prefixes (1 and longer) that are trained together."""
        one = 8 * self.hidden * prompt.points  # bytes of a prefix
        number = min(_PREFIXES, rows_within_budget(one))
        for first in range(1, prompt.points, number):
            last = min(first + number, prompt.points)
            size = 8 * self.hidden * (last - first) * (last - 1)
            for prompts in slices(prompt.batch, rows_within_budget(size, at_most=_BYTES)):
                yield prompts, slice(first, last)

    def _adam(self, old: AdamState, gradient: Layers, new: AdamState, k: int) -> None:
        """Step k of Kingma and Ba (2015); running means are corrected for their start at 0."""
        size = self.learning_rate / (1 - _DECAY ** (k + 1))
        spread = math.sqrt(1 - _SQUARE_DECAY ** (k + 1))

        def update(*parts: Tensor) -> Tensor:
            slope, weight, mean, square, new_weight, new_mean, new_square = parts
            torch.lerp(mean, slope, 1 - _DECAY, out=new_mean)
            torch.mul(square, _SQUARE_DECAY, out=new_square)
            new_square.addcmul_(slope, slope, value=1 - _SQUARE_DECAY)
            divisor = new_square.sqrt().div_(spread).add_(_EPSILON)
            return torch.addcdiv(weight, new_mean, divisor, value=-size, out=new_weight)

        map_state(
            update, gradient, old.parameters, old.gradient, old.square,
            new.parameters, new.gradient, new.square,
        )  # fmt: skip


def _part(state: AdamState, prompts: slice, prefixes: slice) -> AdamState:
    return map_state(lambda whole: whole[prompts, prefixes], state)


def gradients(layers: Layers, xs: Tensor, ys: Tensor, first: int) -> Layers:
    """The gradient of each network's loss, for the prefixes first .. first + p - 1.

    Layers are (R, p, h, d + 1) and (R, p, k, h + 1); xs (R, m, d) and ys (R, m, k) are the examples
    of the longest prefix. With residuals r and units a = ReLU(W x + b) the loss mean(r^2) gives
    dV = r a', dW = (V' r on the active units) x'.
    """
    rows, prefixes, units, _ = layers.hidden.shape
    outputs, seen = ys.shape[2], xs.shape[1]
    flat = layers.hidden.reshape(rows, prefixes * units, -1)  # (R, p h, d + 1)
    with_one = torch.cat([xs.mT, torch.ones_like(xs.mT[:, :1])], dim=1)  # (R, d + 1, m)
    # One product per prompt: all networks of a prompt see the same examples.
    active = torch.bmm(flat, with_one).relu_().reshape(rows * prefixes, units, seen)
    output = layers.output.reshape(rows * prefixes, outputs, units + 1)  # (R p, k, h + 1)
    answer = torch.baddbmm(output[..., -1:], output[..., :-1], active)  # (R p, k, m)

    length = torch.arange(first, first + prefixes, device=xs.device)  # (p,)
    member = torch.arange(seen, device=xs.device) < length[:, None]  # (p, m)
    scale = 2 * member.to(xs) / (length.clamp(min=1)[:, None] * outputs)  # (p, m)
    target = ys.mT[:, None]  # (R, 1, k, m)
    residual = (answer.reshape(rows, prefixes, outputs, seen) - target) * scale[:, None]
    residual = residual.reshape(rows * prefixes, outputs, seen)  # (R p, k, m)

    to_output = torch.cat(
        [residual @ active.mT, residual.sum(dim=2, keepdim=True)], dim=2
    )  # (R p, k, h + 1)
    back = torch.bmm(output[..., :-1].mT, residual)  # (R p, h, m)
    back *= active.sign_()
    back = back.reshape(rows, prefixes * units, seen)  # (R, p h, m)
    # Transposed: with few columns on the right the product takes up to twice as long.
    to_hidden = torch.bmm(with_one, back.mT).mT.contiguous()  # (R, p h, d + 1)
    return Layers(to_hidden.reshape(layers.hidden.shape), to_output.reshape(layers.output.shape))
