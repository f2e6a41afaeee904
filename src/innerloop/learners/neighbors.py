"""Nearest neighbours: the mean of the outputs of the examples that lie closest to the question."""

from typing import Literal

import torch
from pydantic import ConfigDict, Field
from pydantic.dataclasses import dataclass
from torch import Tensor

from innerloop.core.chunks import map_prompts, rows_within_budget
from innerloop.core.config import STRICT
from innerloop.core.learner import OneShot, Traits
from innerloop.core.prompt import Prompt
from innerloop.learners.prefix import require_finite

_PREFIXES = 16
"""Prefixes answered together: they share the columns of the longest, the rest is masked."""
_SMALL = 2.0**-400
"""The size from which on, up to its inverse, squares of differences are in float64's range."""
_LARGE, _ROOM = 2.0**1000, 2.0**-20
"""The size from which on numbers are multiplied by the second, so that their sums are in it."""
_BYTES = 2**21
"""Distances held at once. Far below the memory budget: what stays in the cache is faster."""


@dataclass(frozen=True, config=STRICT | ConfigDict(populate_by_name=True))
class NearestNeighbors(OneShot):
    """The mean over the k nearest earlier examples.

    The mean of y over the k nearest earlier examples, by Euclidean distance. With fewer than k
    examples all of them count; without any the answer is 0. "distance" weighs y_j by 1 / |x - x_j|,
    and a question that equals examples takes the mean of just those. Both are baselines of Garg et
    al. (2022). Akyurek et al. (2022) print the weights |x - x_j|^2, which grow with the distance: 1
    / distance, as in the public code, is what is meant.

    Among examples at equal distances the earlier ones are nearer, so the order of the examples
    matters where the k-th and the next are equally far, and only there.
    """

    k: int = Field(default=3, ge=1, description="neighbours to average over")
    # Given as `weights`; as an attribute that name belongs to the method of linear learners.
    weighting: Literal["uniform", "distance"] = Field(
        default="uniform", alias="weights", description="how they count: uniform or by 1 / distance"
    )
    traits = Traits(order_invariant=True, rotation_equivariant=True, linear_in_y=True)
    differentiable = False

    def init(self, prompt: Prompt) -> Tensor:
        """The answers, for a few prompts at a time."""
        _, points, number, _ = prompt.asked.shape
        one = 8 * number * points  # bytes of a prefix
        prefixes = min(_PREFIXES, points, rows_within_budget(one, at_most=_BYTES))
        rows = rows_within_budget(one * prefixes, at_most=_BYTES)
        answers = map_prompts(lambda part: self._prefixes(part, prefixes), prompt, rows=rows)
        return require_finite(self.name, prompt, answers.reshape(prompt.prediction_shape))

    def _prefixes(self, prompt: Prompt, number: int) -> Tensor:
        """Answers (B, n, q, k), for a number of prefixes at a time."""
        xs, ys, asked = prompt.xs.double(), prompt.ys.double(), prompt.asked.double()
        careful = _is_extreme(xs) or _is_extreme(asked)
        answers = ys.new_zeros(*asked.shape[:3], prompt.outputs)  # (B, n, q, k)
        for first in range(0, prompt.points, number):
            last = min(first + number, prompt.points)
            seen = slice(0, last - 1)  # the examples of the longest prefix of the block
            if last > 1:
                answers[:, first:last] = self._answer(
                    asked[:, first:last], xs[:, seen], ys[:, seen], first, careful=careful
                )
        return answers

    def _answer(
        self, asked: Tensor, xs: Tensor, ys: Tensor, first: int, *, careful: bool
    ) -> Tensor:
        """Answers (R, p, q, k) to questions (R, p, q, d) at the prefixes first .. first + p - 1."""
        rows, prefixes, number, dims = asked.shape
        questions = asked.reshape(rows, prefixes * number, dims)  # (R, p q, d)
        distances = _distances(questions, xs, careful=careful)  # (R, p q, m)
        distances = distances.reshape(rows, prefixes, number, -1)  # (R, p, q, m)
        length = torch.arange(first, first + prefixes, device=xs.device)  # (p,)
        unseen = torch.arange(xs.shape[1], device=xs.device) >= length[:, None]  # (p, m)
        distances.masked_fill_(unseen[:, None], torch.inf)
        nearest, index = _smallest(distances, min(self.k, xs.shape[1]))  # (R, p, q, j)
        row = torch.arange(rows, device=xs.device)[:, None, None, None]  # (R, 1, 1, 1)
        chosen = ys[row, index]  # (R, p, q, j, k)
        weights = self._weigh(nearest)  # (R, p, q, j)
        total = weights.sum(dim=-1, keepdim=True).clamp(min=1)  # (R, p, q, 1)
        return (weights[..., None] * chosen).sum(dim=-2) / total

    def _weigh(self, nearest: Tensor) -> Tensor:
        """Weights of distances (..., j) in rising order, the first 1, and 0 at infinity."""
        if self.weighting == "uniform":
            return nearest.isfinite().double()
        smallest = nearest[..., :1]  # (..., 1)
        # Relative to the nearest, a weight is at most 1 and cannot overflow.
        ratio = torch.where(smallest == 0, (nearest == 0).double(), smallest / nearest)
        return torch.where(nearest.isfinite(), ratio, 0.0)


def _distances(first: Tensor, second: Tensor, *, careful: bool) -> Tensor:
    """The Euclidean distances (R, a, b) of points (R, a, d) and (R, b, d).

    Carefully where squares may leave the range of float64, which takes d times the memory; then the
    largest are scaled down, and those that are all tiny up, which is as good: only ratios count.
    """
    if not careful:
        # From differences: the expanded square would leave 1e-8 between equal points.
        return torch.cdist(first, second, compute_mode="donot_use_mm_for_euclid_dist")
    largest = torch.maximum(first.abs().amax(dim=(1, 2)), second.abs().amax(dim=(1, 2)))  # (R,)
    units = torch.ones_like(largest)  # (R,)
    units = units.masked_fill(largest > _LARGE, _ROOM).masked_fill(largest < _SMALL, 1 / _SMALL)
    units = units[:, None, None]  # (R, 1, 1)
    first, second = first * units, second * units  # (R, a, d), (R, b, d)
    differences = (first[:, :, None] - second[:, None]).abs()  # (R, a, b, d)
    largest = differences.amax(dim=3, keepdim=True)  # (R, a, b, 1)
    largest = torch.where(largest == 0, 1.0, largest)  # (R, a, b, 1)
    return (differences / largest).norm(dim=3) * largest[..., 0]


def _is_extreme(values: Tensor) -> bool:
    """Whether there are numbers, other than zero, whose squares are out of range."""
    sizes = values.abs()  # (..)
    if float(sizes.amax()) > 1 / _SMALL:
        return True
    small = sizes < _SMALL  # (..)
    return bool(small.any()) and bool((small & (sizes > 0)).any())


def _smallest(values: Tensor, number: int) -> tuple[Tensor, Tensor]:
    """The smallest values (..., number) along the last axis, in order, and their places.

    By repeated minima, which find the earliest of equal values: topk promises no order among
    them, and a stable sort pays only from about 15 neighbours on. Crosses out `values`.
    """
    smallest: list[Tensor] = []
    places: list[Tensor] = []
    for _ in range(number):
        value, place = values.min(dim=-1, keepdim=True)  # (..., 1)
        values.scatter_(-1, place, torch.inf)
        smallest.append(value)
        places.append(place)
    return torch.cat(smallest, dim=-1), torch.cat(places, dim=-1)
