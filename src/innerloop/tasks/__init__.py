"""Where prompts come from: families of random problems, and shifts of them."""

from typing import TYPE_CHECKING

from innerloop.core.lazy import import_at_first_use

if TYPE_CHECKING:
    from innerloop.tasks import shifts
    from innerloop.tasks.autoregression import RepresentationAR
    from innerloop.tasks.chain import ChainOfThought
    from innerloop.tasks.classification import LinearClassification
    from innerloop.tasks.function import FunctionTask
    from innerloop.tasks.linear import LinearRegression
    from innerloop.tasks.network import TwoLayerNetwork
    from innerloop.tasks.quadratic import QuadraticRegression
    from innerloop.tasks.representation import RepresentationRegression
    from innerloop.tasks.sparse import SparseLinearRegression
    from innerloop.tasks.table import TASKS
    from innerloop.tasks.tabular import TabularPrompts
    from innerloop.tasks.tree import DecisionTree
    from innerloop.tasks.vector import VectorGeneration

__all__ = [
    "TASKS",
    "ChainOfThought",
    "DecisionTree",
    "FunctionTask",
    "LinearClassification",
    "LinearRegression",
    "QuadraticRegression",
    "RepresentationAR",
    "RepresentationRegression",
    "SparseLinearRegression",
    "TabularPrompts",
    "TwoLayerNetwork",
    "VectorGeneration",
    "shifts",
]

import_at_first_use(__name__)
