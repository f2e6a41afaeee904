"""Kernel ridge regression at every prefix."""

import math
from collections.abc import Callable
from typing import Literal

import torch
from pydantic import Field, FiniteFloat
from pydantic.dataclasses import dataclass
from torch import Tensor

from innerloop.core.chunks import map_prompts, rows_within_budget
from innerloop.core.config import STRICT
from innerloop.core.learner import OneShot, Traits
from innerloop.core.prompt import Prompt
from innerloop.learners.nested import cholesky
from innerloop.learners.prefix import require_finite, tensor_bytes

Kernel = Literal["rbf", "matern12", "matern32", "matern52"]

FAR = 1e4
"""Distance in units of the length beyond which every kernel is zero in float64."""
SWALLOWED = 1e-12
"""Part of k(x, x) below which a penalty drowns in rounding: at least so much is always added."""


@dataclass(frozen=True, config=STRICT)
class KernelRidge(OneShot):
    """Kernel ridge regression: k(x)' (K + penalty I)^-1 y.

    The function f that minimises |y - f(X)|^2 + penalty |f|^2 in the space of the kernel: it is the
    mean of a Gaussian process (`GaussianProcess`). With r = |x - x'| / length the kernels are

        rbf       exp(-r^2 / 2)                   matern32  (1 + sqrt(3) r) exp(-sqrt(3) r)
        matern12  exp(-r)                         matern52  (1 + s + s^2 / 3) exp(-s), s = sqrt(5) r

    (Rasmussen and Williams 2006, section 4.2). Without examples the answer is 0. A part 1e-12 of
    k(x, x) is added to the penalty, which rounding would swallow if it were smaller.
    """

    penalty: FiniteFloat = Field(gt=0, description="what is added to the kernel's diagonal")
    length: FiniteFloat = Field(default=1.0, gt=0, description="distance that counts as one")
    kernel: Kernel = Field(default="rbf", description="how likeness falls with distance")

    traits = Traits(order_invariant=True, rotation_equivariant=True, linear_in_y=True)
    differentiable = False

    def init(self, prompt: Prompt) -> Tensor:
        """The answers, for a few prompts at a time."""
        answers = answers_by_kernel(prompt, self._kernel, self.penalty)
        return require_finite(self.name, prompt, answers)

    def _kernel(self, first: Tensor, second: Tensor) -> Tensor:
        # From differences: the expanded square would leave 1e-8 between equal points. In a unit
        # near the length: squares that are infinite are FAR off, those that vanish are near.
        unit = 2.0 ** math.floor(math.log2(self.length))
        exact = "donot_use_mm_for_euclid_dist"
        distance = torch.cdist(first / unit, second / unit, compute_mode=exact)  # (R, a, b)
        return _PROFILES[self.kernel]((distance / (self.length / unit)).clamp(max=FAR))


def _matern52(r: Tensor) -> Tensor:
    s = math.sqrt(5) * r  # (..)
    return (1 + s + s.square() / 3) * torch.exp(-s)


_PROFILES: dict[Kernel, Callable[[Tensor], Tensor]] = {
    "rbf": lambda r: torch.exp(-r.square() / 2),
    "matern12": lambda r: torch.exp(-r),
    "matern32": lambda r: (1 + math.sqrt(3) * r) * torch.exp(-math.sqrt(3) * r),
    "matern52": _matern52,
}
"""Each kernel as a function of the distance in units of the length."""


def answers_by_kernel(
    prompt: Prompt, kernel: Callable[[Tensor, Tensor], Tensor], penalty: float
) -> Tensor:
    """Kernel ridge answers in the prompt's shape, in float64, for all prefixes at once.

    `kernel` maps points (R, a, d) and (R, b, d) to (R, a, b). One Cholesky factor L of K + penalty
    I holds those of all prefixes, its leading blocks: with z = L^-1 y and V = L^-1 k, column i of k
    for the question of prefix i, the answer is the sum of V_ji z_j over j < i.
    """
    points, number = prompt.asked.shape[1:3]
    size = tensor_bytes(points, 3 * points * number + 3 * points)
    return map_prompts(
        lambda part: _answers(part, kernel, penalty), prompt, rows=rows_within_budget(size)
    )


def _answers(prompt: Prompt, kernel: Callable[[Tensor, Tensor], Tensor], penalty: float) -> Tensor:
    xs, ys = prompt.xs[:, :-1].double(), prompt.ys[:, :-1].double()  # (R, m, d), (R, m, k)
    asked = prompt.asked.double()  # (R, n, q, d)
    rows, points, number, dims = asked.shape
    if points == 1:
        return ys.new_zeros(prompt.prediction_shape)
    gram = kernel(xs, xs)  # (R, m, m)
    diagonal = gram.diagonal(dim1=1, dim2=2)  # (R, m)
    diagonal += penalty + SWALLOWED * diagonal
    lower = cholesky(gram)  # (R, m, m)
    across = kernel(xs, asked.reshape(rows, points * number, dims))  # (R, m, n q)
    right = torch.cat([across, ys], dim=2)  # (R, m, n q + k)
    solved = torch.linalg.solve_triangular(lower, right, upper=False)  # (R, m, n q + k)
    parts, z = solved.split([points * number, prompt.outputs], dim=2)
    # Row j counts for the questions asked after more than j examples.
    seen = torch.ones(points - 1, points, device=xs.device, dtype=xs.dtype).triu(1)  # (m, n)
    parts = parts.unflatten(2, (points, number)) * seen[..., None]  # (R, m, n, q)
    return (parts.flatten(2).mT @ z).reshape(prompt.prediction_shape)
