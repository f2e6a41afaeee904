"""Learners whose algorithm is known, for `identify` to find."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import torch
from sklearn.linear_model import Ridge as ScikitRidge
from torch import Tensor

from innerloop.circuits import compile
from innerloop.core.iterate import predict
from innerloop.core.learner import Learner, OneShot, Traits
from innerloop.core.prompt import Prompt
from innerloop.learners import (
    OLS,
    ConjugateGradient,
    FromEstimator,
    FromFunction,
    GradientDescent,
    Lasso,
    NearestNeighbors,
    Newton,
    OnlineGradientDescent,
    Ridge,
)
from innerloop.models import InContextTransformer, Stack, TransformerConfig

DIMS, POINTS, PROMPTS = 4, 9, 128

RIDGE = frozenset({"Ridge", "ShermanMorrison", "Bayes"})
"""One function by three ways."""
LEAST_SQUARES = frozenset({"OLS", "Newton", "ConjugateGradient"})
"""Where Newton's method and conjugate gradients have converged."""


@dataclass(frozen=True)
class Case:
    """A learner, and what must be said of it."""

    make: Callable[[], Learner[Any]]
    families: frozenset[str]
    """The right answers: an equivalence class, or "none"."""
    steps: int | None = None
    """The number of iterations to be found, to one, where a step more would be seen."""
    penalty: float | None = None
    """The penalty to be found, to one point of the grid."""


def only(family: str) -> frozenset[str]:
    return frozenset({family})


class Mixture(OneShot):
    """Half least squares, half nearest neighbours."""

    traits = Traits(order_invariant=True, rotation_equivariant=True, linear_in_y=True)

    @cached_property
    def name(self) -> str:
        return "mixture"

    def init(self, prompt: Prompt) -> Tensor:
        return (predict(OLS(), prompt) + predict(NearestNeighbors(k=3), prompt)) / 2


def kernel_smoother(xs: Tensor, ys: Tensor) -> Tensor:
    """Nadaraya and Watson's average with a Gaussian kernel: no algorithm of the library."""
    distances = torch.cdist(xs, xs).square()  # (B, n, n)
    scores = (-distances / 2).tril(-1)  # (B, n, n)
    weights = scores.exp().tril(-1)  # (B, n, n)
    total = weights.sum(dim=2, keepdim=True).clamp(min=1e-300)  # (B, n, 1)
    return weights @ ys / total


def untrained() -> Learner[Any]:
    shape = Stack(width=32, heads=4, layers=3)
    config = TransformerConfig(dims=DIMS, points=POINTS, backbone=shape)
    return InContextTransformer(config, generator=torch.Generator().manual_seed(3))


CASES: dict[str, Case] = {
    "gd 5 x 0.02": Case(
        lambda: GradientDescent(steps=5, step_size=0.02), only("GradientDescent"), steps=5
    ),
    "gd 20 x 0.01": Case(
        lambda: GradientDescent(steps=20, step_size=0.01), only("GradientDescent"), steps=20
    ),
    "gd 10 x 1/L": Case(lambda: GradientDescent(steps=10), only("GradientDescent"), steps=10),
    "gd 6 x 0.1, mean": Case(
        lambda: GradientDescent(steps=6, step_size=0.1, average=True),
        only("GradientDescent"),
        steps=6,
    ),
    "gd 30 x 0.1, mean": Case(
        lambda: GradientDescent(steps=30, step_size=0.1, average=True),
        only("GradientDescent"),
        steps=30,
    ),
    "gd 400 x 1/L": Case(lambda: GradientDescent(steps=400), only("GradientDescent"), steps=400),
    "newton 3": Case(lambda: Newton(steps=3), only("Newton"), steps=3),
    "newton 6": Case(lambda: Newton(steps=6), only("Newton"), steps=6),
    "newton 10": Case(lambda: Newton(steps=10), only("Newton"), steps=10),
    "newton, converged": Case(lambda: Newton(steps=40), LEAST_SQUARES),
    "conjugate gradient, converged": Case(lambda: ConjugateGradient(steps=DIMS), LEAST_SQUARES),
    "ols": Case(OLS, LEAST_SQUARES),
    "ridge 0.1": Case(lambda: Ridge(0.1), RIDGE, penalty=0.1),
    "ridge 1": Case(lambda: Ridge(1.0), RIDGE, penalty=1.0),
    "ridge 20": Case(lambda: Ridge(20.0), RIDGE, penalty=20.0),
    "nearest neighbours": Case(lambda: NearestNeighbors(k=3), only("NearestNeighbors")),
    "online gd": Case(OnlineGradientDescent, only("OnlineGradientDescent")),
    "lasso": Case(lambda: Lasso(0.1), only("Lasso"), penalty=0.1),
    "circuit: newton by relu": Case(
        lambda: compile("newton-relu", dims=DIMS, steps=5, points=POINTS, start=1e-3),
        only("Newton"),
        steps=5,
    ),
    "circuit: gd by softmax": Case(
        lambda: compile(
            "causal-gradient-descent", dims=DIMS, steps=6, points=POINTS, largest_input=8.0
        ),
        only("GradientDescent"),
    ),
    "circuit: ridge by gelu": Case(
        lambda: compile(
            "sherman-morrison", dims=DIMS, steps=POINTS - 1, points=POINTS, penalty=1.0
        ),
        RIDGE,
        penalty=1.0,
    ),
    "scikit-learn": Case(
        lambda: FromEstimator(ScikitRidge(alpha=1.0, fit_intercept=False)), RIDGE, penalty=1.0
    ),
    "a mixture of two": Case(Mixture, only("none")),
    "outside the library": Case(lambda: FromFunction(kernel_smoother), only("none")),
    "random weights": Case(untrained, only("none")),
}
"""By name."""


class Noisy(Learner[Any]):
    """A learner whose predictions are blurred, always in the same way."""

    def __init__(self, learner: Learner[Any], noise: float) -> None:
        self.learner, self.noise = learner, noise
        self.steps, self.traits = learner.steps, learner.traits

    @cached_property
    def name(self) -> str:
        return f"noisy {self.learner.name}"

    def init(self, prompt: Prompt) -> Any:
        return self.learner.init(prompt)

    def step(self, prompt: Prompt, state: Any, k: int) -> Any:
        return self.learner.step(prompt, state, k)

    def read(self, prompt: Prompt, state: Any) -> Tensor:
        answers = self.learner.read(prompt, state)  # (B, n[, q], k)
        generator = torch.Generator().manual_seed(7)
        drawn = torch.randn(answers.shape, dtype=torch.float64, generator=generator)
        return answers + self.noise * drawn.to(answers)
