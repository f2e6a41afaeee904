"""Classical algorithms, batched over prompts and prefixes."""

from typing import TYPE_CHECKING

from innerloop.core.lazy import import_at_first_use

if TYPE_CHECKING:
    from innerloop.learners.adapters import FromEstimator, FromFunction
    from innerloop.learners.averaging import Averaging
    from innerloop.learners.bayes import Bayes
    from innerloop.learners.boosting import Boosting
    from innerloop.learners.conjugate_gradient import ConjugateGradient
    from innerloop.learners.gradient_descent import GradientDescent
    from innerloop.learners.lasso import Lasso
    from innerloop.learners.neighbors import NearestNeighbors
    from innerloop.learners.network import NetworkByAdam
    from innerloop.learners.newton import Newton
    from innerloop.learners.ols import OLS
    from innerloop.learners.online_gradient_descent import OnlineGradientDescent
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
    "FromEstimator",
    "FromFunction",
    "GradientDescent",
    "GreedyTree",
    "Lasso",
    "NearestNeighbors",
    "NetworkByAdam",
    "Newton",
    "OnlineGradientDescent",
    "Ridge",
    "ShermanMorrison",
    "Strided",
]

import_at_first_use(__name__)
