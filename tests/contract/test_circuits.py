"""The contract on every circuit."""

from dataclasses import dataclass
from typing import Any

import pytest

import innerloop as il
from innerloop.core.prompt import Layout

DIMS, POINTS = 3, 8

ORDER = "its algorithm does not mind the order; weights with positions promise nothing of it"
ROTATION = "holds of its algorithm, and is not promised of weights"
LINEARITY = "holds of its algorithm, and is not promised of weights"
ALL = {"order": ORDER, "rotation": ROTATION, "linearity": LINEARITY}


@dataclass(frozen=True, kw_only=True)
class Case:
    """A circuit's settings, and what the contract must know of it."""

    settings: dict[str, Any]
    outputs: int = 1
    layout: Layout = "pairs"
    waived: dict[str, str]
    scale: float = 0.15
    """Of the prompts: well within the declared bounds."""


CASES: dict[str, Case] = {
    "linear-attention": Case(settings={"steps": 3}, waived=ALL),
    "linear-looped": Case(
        settings={"steps": 3}, waived={"rotation": ROTATION, "linearity": LINEARITY}
    ),
    "newton-relu": Case(settings={"steps": 3}, waived=ALL),
    "newton-softmax": Case(settings={"steps": 3}, waived=ALL),
    "causal-gradient-descent": Case(settings={"steps": 3}, waived=ALL),
    "representation": Case(
        settings={"steps": 3, "layers": 2}, waived={"order": ORDER, "linearity": LINEARITY}
    ),
    "autoregression": Case(
        settings={"steps": 3, "layers": 2, "order": 2}, outputs=DIMS, layout="stream", waived={}
    ),
    "chain": Case(settings={"steps": 3, "layers": 2}, outputs=DIMS, layout="stream", waived={}),
    "sgd": Case(
        settings={"steps": POINTS - 1}, waived={"rotation": ROTATION, "linearity": LINEARITY}
    ),
    "sherman-morrison": Case(settings={"steps": POINTS - 1}, waived=ALL),
}


@pytest.mark.parametrize("name", CASES)
def test_circuit_keeps_the_contract(name: str) -> None:
    case = CASES[name]
    circuit = il.circuits.compile(name, dims=DIMS, points=POINTS, **case.settings)
    il.check_learner(
        circuit, dims=DIMS, points=POINTS, outputs=(case.outputs,), layout=case.layout,
        scale=case.scale, waived=case.waived,
    )  # fmt: skip


def test_every_circuit_has_a_case() -> None:
    assert set(CASES) == set(il.circuits.NAMES)
