"""The Lasso at every prefix."""

import torch
from pydantic import Field
from pydantic.dataclasses import dataclass
from torch import Tensor

from innerloop.core.chunks import map_prompts, rows_within_budget
from innerloop.core.config import STRICT
from innerloop.core.learner import Traits
from innerloop.core.prompt import Prompt
from innerloop.learners.lasso_path import lasso_path, settle
from innerloop.learners.prefix import LinearLearner, sum_before, tensor_bytes
from innerloop.learners.units import input_units, output_units

EXACT = 1e-9
"""How far the optimality conditions may be off, in parts of the penalty."""
ROUNDING = 1e-13
"""The same in parts of the numbers behind them, for penalties that are small beside these."""
REPAIRS = (1, 1, 0)
"""Attempts at what is off: from the weights at hand (1), and at last from zero (0)."""
SWALLOWED = 1e-14
"""Part of |x y| below which the penalty does not show in sums of such numbers."""
PENALTIES = (1e-150, 1e150)
"""Penalties in units, beyond which a change makes no difference."""
SPAN = 2.0**280
"""How much smaller than the unit an input may be: beside its square, TINY is still nothing."""
TOGETHER = 512
"""Problems at a time on a CPU: enough to outweigh the cost of a call, few enough for the cache."""


@dataclass(frozen=True, config=STRICT)
class Lasso(LinearLearner[Tensor]):
    """The Lasso: |y - X w|^2 / 2i + penalty |w|_1.

    The w that minimises |y - X w|^2 / (2 i) + penalty |w|_1 over i examples, each output alone. The
    objective and the penalty of scikit-learn's Lasso without intercept, but solved to rounding (see
    `lasso_path.py`). Where several w are as good, it is one of them.
    """

    penalty: float = Field(gt=0, allow_inf_nan=False, description="what |w|_1 is multiplied by")

    traits = Traits(order_invariant=True)

    def init(self, prompt: Prompt) -> Tensor:
        """The weights of each prefix: (B, n, d, k)."""
        dims, points = prompt.dims, prompt.points
        problem = tensor_bytes(2 * dims * dims + 8 * points * dims + 2 * points * points)
        rows = rows_within_budget(problem * prompt.outputs)
        if prompt.xs.device.type == "cpu":
            rows = min(rows, max(1, TOGETHER // prompt.outputs))
        return map_prompts(self._solve, prompt, rows=rows)

    def _solve(self, prompt: Prompt) -> Tensor:
        units = input_units(self.name, prompt, span=SPAN).repeat_interleave(prompt.outputs)  # (N,)
        of_outputs = output_units(prompt).flatten()  # (N,), N = B k
        xs = prompt.xs.double().repeat_interleave(prompt.outputs, dim=0)  # (N, n, d)
        ys = prompt.ys.double().mT.flatten(0, 1)  # (N, n)
        xs, ys = xs / units[:, None, None], ys / of_outputs[:, None]  # (N, n, d), (N, n)
        xs[:, -1] = ys[:, -1] = 0  # the question: no prefix has it, and it may not fit the units
        # A penalty beyond all products of inputs and outputs makes every weight zero.
        # Torch divides a number by way of the inverse, which of the smallest units is infinite.
        penalty = (xs.new_tensor(self.penalty) / units / of_outputs).clamp(*PENALTIES)  # (N,)
        # A penalty that rounding would swallow leaves no path to follow: it is raised just above.
        floor = SWALLOWED * xs.abs().amax(dim=2) * ys.abs()  # (N, n)
        growth = torch.maximum(floor, penalty[:, None])  # (N, n)
        weights = _repaired(xs, ys, lasso_path(xs, ys, growth), sum_before(growth))  # (N, n, d)
        weights = weights * (of_outputs / units)[:, None, None]  # (N, n, d)
        return weights.unflatten(0, (-1, prompt.outputs)).permute(0, 2, 3, 1)


def _repaired(xs: Tensor, ys: Tensor, weights: Tensor, p: Tensor) -> Tensor:
    """The weights (N, n, d), those replaced that are too far from optimal for p (N, n)."""
    _, points, dims = xs.shape
    rows = rows_within_budget(tensor_bytes(2 * dims + 3 * points, dims))
    excess = _excess(xs, ys, weights, p)  # (N, n)
    for near in REPAIRS:
        wrong = torch.nonzero(excess > 1)  # (R, 2)
        if len(wrong) == 0:
            break
        tried = weights.clone()  # (N, n, d)
        for which, i in (part.unbind(dim=1) for part in wrong.split(rows)):  # (r,), (r,)
            known = torch.arange(points, device=xs.device) < i[:, None]  # (r, n)
            x, y = xs[which] * known[..., None], ys[which] * known  # (r, n, d), (r, n)
            tried[which, i] = settle(x, y, p[which, i], near * weights[which, i])  # (r, d)
        after = _excess(xs, ys, tried, p)  # (N, n)
        weights = torch.where((after < excess)[..., None], tried, weights)
        excess = torch.where(after < excess, after, excess)  # (N, n)
    return weights


def _excess(xs: Tensor, ys: Tensor, weights: Tensor, p: Tensor) -> Tensor:
    """How far each prefix is from optimal, in units of how far it may be: (N, n).

    Optimal: X'(y - X w) = p sign(w) where w is not 0, and at most p in size elsewhere; p is (N, n).
    """
    points = xs.shape[1]
    seen = torch.ones(points, points, dtype=xs.dtype, device=xs.device).tril(-1)  # (n, n)
    left = (ys[:, None] - weights @ xs.mT) * seen  # (N, n, n): prefix, example
    gradient = left @ xs  # (N, n, d)
    zero = (gradient.abs() - p[..., None]).clamp_(min=0)  # (N, n, d)
    other = (gradient - p[..., None] * weights.sign()).abs_()  # (N, n, d)
    off = torch.where(weights == 0, zero, other).amax(dim=2)  # (N, n)
    size = sum_before(xs.square()).sqrt_()  # (N, n, d): of the columns of X
    terms = sum_before(ys.square()).sqrt_() + (size * weights.abs()).sum(dim=2)  # (N, n)
    allowed = EXACT * p + ROUNDING * size.amax(dim=2) * terms  # (N, n)
    return off / allowed.clamp(min=torch.finfo(xs.dtype).tiny)
