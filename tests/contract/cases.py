"""Every learner of the library, in the configurations that the contract is run on.

A learner that is not here fails `test_every_learner_has_a_case`.
"""

from dataclasses import dataclass, field
from typing import Any

import torch
from sklearn.linear_model import LinearRegression
from sklearn.neighbors import KNeighborsRegressor
from sklearn.tree import DecisionTreeRegressor

from innerloop import learners as il
from innerloop.core.learner import Learner, Traits

LINEAR = Traits(order_invariant=True, rotation_equivariant=True, linear_in_y=True)


@dataclass(frozen=True, kw_only=True)
class Case:
    """A learner, and what the contract must know of it."""

    learner: Learner[Any]
    tolerance: float | None = None
    """Looser than the table's, with the reason beside the case."""
    waived: dict[str, str] = field(default_factory=dict)
    sizes: tuple[tuple[int, int], ...] = ((3, 8), (5, 12), (1, 4))
    """(dims, points) to check at."""
    outputs: tuple[int, ...] = (1, 3)
    any_size: bool = True
    """Whether it is checked at random sizes as well; where not, the reason is beside the case."""


def mean_of_outputs(xs: torch.Tensor, ys: torch.Tensor) -> torch.Tensor:
    """The mean of all outputs before the last point, (B, n, k): right for a whole prompt only."""
    number = max(1, xs.shape[1] - 1)
    return (ys[:, :-1].sum(dim=1, keepdim=True) / number).expand_as(ys)


def running_mean(xs: torch.Tensor, ys: torch.Tensor) -> torch.Tensor:
    """The mean of the outputs seen so far, (B, n, k)."""
    before = ys.cumsum(dim=1) - ys  # (B, n, k)
    number = torch.arange(ys.shape[1], dtype=ys.dtype).clamp(min=1)  # (n,)
    return before / number[:, None]


CASES: dict[str, Case] = {
    "ols": Case(learner=il.OLS()),
    "ridge": Case(learner=il.Ridge(0.1)),
    "ridge without penalty": Case(learner=il.Ridge(0.0)),
    "ridge, small penalty": Case(learner=il.Ridge(1e-7)),
    "ridge, tiny penalty": Case(learner=il.Ridge(1e-10)),
    "ridge, a penalty far below rounding": Case(learner=il.Ridge(1e-100)),
    "ridge, huge penalty": Case(learner=il.Ridge(1e6), sizes=((5, 12),)),
    "bayes": Case(learner=il.Bayes(0.5, 2.0)),
    "bayes without noise": Case(learner=il.Bayes(0.0)),
    "averaging": Case(learner=il.Averaging()),
    "gradient descent": Case(learner=il.GradientDescent(4)),
    "gradient descent, constant step": Case(learner=il.GradientDescent(4, 0.01)),
    "gradient descent on the average": Case(learner=il.GradientDescent(3, 0.1, average=True)),
    # Its start has three dimensions.
    "gradient descent from a start": Case(
        learner=il.GradientDescent(4, average=True, start=(1.0, -1.0, 2.0)),
        sizes=((3, 8),),
        any_size=False,
    ),
    "momentum": Case(learner=il.MomentumDescent(4)),
    "momentum on the average": Case(learner=il.MomentumDescent(3, 0.1, 0.5, average=True)),
    "online gradient descent": Case(learner=il.OnlineGradientDescent(), sizes=((3, 8), (5, 12))),
    "online gradient descent, constant step": Case(
        learner=il.OnlineGradientDescent(0.05, 0.1), sizes=((3, 8), (5, 12))
    ),
    "online gradient descent with a penalty": Case(
        learner=il.OnlineGradientDescent(penalty=0.2), sizes=((3, 8),)
    ),
    "newton": Case(learner=il.Newton(5)),
    "newton far beyond convergence": Case(learner=il.Newton(120), sizes=((3, 8),), outputs=(3,)),
    "newton from the papers' start": Case(learner=il.Newton(5, "paper")),
    "newton from a number": Case(learner=il.Newton(4, 1e-4)),
    # After d steps it is least squares, and linear in y.
    "conjugate gradient": Case(learner=il.ConjugateGradient(2), sizes=((3, 8), (5, 12))),
    "gradient descent in strides": Case(
        learner=il.Strided(il.GradientDescent(7, 0.01), (2, 0, 5)), sizes=((3, 8), (5, 12))
    ),
    "sherman morrison": Case(learner=il.ShermanMorrison(0.1)),
    "lasso": Case(learner=il.Lasso(0.1)),
    "lasso, small penalty": Case(learner=il.Lasso(0.001)),
    "elastic net": Case(learner=il.ElasticNet(0.1)),
    "elastic net, nearly the lasso": Case(learner=il.ElasticNet(0.01, 0.95), sizes=((3, 8),)),
    "kernel ridge": Case(learner=il.KernelRidge(0.1)),
    "kernel ridge, matern 1/2": Case(learner=il.KernelRidge(0.01, 2.0, "matern12")),
    "kernel ridge, matern 3/2": Case(learner=il.KernelRidge(1e-4, 2.0, "matern32")),
    "kernel ridge, matern 5/2": Case(learner=il.KernelRidge(0.5, 0.5, "matern52")),
    "gaussian process": Case(learner=il.GaussianProcess(0.3, 2.0, 1.5)),
    "random features": Case(learner=il.RandomFeatures(0.1, features=20)),
    "random cosines": Case(learner=il.RandomFeatures(0.1, features=20, kind="cosine", seed=3)),
    "nearest neighbours": Case(learner=il.NearestNeighbors(3)),
    "nearest neighbours by distance": Case(learner=il.NearestNeighbors(2, "distance")),
    "greedy tree": Case(learner=il.GreedyTree(), sizes=((3, 8), (5, 12))),
    "greedy tree on signs": Case(learner=il.GreedyTree(signs=True), sizes=((3, 8), (5, 12))),
    "greedy tree without limit": Case(learner=il.GreedyTree(None), sizes=((3, 8), (5, 12))),
    # XGBoost computes in float32, whatever it is given.
    "boosting": Case(learner=il.Boosting(rounds=3), tolerance=1e-5, sizes=((3, 6),), outputs=(2,)),
    "boosting on signs": Case(
        learner=il.Boosting(rounds=3, signs=True), tolerance=1e-5, sizes=((3, 7),), outputs=(1,)
    ),
    "network by Adam": Case(learner=il.NetworkByAdam(hidden=8, steps=3), sizes=((3, 8), (5, 12))),
    "function": Case(learner=il.FromFunction(running_mean, traits=LINEAR)),
    "function of a whole prompt": Case(
        learner=il.FromFunction(
            mean_of_outputs,
            traits=Traits(
                causal=False, order_invariant=True, rotation_equivariant=True, linear_in_y=True
            ),
        )
    ),
    # One fit per prompt, prefix and output: small sizes.
    "scikit-learn's least squares": Case(
        learner=il.FromEstimator(LinearRegression(fit_intercept=False), traits=LINEAR),
        sizes=((2, 5),),
    ),
    "scikit-learn's neighbours": Case(
        learner=il.FromEstimator(KNeighborsRegressor(2), minimum_examples=2, traits=LINEAR),
        sizes=((2, 5),),
    ),
    # With one feature no two splits are equally good, and a rotation is a sign.
    "scikit-learn's tree": Case(
        learner=il.FromEstimator(
            DecisionTreeRegressor(max_depth=1),
            traits=Traits(order_invariant=True, rotation_equivariant=True),
        ),
        sizes=((1, 5),),
        outputs=(2,),
    ),
}
