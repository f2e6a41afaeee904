"""Every circuit against its algorithm, after every step: the table, all of it."""

from dataclasses import replace
from pathlib import Path

import pytest
import torch
from torch import Tensor

from innerloop.circuits import NAMES, CircuitSettings
from innerloop.core.errors import ConfigurationError
from innerloop.core.iterate import iterate, trajectory
from innerloop.core.prompt import Prompt, expand_prefixes
from innerloop.core.tolerances import EXACT_CIRCUIT
from innerloop.models import load, save
from innerloop.models.model import AnyModel
from innerloop.studies.circuits import (
    LOOSEST,
    TABLE,
    Case,
    Shape,
    Summary,
    compare,
    rows_of,
    verify_circuit,
)
from innerloop.studies.equality import Equality, Limit

SMALL = (2, 5)
"""Dimensions and points of the quick tests."""


def name_of(row: Equality) -> str:
    """What a test is called: circuit, form, theorem."""
    settings = row.settings(*SMALL)
    blueprint = settings.blueprint()
    kind = blueprint.form if blueprint.norm == "none" else f"{blueprint.form}-{blueprint.norm}"
    return f"{row.circuit}-{kind}-{row.limit(settings).theorem}".replace(" ", "-")


ROWS = [pytest.param(row, id=name_of(row)) for row in TABLE]


def test_the_table_holds_every_circuit() -> None:
    assert {row.circuit for row in TABLE} == set(NAMES)


@pytest.mark.parametrize("row", ROWS)
def test_a_small_circuit_is_its_algorithm(row: Equality) -> None:
    case = compare(row, row.settings(*SMALL), seeds=1)
    assert case.holds, str(case.verification)
    assert len(case.errors) == len(case.bounds) > 1
    if case.exact:
        assert {bound.total for bound in case.bounds} == {EXACT_CIRCUIT}
    # An answer that never moves would agree with anything that stands still.
    prompt = row.task(row.settings(*SMALL)).sample(4, 5, generator=torch.Generator().manual_seed(0))
    steps = trajectory(row.algorithm(row.settings(*SMALL)), prompt.to(dtype=torch.float64))
    assert float((steps.predictions[-1] - steps.predictions[0]).abs().max()) > 1e-3


@pytest.mark.slow
@pytest.mark.parametrize("row", ROWS)
def test_a_circuit_is_its_algorithm_at_every_size(row: Equality) -> None:
    cases = list(verify_circuit(row))
    assert len(cases) == len(row.dims) * len(row.points)
    for case in cases:
        assert case.holds, (case.blueprint.dims, case.blueprint.points, str(case.verification))
    summary = Summary(cases)
    assert summary.holds
    if summary.looseness is not None:
        assert summary.looseness <= LOOSEST


@pytest.mark.parametrize("row", ROWS)
def test_layers_heads_and_width_are_within_the_theorem(row: Equality) -> None:
    """At the smallest and the largest size: nothing falls as they grow."""
    for end in (min, max):
        settings = row.settings(end(row.dims), end(row.points))
        assert Shape.of(settings.blueprint()).beyond(row.limit(settings)) == []


@pytest.mark.parametrize("row", ROWS)
def test_one_perturbed_weight_is_caught(row: Equality) -> None:
    settings = row.settings(*SMALL)
    circuit = settings.build()
    assert compare(row, settings, model=circuit, seeds=1).holds
    generator = torch.Generator().manual_seed(5)
    prompt = row.task(settings).sample(1, settings.points, generator=generator)
    perturb(circuit, prompt.to(dtype=torch.float64))
    assert not compare(row, settings, model=circuit, seeds=1).holds


def answered(circuit: AnyModel, prompt: Prompt) -> Tensor:
    """The sum of all squared answers, with gradients: ()."""
    squares: list[Tensor] = []
    for i, _, part in expand_prefixes(prompt):
        *_, state = iterate(circuit, part)
        squares.append(circuit.read(part, state)[:, i].square().sum())
    return torch.stack(squares).sum()


def perturb(circuit: AnyModel, prompt: Prompt) -> None:
    """Make one weight of the iteration's attention a hundredth larger: one that answers hang on."""
    weights = [
        parameter
        for name, parameter in circuit.named_parameters()
        if name == "value_output" or (".blocks." in name and "attention.outward.weight" in name)
    ]
    slopes = torch.autograd.grad(answered(circuit, prompt), weights)
    with torch.no_grad():
        effects = [(weight * slope).abs() for weight, slope in zip(weights, slopes, strict=True)]
        which = max(range(len(weights)), key=lambda i: float(effects[i].max()))
        place = divmod(int(effects[which].argmax()), effects[which].shape[1])
        weights[which][place] *= 1.01


@pytest.mark.parametrize("row", ROWS)
def test_a_saved_circuit_answers_bit_for_bit(row: Equality, tmp_path: Path) -> None:
    settings = row.settings(*SMALL)
    circuit = settings.build()
    loaded = load(save(circuit, tmp_path))
    generator = torch.Generator().manual_seed(3)
    prompt = row.task(settings).sample(2, settings.points, generator=generator)
    prompt = prompt.to(dtype=torch.float64)
    with torch.no_grad():
        own = trajectory(circuit, prompt).predictions  # (K + 1, 2, n, k)
        other = trajectory(loaded, prompt, steps=circuit.steps).predictions  # the same
    assert own.dtype == torch.float64
    assert torch.equal(own, other)
    for key, value in circuit.state_dict().items():
        assert torch.equal(value, loaded.state_dict()[key])


def test_what_is_beyond_a_theorem_is_told() -> None:
    row = rows_of("newton-relu")[0]
    shape = Shape.of(row.settings(*SMALL).blueprint())
    small = Limit(theorem="nobody's", pre=1, step=1, post=0, heads=(2, 1, 2), width=11)
    assert shape.beyond(small) == [
        "2 layers before the steps, nobody's has 1",
        "1 layers after the steps, nobody's has 0",
        "(2, 2, 2) heads, nobody's has (2, 1, 2)",
        "width 12, nobody's has 11",
    ]


def test_a_summary_is_the_worst_of_its_cases() -> None:
    row = rows_of("newton-relu")[0]
    cases = list(verify_circuit(row, dims=[1, 3], points=[4], seeds=2, prompts=2))
    assert [(case.blueprint.dims, case.blueprint.points) for case in cases] == [(1, 4), (3, 4)]
    summary = Summary(cases)
    assert max(summary.errors) == max(error for case in cases for error in case.errors)
    assert summary.errors[0] == max(case.errors[0] for case in cases)
    assert (cases[1].shape.width, summary.looseness) == (16, None)
    assert summary.bound == EXACT_CIRCUIT
    assert summary.holds
    assert not Summary([cases[0], failed(cases[1])]).holds


def failed(case: Case) -> Case:
    """The same with an error beyond its bound in the last step."""
    *steps, last = case.verification.steps
    worse = replace(last, error=2 * last.tolerance)
    return replace(case, verification=replace(case.verification, steps=(*steps, worse)))


def test_mistakes_are_one_sentence() -> None:
    with pytest.raises(ConfigurationError, match="did you mean 'newton-relu'"):
        rows_of("newton-rely")
    row = rows_of("newton-relu")[0]
    settings: CircuitSettings = row.settings(*SMALL)
    with pytest.raises(ConfigurationError, match="seeds is 0"):
        compare(row, settings, seeds=0)
