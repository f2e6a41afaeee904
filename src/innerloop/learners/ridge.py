"""Ridge regression at every prefix."""

import math

import torch
from pydantic import Field
from pydantic.dataclasses import dataclass
from torch import Tensor

from innerloop.core.config import STRICT
from innerloop.core.learner import Traits
from innerloop.core.prompt import Prompt
from innerloop.learners.nested import (
    BLOCK,
    REFINED,
    chunks,
    nested_weights,
    plus_identity,
    singular_weights,
)
from innerloop.learners.ols import OLS
from innerloop.learners.prefix import LinearLearner

LEAST = 1e-290
"""Penalties below are near the end of float64's range, where sums of squares lose their digits."""
HUGE = 1e280
"""Numbers beyond are near its other end."""


@dataclass(frozen=True, config=STRICT)
class Ridge(LinearLearner[Tensor]):
    """Ridge regression: |y - X w|^2 + penalty |w|^2.

    Its minimum is (X'X + penalty I)^-1 X'y; without a penalty it is `OLS`, the limit of small
    ones. A penalty that is small beside the inputs drowns in rounding on the fast way, and takes
    that of `nested.py`; there, singular values of deficient inputs count as zero where those of
    `OLS` do.
    """

    penalty: float = Field(ge=0, allow_inf_nan=False, description="what |w|^2 is multiplied by")

    traits = Traits(order_invariant=True, rotation_equivariant=True, linear_in_y=True)

    def init(self, prompt: Prompt) -> Tensor:
        """The weights of each prefix: (B, n, d, k)."""
        if self.penalty == 0:
            return OLS().init(prompt)
        xs, ys = prompt.xs.double(), prompt.ys.double()  # (B, n, d), (B, n, k)
        weights = xs.new_empty(*ys.shape, xs.shape[2])  # (B, n, k, d)
        condition = xs.new_empty(xs.shape[0])  # (B,)
        for rows in chunks(xs, ys):
            condition[rows] = _penalised(xs[rows], ys[rows], self.penalty, weights[rows])
        weights = weights.transpose(2, 3)  # (B, n, d, k)
        small = ~(condition < REFINED[0][0]) | (self.penalty < LEAST)  # (B,)
        if bool(small.any()):
            weights[small] = _barely_penalised(xs[small], ys[small], self.penalty)
        # Both ways divide the outputs by the root of the penalty first.
        sizes = ys.abs()  # (B, n, k)
        sizes[:, -1] = 0  # no prefix has it
        huge = sizes.amax(dim=(1, 2)) / self.penalty**0.5 > HUGE  # (B,)
        if bool(huge.any()):
            weights[huge] = singular_weights(xs[huge], ys[huge], self.penalty, 0)
        return weights


def require_penalty(noise: float, prior_variance: float) -> None:
    """Refuse noise for which the penalty noise^2 / prior_variance is zero or infinite."""
    penalty = noise * noise / prior_variance
    if math.isinf(penalty) or (noise > 0 and penalty == 0):
        raise ValueError(
            f"noise {noise:g} and prior_variance {prior_variance:g} make a penalty noise^2 / "
            f"prior_variance of {penalty:g} in float64: bring them nearer to 1"
        )


def _penalised(xs: Tensor, ys: Tensor, penalty: float, weights: Tensor) -> Tensor:
    """Fill the weights (b, n, k, d) from one Cholesky factorisation of X X' + penalty I, by blocks.

    The factor's leading blocks belong to the prefixes. With Q = L^-1 X and z = L^-1 y the weights
    are a running sum, w_i = sum_{j<i} z_j Q_j. What a block of inputs N has to factor, once the
    blocks before it are eliminated, is N M N' + penalty I with M = I - Q'Q of these. Returns a
    bound (b,) of the condition number.
    """
    weights[:, 0] = 0
    _, points, dims = xs.shape
    blocks = -(-(points - 1) // max(BLOCK, dims))
    size = -(-(points - 1) // max(1, blocks))
    m = None  # (b, d, d); the identity at first
    for base in range(0, points - 1, max(1, size)):
        end = min(base + size, points - 1)
        new, start = xs[:, base:end], weights[:, base]  # (b, p, d), (b, k, d)
        rest = new if m is None else new @ m  # (b, p, d)
        gram = plus_identity(new @ rest.mT, penalty)  # (b, p, p)
        surprise = ys[:, base:end] - new @ start.mT  # (b, p, k)
        lower = torch.linalg.cholesky_ex(gram)[0]  # (b, p, p)
        right = torch.cat([rest, surprise], dim=2)  # (b, p, d + k)
        solved = torch.linalg.solve_triangular(lower, right, upper=False)  # (b, p, d + k)
        q, z = solved[..., :dims], solved[..., dims:]  # (b, p, d), (b, p, k)
        moves = z[..., None] * q[:, :, None]  # (b, p, k, d)
        moves[:, 0] += start
        torch.cumsum(moves, dim=1, out=weights[:, base + 1 : end + 1])
        if end < points - 1:
            done = q.mT @ q  # (b, d, d)
            m = plus_identity(-done, 1.0) if m is None else m - done  # (b, d, d)
    return 1 + xs[:, :-1].square().sum(dim=(1, 2)) / penalty


def _barely_penalised(xs: Tensor, ys: Tensor, penalty: float) -> Tensor:
    """The weights (B, n, d, k) where the penalty is small beside the inputs."""
    weights, unsolved = nested_weights(xs, ys, penalty)  # (B, n, d, k), (B,)
    if bool(unsolved.any()):
        weights[unsolved] = singular_weights(xs[unsolved], ys[unsolved], penalty, 0)
    return weights
