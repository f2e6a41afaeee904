"""Circuits as models: weights that were derived, not trained."""

from abc import abstractmethod
from collections.abc import Mapping
from functools import cached_property
from typing import Annotated, Any

import torch
from pydantic import AfterValidator, Field, FiniteFloat
from torch import Tensor

from innerloop.circuits.blueprint import Blueprint
from innerloop.circuits.compile import build, lay_out
from innerloop.core.config import Config
from innerloop.core.errors import ConfigurationError
from innerloop.models.model import Model
from innerloop.models.transformer import InContextTransformer


def _in_range(value: float) -> float:
    if not 1e-30 <= value <= 1e30:
        raise ValueError("expected a number from 1e-30 to 1e30")
    return value


Positive = Annotated[FiniteFloat, Field(gt=0), AfterValidator(_in_range)]
"""A factor or a bound: beyond, its powers leave the range of float64, and no bound holds."""


class Circuit(Model[Any, Any]):
    """A model whose weights run a known algorithm, in float64.

    It is a model like any other: it can be saved, loaded and probed. Linear attention, and ReLU
    attention with one-hot places, can be trained further; what multiplies small differences by
    large numbers (softmax, GELU) cannot. A step is a step of the algorithm. A subclass names the
    model, behind this class.
    """

    def __init__(self, blueprint: Blueprint, config: Config, weights: Mapping[str, Tensor]) -> None:
        """The model of a configuration, with these weights in the place of its own."""
        super().__init__(config)
        self.blueprint = blueprint
        self.steps = blueprint.steps
        self.to(torch.float64).load_state_dict(weights)

    @cached_property
    def name(self) -> str:
        """The circuit's name among `innerloop.circuits.NAMES`."""
        return self.blueprint.name


class TransformerCircuit(Circuit, InContextTransformer):
    """A circuit that is an in-context transformer, as all but one are."""

    def __init__(self, blueprint: Blueprint) -> None:
        """Compile a blueprint."""
        super().__init__(blueprint, *build(blueprint))

    def slot_numbers(self, slot: str) -> list[int]:
        """Where a slot and its mirror lie among the numbers of the residual stream."""
        lane, size = lay_out(self.blueprint), self.blueprint.residual[slot].size
        starts = {lane.offsets[slot], lane.offsets[slot] + lane.mirror}
        return [start + i for start in sorted(starts) for i in range(size)]


class CircuitSettings(Config):
    """What a circuit is made from; every construction adds its own settings."""

    dims: int = Field(default=5, ge=1, le=1000, description="dimensions of an input")
    steps: int = Field(default=8, ge=0, le=10_000, description="steps of the algorithm")
    points: int = Field(default=11, ge=1, le=10_000, description="the most points of a prompt")

    @abstractmethod
    def blueprint(self) -> Blueprint:
        """The construction in terms of slots."""

    def build(self) -> Circuit:
        """The construction as weights; refused where its numbers are beyond those of float64."""
        try:
            blueprint = self.blueprint()
            blueprint.bound(blueprint.steps)
            return TransformerCircuit(blueprint)
        except (OverflowError, ZeroDivisionError) as error:
            raise ConfigurationError(
                f"the weights or the error of {type(self).__name__} are beyond the range of "
                "float64: take scales, step sizes and bounds nearer to 1, or fewer steps."
            ) from error


class BoundedSettings(CircuitSettings):
    """Settings of a circuit whose free parameters are chosen from a bound on its inputs."""

    largest_input: Positive | None = Field(
        default=None, description="bound on |x|; None: sqrt(dims) + 4, enough for N(0, I)"
    )

    @property
    def input_bound(self) -> float:
        """The bound on |x|; fewer than one in a million standard normal inputs are longer."""
        return self.largest_input or self.dims**0.5 + 4


class SoftmaxSettings(BoundedSettings):
    """Settings of a circuit for linear regression whose products are made by softmax attention."""

    scale: Positive | None = Field(
        default=None, description="c, what scores are multiplied by; None: the best in float64"
    )
    largest_output: Positive | None = Field(
        default=None, description="bound on |y|; None: for standard normal inputs and weights"
    )

    @property
    def output_bound(self) -> float:
        """The bound on |y|."""
        return self.largest_output or 4 * (self.dims**0.5 + 2)

    @property
    def examples(self) -> int:
        """The most examples of a prompt, or 1."""
        return max(1, self.points - 1)
