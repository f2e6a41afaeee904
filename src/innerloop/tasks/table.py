"""The tasks that have a name on the command line."""

from innerloop.core.task import Task
from innerloop.tasks.autoregression import RepresentationAR
from innerloop.tasks.chain import ChainOfThought
from innerloop.tasks.classification import LinearClassification
from innerloop.tasks.linear import LinearRegression
from innerloop.tasks.network import TwoLayerNetwork
from innerloop.tasks.quadratic import QuadraticRegression
from innerloop.tasks.representation import RepresentationRegression
from innerloop.tasks.sparse import SparseLinearRegression
from innerloop.tasks.tabular import TabularPrompts
from innerloop.tasks.tabular_prior import TabularPrior
from innerloop.tasks.tree import DecisionTree
from innerloop.tasks.vector import VectorGeneration

TASKS: dict[str, type[Task]] = {
    "linear": LinearRegression,
    "sparse": SparseLinearRegression,
    "tree": DecisionTree,
    "network": TwoLayerNetwork,
    "classification": LinearClassification,
    "quadratic": QuadraticRegression,
    "representation": RepresentationRegression,
    "representation-ar": RepresentationAR,
    "chain": ChainOfThought,
    "vector": VectorGeneration,
    "tabular-prior": TabularPrior,
    "tables": TabularPrompts,
}
"""By name; the class's own name is understood as well."""
