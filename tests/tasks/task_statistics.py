"""What the tests of tasks share: significance, z-scores, and one list of configurations."""

import math

import scipy.stats
import torch
from torch import Tensor

from innerloop.core.task import Task
from innerloop.tasks.autoregression import RepresentationAR
from innerloop.tasks.chain import ChainOfThought
from innerloop.tasks.classification import LinearClassification
from innerloop.tasks.linear import LinearRegression
from innerloop.tasks.network import TwoLayerNetwork
from innerloop.tasks.quadratic import QuadraticRegression
from innerloop.tasks.representation import RepresentationRegression
from innerloop.tasks.sparse import SparseLinearRegression
from innerloop.tasks.tree import DecisionTree
from innerloop.tasks.vector import VectorGeneration

SIGNIFICANCE = 1e-3
"""A distribution is refuted where a sample like ours is less probable than this."""
LARGEST_Z = 4.0
"""A mean is refuted beyond so many standard errors (probability 6e-5)."""

MATRIX = ((2.0, 0.5, 0.0), (0.5, 1.0, -0.3), (0.0, -0.3, 0.5))

CASES: dict[str, Task] = {
    "linear": LinearRegression(dims=4),
    "linear, noise": LinearRegression(dims=4, noise=1.5),
    "linear, prior": LinearRegression(dims=4, prior_variance=0.25, noise=0.5),
    "linear, ill-conditioned": LinearRegression(dims=6, covariance="ill-conditioned"),
    "linear, condition number": LinearRegression(
        dims=3, covariance="ill-conditioned", condition_number=7
    ),
    "linear, skewed": LinearRegression(dims=5, covariance="skewed", noise=0.3),
    "linear, eigenvalues": LinearRegression(dims=3, covariance=(4.0, 0.0, 0.5)),
    "linear, matrix": LinearRegression(dims=3, covariance=MATRIX, prior_variance=2),
    "linear, outputs": LinearRegression(dims=4, outputs=3, noise=0.1),
    "sparse": SparseLinearRegression(dims=8),
    "sparse, noise": SparseLinearRegression(dims=8, sparsity=1, noise=0.5),
    "classification": LinearClassification(dims=4),
    "quadratic": QuadraticRegression(dims=4),
    "tree": DecisionTree(dims=6),
    "tree, depth 1": DecisionTree(dims=3, depth=1),
    "network": TwoLayerNetwork(dims=4),
    "network, hidden 7": TwoLayerNetwork(dims=4, hidden=7),
    "representation": RepresentationRegression(dims=5),
    "representation, outputs": RepresentationRegression(
        dims=6, outputs=2, noise=0.5, layers=2, representation_seed=3
    ),
    "autoregression": RepresentationAR(dims=5),
    "autoregression, order 1": RepresentationAR(
        dims=3, order=1, layers=2, noise=2, representation_seed=1
    ),
    "chain": ChainOfThought(dims=5),
    "chain, slope": ChainOfThought(dims=4, layers=2, slope=0.3),
    "vector": VectorGeneration(dims=4),
}
"""Every task, in every configuration that changes what is drawn."""


def seeded(seed: int) -> torch.Generator:
    """A generator in a known state."""
    return torch.Generator().manual_seed(seed)


def z_score(samples: Tensor, expected: float) -> float:
    """Standard errors between the mean of independent samples (N,) and what it should be."""
    samples = samples.double().reshape(-1)
    error = float(samples.std()) / math.sqrt(len(samples))
    return (float(samples.mean()) - expected) / error


def normal_probability(samples: Tensor, deviation: float = 1.0) -> float:
    """How probable samples like these are under N(0, deviation^2): Kolmogorov and Smirnov's p."""
    values = samples.double().reshape(-1).numpy() / deviation
    return float(scipy.stats.kstest(values, "norm").pvalue)


def uniform_probability(indices: Tensor, number: int) -> float:
    """How probable indices like these are if all of 0 .. number-1 are: the p of chi-square."""
    counts = torch.bincount(indices.reshape(-1), minlength=number)
    assert len(counts) == number
    return float(scipy.stats.chisquare(counts.numpy()).pvalue)
