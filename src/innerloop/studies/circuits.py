"""The table of circuits and the algorithms that they run, and how each is held to it."""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import zip_longest

import torch
from pydantic import ValidationError

from innerloop.analysis.verify import Verification, verify
from innerloop.circuits import CIRCUITS, Blueprint, CircuitSettings, ErrorBound
from innerloop.core.errors import ConfigurationError, unknown
from innerloop.core.explain import explain
from innerloop.core.prompt import Prompt
from innerloop.models.model import AnyModel
from innerloop.studies import akyurek_circuits, gao_representation, gradient_circuits
from innerloop.studies.equality import Equality, Limit, Size

TABLE: tuple[Equality, ...] = (
    *akyurek_circuits.ROWS,
    *gao_representation.ROWS,
    *gradient_circuits.ROWS,
)
"""Every equality that is claimed: it drives the tests, `innerloop verify` and the studies."""

SEEDS = 3
PROMPTS = 4
"""Prompts per seed; each is asked at all of its prefixes."""
LOOSEST = 100.0
"""A stated bound is at most so many times the worst error measured."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Shape(Size):
    """How large a circuit is; a part without layers has no heads."""

    width: int
    """Numbers of the residual stream."""

    @classmethod
    def of(cls, blueprint: Blueprint) -> "Shape":
        """The sizes of a circuit."""
        parts, body = (blueprint.pre, blueprint.body, blueprint.post), len(blueprint.body)
        before, steps, after = (max((len(layer.heads) for layer in p), default=0) for p in parts)
        return cls(
            pre=len(blueprint.pre),
            step=body if blueprint.looped else body // blueprint.steps,
            post=len(blueprint.post),
            heads=(before, steps, after),
            # With a norm every slot has a mirror.
            width=blueprint.residual.width * (1 if blueprint.norm == "none" else 2),
        )

    def beyond(self, limit: Limit) -> list[str]:
        """What is larger than a theorem allows, in words; nothing where it is within."""
        excess = [
            f"{own} layers {part}, {limit.theorem} has {most}"
            for part, own, most in (
                ("before the steps", self.pre, limit.pre),
                ("per step", self.step, limit.step),
                ("after the steps", self.post, limit.post),
            )
            if own > most
        ]
        if any(own > most for own, most in zip(self.heads, limit.heads, strict=True)):
            excess.append(f"{self.heads} heads, {limit.theorem} has {limit.heads}")
        if limit.width is not None and self.width > limit.width:
            excess.append(f"width {self.width}, {limit.theorem} has {limit.width}")
        return excess


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """A circuit of one size against its algorithm, on prompts of several seeds."""

    blueprint: Blueprint
    bounds: tuple[ErrorBound, ...]
    """What the circuit states, before the first step and after each."""
    verification: Verification
    """The prompts of the first seed come first, then those of the next."""

    @property
    def shape(self) -> Shape:
        """How large the circuit is."""
        return Shape.of(self.blueprint)

    @property
    def errors(self) -> tuple[float, ...]:
        """The worst error after each number of steps, over all seeds."""
        return tuple(step.error for step in self.verification.steps)

    @property
    def exact(self) -> bool:
        """Whether the construction leaves nothing out, so that its bound is rounding alone."""
        return all(bound.truncation == 0 for bound in self.bounds)

    @property
    def holds(self) -> bool:
        """Whether every error is within its bound."""
        return self.verification.holds


@dataclass(frozen=True, slots=True)
class Summary:
    """One row of the table of verdicts: a circuit over all sizes that it was compared at."""

    cases: Sequence[Case]

    @property
    def errors(self) -> list[float]:
        """The worst error after each number of steps, over all sizes and seeds."""
        by_step = zip_longest(*(case.errors for case in self.cases), fillvalue=-math.inf)
        return [max(errors) for errors in by_step]

    @property
    def bound(self) -> float:
        """The largest bound of all sizes and steps."""
        return max(bound.total for case in self.cases for bound in case.bounds)

    @property
    def looseness(self) -> float | None:
        """How many times the worst error the bound is; none where the tolerance is a given one."""
        if all(case.exact for case in self.cases):
            return None
        worst = max(self.errors)
        return self.bound / worst if worst > 0 else math.inf

    @property
    def holds(self) -> bool:
        """Whether every error of every size is within its bound."""
        return all(case.holds for case in self.cases)


def rows_of(circuit: str) -> tuple[Equality, ...]:
    """The rows of a circuit, one per form; an unknown name is refused."""
    rows = tuple(row for row in TABLE if row.circuit == circuit)
    if not rows:
        raise ConfigurationError(unknown("circuit", circuit, {row.circuit for row in TABLE}))
    return rows


def verify_circuit(
    row: Equality,
    *,
    dims: Sequence[int] | None = None,
    points: Sequence[int] | None = None,
    seeds: int = SEEDS,
    prompts: int = PROMPTS,
) -> Iterator[Case]:
    """Compare a circuit with its algorithm at every size, the row's own unless others are given."""
    for d in row.dims if dims is None else dims:
        for n in row.points if points is None else points:
            try:
                settings = row.settings(d, n)
            except ValidationError as error:  # a size that does not fit
                raise ConfigurationError(explain(error, CIRCUITS[row.circuit])) from error
            yield compare(row, settings, seeds=seeds, prompts=prompts)


def compare(
    row: Equality,
    settings: CircuitSettings,
    *,
    model: AnyModel | None = None,
    seeds: int = SEEDS,
    prompts: int = PROMPTS,
) -> Case:
    """Compare one circuit with its algorithm; with a model, that one in the circuit's place.

    A model is what was saved: it may have been changed since, and is held to the circuit's bound.
    """
    for name, number in (("seeds", seeds), ("prompts", prompts)):
        if number < 1:
            raise ConfigurationError(f"{name} is {number}, expected at least 1.")
    circuit = settings.build()
    blueprint = circuit.blueprint
    if model is not None and model.config != circuit.config:
        raise ConfigurationError(
            f"the model has other sizes than {blueprint.name} with the settings beside it: compile "
            "it again."
        )
    task = row.task(settings)
    drawn = [
        task.sample(prompts, settings.points, generator=torch.Generator().manual_seed(seed))
        for seed in range(seeds)
    ]
    bounds = tuple(blueprint.bound(step) for step in range(blueprint.steps + 1))
    verification = verify(
        circuit if model is None else model,
        row.algorithm(settings),
        # As one batch: many small ones would take several times as long. In float64, as circuits
        # are: the rounding of another type would be theirs.
        Prompt.cat(drawn).to(dtype=torch.float64),
        tolerance=lambda step: bounds[step].total,
        steps=blueprint.steps,
    )
    return Case(blueprint=blueprint, bounds=bounds, verification=verification)
