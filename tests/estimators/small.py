"""Small models with random weights, and tables, for the tests of the estimators."""

from typing import Literal

import numpy as np
import pytest
import torch
from numpy.typing import NDArray

from innerloop.models import (
    InContextTransformer,
    LinearLoopedTransformer,
    Loop,
    TabularConfig,
    TabularTransformer,
    TransformerConfig,
)
from innerloop.models.pretrained import SHIPPED, is_shipped
from innerloop.models.tabular_block import TabularShape

Array = NDArray[np.float64]
Heads = Literal["regression", "gaussian", "binary"]

needs_weights = pytest.mark.skipif(
    not all(map(is_shipped, SHIPPED)), reason="the trained weights are not in the package yet"
)


def tabular(head: Heads = "gaussian", seed: int = 0, loops: int = 3) -> TabularTransformer:
    """Weights as before training, for a width of 8."""
    shape = TabularShape(width=8, heads=2, loops=loops)
    generator = torch.Generator().manual_seed(seed)
    return TabularTransformer(TabularConfig(head=head, shape=shape), generator=generator)


def contracting() -> TabularTransformer:
    """One whose loop comes to rest soon: the table outweighs what the blocks add."""
    model = tabular()
    with torch.no_grad():
        for parameter in (
            model.feature.weight,
            model.target.weight,
            model.unknown,
            model.first_row,
        ):
            parameter.mul_(30).add_(3)
    return model


def fixed(dims: int = 5, points: int = 11) -> InContextTransformer:
    """A looped transformer that reads `dims` inputs and at most `points` points."""
    backbone = Loop(loops=3, width=8, heads=2)
    return InContextTransformer(TransformerConfig(dims=dims, points=points, backbone=backbone))


def descent(dims: int, loops: int = 400, step_size: float = 0.01) -> LinearLoopedTransformer:
    """Gradient descent on the squares, as a model that reads `dims` inputs."""
    return LinearLoopedTransformer.gradient_descent(dims=dims, loops=loops, step_size=step_size)


def linear_table(rows: int = 40, features: int = 3, seed: int = 0) -> tuple[Array, Array]:
    """A table (N, d) in units of its own, and a linear output (N,) with an offset."""
    random = np.random.default_rng(seed)
    X = random.standard_normal((rows, features)) * (1 + np.arange(features)) + 7
    return X, 5 + X @ np.linspace(1, -2, features)


def two_classes(rows: int = 60, features: int = 3, seed: int = 0) -> tuple[Array, Array]:
    """A table (N, d) and labels 0 and 1 (N,) that a plane divides."""
    X, y = linear_table(rows, features, seed)
    return X, (y > np.median(y)).astype(float)
