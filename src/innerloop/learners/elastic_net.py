"""The elastic net at every prefix."""

import torch
from pydantic import Field, FiniteFloat
from pydantic.dataclasses import dataclass
from torch import Tensor

from innerloop.core.chunks import map_prompts, rows_within_budget
from innerloop.core.config import STRICT
from innerloop.core.learner import Traits
from innerloop.core.prompt import Prompt
from innerloop.learners.lasso import PENALTIES, SPAN, SWALLOWED
from innerloop.learners.lasso_path import settle
from innerloop.learners.prefix import LinearLearner, tensor_bytes
from innerloop.learners.units import input_units, output_units, powers_of_two

REPAIRS = 2
"""Paths from the weights of the one before, which takes out the rounding of the long first one."""


@dataclass(frozen=True, config=STRICT)
class ElasticNet(LinearLearner[Tensor]):
    """The elastic net: |y - X w|^2 / 2i + penalty (ratio |w|_1 + (1 - ratio) |w|^2 / 2).

    Over i examples, each output alone: the objective of scikit-learn's ElasticNet without
    intercept, `penalty` its alpha and `ratio` its l1_ratio, but solved to rounding. A Lasso with d
    more examples sqrt(i penalty (1 - ratio)) e_j, whose outputs are 0 (Zou and Hastie 2005).
    """

    penalty: FiniteFloat = Field(gt=0, description="what both parts are multiplied by")
    ratio: float = Field(default=0.5, gt=0, lt=1, description="share of |w|_1 in the penalty")

    traits = Traits(order_invariant=True)

    def init(self, prompt: Prompt) -> Tensor:
        """The weights of each prefix: (B, n, d, k)."""
        rows = prompt.points + prompt.dims
        size = tensor_bytes(prompt.points, prompt.outputs, 4 * prompt.dims, rows)
        return map_prompts(self._solve, prompt, rows=rows_within_budget(size))

    def _solve(self, prompt: Prompt) -> Tensor:
        examples, dims = prompt.points - 1, prompt.dims
        squared = self.penalty * (1 - self.ratio)  # of |w|^2 / 2
        # The unit takes in the d more examples, which may outweigh the others.
        own = input_units(self.name, prompt, span=SPAN)  # (B,)
        units = torch.maximum(own, powers_of_two(own.new_tensor(squared**0.5)))  # (B,)
        units = units.repeat_interleave(prompt.outputs)  # (N,), N = B k
        of_outputs = output_units(prompt).flatten()  # (N,)
        xs = prompt.xs[:, :-1].double().repeat_interleave(prompt.outputs, dim=0)  # (N, m, d)
        ys = prompt.ys[:, :-1].double().mT.flatten(0, 1)  # (N, m), m = n - 1
        xs, ys = xs / units[:, None, None], ys / of_outputs[:, None]  # (N, m, d), (N, m)
        # One problem per prefix but the empty one: m of them, of 1 .. m examples.
        seen = torch.ones(examples, examples, dtype=xs.dtype, device=xs.device).tril()  # (m, m)
        number = seen.sum(dim=1)  # (m,)
        spread = (number * squared).sqrt() / units[:, None]  # (N, m)
        more = spread[..., None, None] * torch.eye(dims, dtype=xs.dtype, device=xs.device)
        inputs = torch.cat([xs[:, None] * seen[..., None], more], dim=2).flatten(0, 1)
        # (N m, m + d, d)
        outputs = torch.cat(
            [ys[:, None] * seen, ys.new_zeros(len(xs), examples, dims)], dim=2
        ).flatten(0, 1)  # (N m, m + d)
        # A penalty beyond all products of inputs and outputs makes every weight zero.
        absolute = xs.new_tensor(self.penalty * self.ratio) / units / of_outputs  # (N,)
        absolute = absolute.clamp(*PENALTIES)  # (N,)
        # One that rounding would swallow leaves no path to follow: it is raised just above.
        floor = SWALLOWED * (xs.abs().amax(dim=2) * ys.abs()).cumsum(dim=1)  # (N, m)
        weight = torch.maximum(absolute[:, None] * number, floor).flatten()  # (N m,)
        weights = inputs.new_zeros(len(inputs), dims)  # (N m, d)
        if examples:
            for _ in range(1 + REPAIRS):
                weights = settle(inputs, outputs, weight, weights)  # (N m, d)
        solved = weights.reshape(prompt.batch, prompt.outputs, examples, dims)  # (B, k, m, d)
        solved = solved * (of_outputs / units).reshape(prompt.batch, prompt.outputs, 1, 1)
        return torch.nn.functional.pad(solved, (0, 0, 1, 0)).permute(0, 2, 3, 1)
