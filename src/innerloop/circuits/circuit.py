"""Circuits as models: weights that were derived, not trained."""

from abc import abstractmethod
from typing import TYPE_CHECKING, Annotated

import torch
from pydantic import Field, FiniteFloat

from innerloop.circuits.blueprint import Blueprint
from innerloop.circuits.compile import build
from innerloop.core.config import Config
from innerloop.models.transformer import InContextTransformer

if TYPE_CHECKING:
    from innerloop.circuits.linear_looped import LinearLoopedCircuit

Positive = Annotated[FiniteFloat, Field(gt=0)]


class Circuit(InContextTransformer):
    """A transformer whose weights run a known algorithm, in float64.

    It is a model like any other: it can be saved, loaded and probed. Linear attention, and ReLU
    attention with one-hot places, can be trained further; what multiplies small differences by
    large numbers (softmax, GELU) cannot. A step is a step of the algorithm.
    """

    def __init__(self, blueprint: Blueprint) -> None:
        """Compile a blueprint."""
        config, weights = build(blueprint)
        super().__init__(config)
        self.blueprint = blueprint
        self.steps = blueprint.steps
        self.to(torch.float64).load_state_dict(weights)


class CircuitSettings(Config):
    """What a circuit is made from; every construction adds its own settings."""

    dims: int = Field(default=5, ge=1, le=1000, description="dimensions of an input")
    steps: int = Field(default=8, ge=0, le=10_000, description="steps of the algorithm")
    points: int = Field(default=11, ge=1, le=10_000, description="the most points of a prompt")

    @abstractmethod
    def blueprint(self) -> Blueprint:
        """The construction in terms of slots."""

    def build(self) -> "Circuit | LinearLoopedCircuit":
        """The construction as weights."""
        return Circuit(self.blueprint())


class BoundedSettings(CircuitSettings):
    """Settings of a circuit whose free parameters are chosen from a bound on its inputs."""

    largest_input: Positive | None = Field(
        default=None, description="bound on |x|; None: sqrt(dims) + 4, enough for N(0, I)"
    )

    @property
    def input_bound(self) -> float:
        """The bound on |x|; fewer than one in a million standard normal inputs are longer."""
        return self.largest_input or self.dims**0.5 + 4
