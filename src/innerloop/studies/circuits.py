"""The table of circuits and the algorithms that they run, and how each is held to it."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import torch
from pydantic import ValidationError

from innerloop.analysis.verify import Verification, verify
from innerloop.circuits import CIRCUITS, Blueprint, CircuitSettings, ErrorBound
from innerloop.circuits.parts import Layer
from innerloop.core.errors import ConfigurationError, unknown
from innerloop.core.explain import explain
from innerloop.core.prompt import Prompt
from innerloop.models.model import AnyModel
from innerloop.studies import akyurek_circuits, gao_representation, gradient_circuits
from innerloop.studies.equality import Equality, Limit

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
class Shape:
    """How large a circuit is, part by part, in the terms of the theorems."""

    pre: int
    step: int
    post: int
    """Layers before the first step, of one step, after the last."""
    heads: tuple[int, int, int]
    """The most heads of a layer, in the same order."""
    layers: int
    """Layers that a prompt goes through, with all steps."""
    width: int
    """Numbers of the residual stream."""
    mask: str

    def beyond(self, limit: Limit) -> list[str]:
        """What is larger than a theorem allows, in words; nothing where it is within."""
        excess = [
            f"{own} layers {part}, {limit.theorem} has {most}"
            for part, own, most in (
                ("before the steps", self.pre, limit.pre),
                ("a step", self.step, limit.step),
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

    circuit: str
    form: str
    norm: str
    source: str
    dims: int
    points: int
    shape: Shape
    bounds: tuple[ErrorBound, ...]
    """What the circuit states, before the first step and after each."""
    verification: Verification
    """The prompts of the first seed come first, then those of the next."""

    @property
    def algorithm(self) -> str:
        """What it is compared with."""
        return self.verification.algorithm

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


@dataclass(frozen=True, slots=True, kw_only=True)
class Summary:
    """One row of the table of verdicts: a circuit over all sizes that it was compared at."""

    circuit: str
    form: str
    norm: str
    algorithm: str
    source: str
    layers: int
    heads: int
    width: int
    """The largest of all sizes."""
    mask: str
    sizes: int
    errors: tuple[float, ...]
    """The worst error after each number of steps, over all sizes and seeds."""
    truncation: float
    rounding: float
    """The two parts of the largest bound that is stated for any size and step."""
    exact: bool
    holds: bool

    @property
    def worst(self) -> float:
        """The worst error of all steps."""
        return max(self.errors)

    @property
    def bound(self) -> float:
        """The largest bound of all sizes and steps."""
        return self.truncation + self.rounding

    @property
    def looseness(self) -> float | None:
        """How many times the worst error the bound is; none where the tolerance is a given one."""
        if self.exact:
            return None
        return self.bound / self.worst if self.worst > 0 else float("inf")


def summarise(cases: Sequence[Case]) -> Summary:
    """What the cases of one row of the table come to."""
    first = cases[0]
    longest = max(len(case.errors) for case in cases)
    errors = [
        max(case.errors[step] for case in cases if step < len(case.errors))
        for step in range(longest)
    ]
    bound = max((bound for case in cases for bound in case.bounds), key=lambda bound: bound.total)
    return Summary(
        circuit=first.circuit,
        form=first.form,
        norm=first.norm,
        algorithm=first.algorithm,
        source=first.source,
        layers=max(case.shape.layers for case in cases),
        heads=max(max(case.shape.heads) for case in cases),
        width=max(case.shape.width for case in cases),
        mask=first.shape.mask,
        sizes=len(cases),
        errors=tuple(errors),
        truncation=bound.truncation,
        rounding=bound.rounding,
        exact=all(case.exact for case in cases),
        holds=all(case.holds for case in cases),
    )


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
            yield compare(row, _settings(row, d, n), points=n, seeds=seeds, prompts=prompts)


def _settings(row: Equality, dims: int, points: int) -> CircuitSettings:
    """The settings of a row at one size; a size that does not fit is one sentence."""
    try:
        return row.settings(dims, points)
    except ValidationError as error:
        raise ConfigurationError(explain(error, CIRCUITS[row.circuit])) from error


def compare(
    row: Equality,
    settings: CircuitSettings,
    *,
    points: int | None = None,
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
    task, length = row.task(settings), points or settings.points
    drawn = [
        task.sample(prompts, length, generator=torch.Generator().manual_seed(seed))
        for seed in range(seeds)
    ]
    verification = verify(
        circuit if model is None else model,
        row.algorithm(settings),
        # As one batch: many small ones would take several times as long. In float64, as circuits
        # are: the rounding of another type would be theirs.
        Prompt.cat(drawn).to(dtype=torch.float64),
        tolerance=lambda step: blueprint.bound(step).total,
        steps=blueprint.steps,
    )
    return Case(
        circuit=blueprint.name,
        form=blueprint.form,
        norm=blueprint.norm,
        source=blueprint.source,
        dims=settings.dims,
        points=length,
        shape=shape_of(blueprint),
        bounds=tuple(blueprint.bound(step) for step in range(blueprint.steps + 1)),
        verification=verification,
    )


def shape_of(blueprint: Blueprint) -> Shape:
    """The sizes of a circuit; a part without layers has no heads."""
    body = len(blueprint.body)
    return Shape(
        pre=len(blueprint.pre),
        step=body if blueprint.looped else body // blueprint.steps,
        post=len(blueprint.post),
        heads=(_heads(blueprint.pre), _heads(blueprint.body), _heads(blueprint.post)),
        layers=blueprint.layers,
        # With a norm every slot has a mirror.
        width=blueprint.residual.width * (1 if blueprint.norm == "none" else 2),
        mask=blueprint.mask,
    )


def _heads(layers: Sequence[Layer]) -> int:
    return max((len(layer.heads) for layer in layers), default=0)
