"""Classical algorithms, batched over prompts and prefixes."""

from typing import TYPE_CHECKING

from innerloop.core.lazy import import_at_first_use

if TYPE_CHECKING:
    from innerloop.learners.adapters import FromEstimator, FromFunction
    from innerloop.learners.averaging import Averaging
    from innerloop.learners.bayes import Bayes
    from innerloop.learners.boosting import Boosting
    from innerloop.learners.conjugate_gradient import ConjugateGradient
    from innerloop.learners.elastic_net import ElasticNet
    from innerloop.learners.gaussian_process import GaussianProcess
    from innerloop.learners.gradient_descent import GradientDescent
    from innerloop.learners.kernel_ridge import KernelRidge
    from innerloop.learners.lasso import Lasso
    from innerloop.learners.momentum_descent import MomentumDescent
    from innerloop.learners.neighbors import NearestNeighbors
    from innerloop.learners.network import NetworkByAdam
    from innerloop.learners.newton import Newton
    from innerloop.learners.ols import OLS
    from innerloop.learners.online_gradient_descent import OnlineGradientDescent
    from innerloop.learners.random_features import RandomFeatures
    from innerloop.learners.ridge import Ridge
    from innerloop.learners.sherman_morrison import ShermanMorrison
    from innerloop.learners.strided import Strided
    from innerloop.learners.table import LEARNERS
    from innerloop.learners.tree import GreedyTree

__all__ = [
    "LEARNERS",
    "OLS",
    "Averaging",
    "Bayes",
    "Boosting",
    "ConjugateGradient",
    "ElasticNet",
    "FromEstimator",
    "FromFunction",
    "GaussianProcess",
    "GradientDescent",
    "GreedyTree",
    "KernelRidge",
    "Lasso",
    "MomentumDescent",
    "NearestNeighbors",
    "NetworkByAdam",
    "Newton",
    "OnlineGradientDescent",
    "RandomFeatures",
    "Ridge",
    "ShermanMorrison",
    "Strided",
]

import_at_first_use(__name__)
