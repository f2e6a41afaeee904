"""The learners that have a name on the command line."""

from typing import Any

from innerloop.core.learner import Learner
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
from innerloop.learners.tree import GreedyTree

LEARNERS: dict[str, type[Learner[Any]]] = {
    "ols": OLS,
    "ridge": Ridge,
    "bayes": Bayes,
    "averaging": Averaging,
    "gradient-descent": GradientDescent,
    "momentum-descent": MomentumDescent,
    "online-gradient-descent": OnlineGradientDescent,
    "newton": Newton,
    "conjugate-gradient": ConjugateGradient,
    "sherman-morrison": ShermanMorrison,
    "lasso": Lasso,
    "elastic-net": ElasticNet,
    "kernel-ridge": KernelRidge,
    "gaussian-process": GaussianProcess,
    "random-features": RandomFeatures,
    "nearest-neighbors": NearestNeighbors,
    "greedy-tree": GreedyTree,
    "boosting": Boosting,
    "network-by-adam": NetworkByAdam,
}
"""By name; the adapters take Python objects and have none."""
