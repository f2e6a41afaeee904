"""What it means that a circuit runs an algorithm: on which prompts, at which sizes, how closely."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from innerloop.circuits import CircuitSettings
from innerloop.core.learner import Learner
from innerloop.core.task import Task


@dataclass(frozen=True, slots=True, kw_only=True)
class Size:
    """How large the parts of a circuit are, in the terms of the theorems."""

    pre: int
    """Layers before the first step."""
    step: int
    """Layers of one step."""
    post: int
    """Layers after the last step."""
    heads: tuple[int, int, int]
    """The most heads of a layer before, in and after the steps."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Limit(Size):
    """What a theorem allows a circuit to have."""

    theorem: str
    """Paper and number."""
    width: int | None = None
    """The most numbers of the residual stream, where the theorem states it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Equality:
    """One row of the table: a circuit and the algorithm that it must be equal to, step by step.

    How closely is what the circuit itself states: its blueprint's `bound`.
    """

    circuit: str
    """A name of `innerloop.circuits.NAMES`."""
    settings: Callable[[int, int], CircuitSettings]
    """From dims and points to the circuit's settings."""
    algorithm: Callable[[Any], Learner[Any]]
    """From these settings to the learner that the circuit is compared with."""
    task: Callable[[Any], Task]
    """From these settings to the prompts that they are compared on."""
    limit: Callable[[Any], Limit]
    """From these settings to what the theorem allows."""
    dims: tuple[int, ...] = (1, 2, 5, 8)
    points: tuple[int, ...] = (4, 11, 21)
    """The sizes that they are compared at, each with each."""
