"""Ordinary least squares: the minimum-norm solution at every prefix."""

import torch
from pydantic.dataclasses import dataclass
from torch import Tensor

from innerloop.core.config import STRICT
from innerloop.core.learner import Traits
from innerloop.core.prompt import Prompt
from innerloop.learners.nested import nested_weights, rank_tolerance, singular_weights
from innerloop.learners.prefix import LinearLearner


@dataclass(frozen=True, config=STRICT)
class OLS(LinearLearner[Tensor]):
    """Ordinary least squares, of minimum norm.

    The smallest w among those that minimise |y - X w|^2. Singular values of a prefix of i examples
    count as zero below max(i, d) * eps times the largest one, as in numpy's lstsq. In prompts of a
    coarser type than float64 they do so below four times the eps of float32: inputs in a subspace
    are in it up to their own rounding only, which must not pass for a direction.
    """

    traits = Traits(order_invariant=True, rotation_equivariant=True, linear_in_y=True)

    def init(self, prompt: Prompt) -> Tensor:
        """The weights of each prefix: (B, n, d, k)."""
        xs, ys = prompt.xs.double(), prompt.ys.double()  # (B, n, d), (B, n, k)
        weights, unsolved = nested_weights(xs, ys, penalty=0)  # (B, n, d, k), (B,)
        if bool(unsolved.any()):
            exact = prompt.xs.dtype == torch.float64
            precision = 0.0 if exact else 4 * torch.finfo(torch.float32).eps
            weights[unsolved] = _deficient(xs[unsolved], ys[unsolved], precision)
        return weights


def _deficient(xs: Tensor, ys: Tensor, precision: float) -> Tensor:
    """The weights (B, n, d, k) of prompts that are rank-deficient, or nearly so.

    Inputs that all lie in one subspace are solved in coordinates of it; the rest one prefix at a
    time. Both drop the same directions, so it does not matter that later examples decide.
    """
    points, dims = xs.shape[1:]
    weights = xs.new_zeros(*xs.shape, ys.shape[2])  # (B, n, d, k)
    left = torch.ones(xs.shape[0], dtype=torch.bool, device=xs.device)  # (B,)
    _, s, basis = torch.linalg.svd(xs[:, :-1], full_matrices=False)  # (B, r), (B, r, d)
    tolerance = rank_tolerance(points - 1, dims, precision)
    ranks = (s > tolerance * s[:, :1]).sum(dim=1)  # (B,)
    for rank in range(1, min(dims, points - 1)):
        some = torch.nonzero(ranks == rank)[:, 0]  # (R,)
        if len(some) == 0:
            continue
        span = basis[some, :rank]  # (R, rank, d)
        inside = xs[some] @ span.mT  # (R, n, rank)
        lost = (xs[some] - inside @ span)[:, :-1].norm(dim=2)  # (R, n - 1)
        size = torch.maximum(
            inside[:, :-1].norm(dim=2), inside[:, :rank].norm(dim=(1, 2))[:, None]
        )  # (R, n - 1)
        reduced, unsolved = nested_weights(inside, ys[some], penalty=0)  # (R, n, rank, k), (R,)
        solved = ~unsolved & (lost <= tolerance * size).all(dim=1)  # (R,)
        weights[some[solved]] = (span.mT[:, None] @ reduced)[solved]
        left[some[solved]] = False
    weights[left] = singular_weights(xs[left], ys[left], 0, precision)
    return weights
