"""Ten learners beyond linear ones for `identify` to find; never run while it was tuned.

Two of them, trees and a network fitted to the prompt, need the candidates of the full battery.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process.kernels import Matern
from sklearn.linear_model import ElasticNet as ScikitElasticNet

from innerloop.core.learner import Learner
from innerloop.learners import (
    Boosting,
    ElasticNet,
    FromEstimator,
    GaussianProcess,
    KernelRidge,
    MomentumDescent,
    NetworkByAdam,
    RandomFeatures,
)

FIXED: Any = None
"""Scikit-learn's stubs know no kernel that stays as it is."""
KERNEL = frozenset({"KernelRidge", "GaussianProcess"})
"""One function by two ways."""


@dataclass(frozen=True)
class WiderCase:
    """A learner, the families that name it rightly, and the battery that has them."""

    make: Callable[[], Learner[Any]]
    families: frozenset[str]
    battery: Literal["quick", "full"] = "quick"


def only(family: str) -> frozenset[str]:
    return frozenset({family})


WIDER_CASES: dict[str, WiderCase] = {
    "kernel ridge, rbf": WiderCase(lambda: KernelRidge(0.05, 1.4), KERNEL),
    "kernel ridge, matern 1/2": WiderCase(lambda: KernelRidge(0.2, 3.0, "matern12"), KERNEL),
    "gaussian process, matern 5/2": WiderCase(
        lambda: GaussianProcess(0.3, 2.0, 2.2, "matern52"), KERNEL
    ),
    "scikit-learn's gaussian process": WiderCase(
        lambda: FromEstimator(
            GaussianProcessRegressor(Matern(1.8, "fixed", nu=1.5), alpha=0.02, optimizer=FIXED)
        ),
        KERNEL,
    ),
    "ridge on random features": WiderCase(
        lambda: RandomFeatures(0.3, features=400, seed=11), only("RandomFeatures")
    ),
    "elastic net": WiderCase(lambda: ElasticNet(0.3, 0.4), only("ElasticNet")),
    "scikit-learn's elastic net": WiderCase(
        lambda: FromEstimator(
            ScikitElasticNet(0.15, l1_ratio=0.7, fit_intercept=False, tol=1e-10, max_iter=10**5)
        ),
        only("ElasticNet"),
    ),
    "momentum": WiderCase(lambda: MomentumDescent(9, 0.015, 0.75), only("MomentumDescent")),
    "boosting": WiderCase(lambda: Boosting(rounds=20, depth=3), only("Boosting"), "full"),
    "network by adam": WiderCase(
        lambda: NetworkByAdam(steps=60, learning_rate=0.01), only("NetworkByAdam"), "full"
    ),
}
"""By name."""
