"""The contract on every learner of the library."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import innerloop as il
from tests.contract.cases import CASES

SLOW = ("boosting", "scikit-learn")
"""One fit after the other: the slow tier checks these in float32 and on streams."""
QUICK = [name for name in CASES if not name.startswith(SLOW)]
TIERED = [pytest.param(name, marks=() if name in QUICK else (pytest.mark.slow,)) for name in CASES]


@pytest.mark.parametrize("name", CASES)
def test_learner_keeps_the_contract(name: str) -> None:
    case = CASES[name]
    for dims, points in case.sizes:
        il.check_learner(
            case.learner,
            dims=dims,
            points=points,
            outputs=case.outputs,
            tolerance=case.tolerance,
            waived=case.waived,
        )


@pytest.mark.parametrize("name", TIERED)
def test_learner_keeps_the_contract_in_float32(name: str) -> None:
    case = CASES[name]
    dims, points = case.sizes[0]
    il.check_learner(
        case.learner, dims=dims, points=points, outputs=(2,), dtype=torch.float32,
        waived=case.waived,
    )  # fmt: skip


@pytest.mark.parametrize("name", TIERED)
def test_learner_keeps_the_contract_on_streams(name: str) -> None:
    case = CASES[name]
    dims, points = case.sizes[0]
    il.check_learner(
        case.learner, dims=dims, points=points, outputs=(1,), layout="stream",
        tolerance=case.tolerance, waived=case.waived,
    )  # fmt: skip


@settings(max_examples=2)
@pytest.mark.parametrize("name", [name for name in QUICK if CASES[name].any_size])
@given(
    dims=st.integers(3, 7),
    more=st.integers(3, 9),
    outputs=st.integers(1, 3),
    seed=st.integers(0, 2**20),
)
def test_contract_over_random_shapes(
    name: str, dims: int, more: int, outputs: int, seed: int
) -> None:
    il.check_learner(
        CASES[name].learner, dims=dims, points=dims + more, outputs=(outputs,), seed=seed
    )


def test_every_learner_has_a_case() -> None:
    public = {getattr(il.learners, name) for name in il.learners.__all__ if name != "LEARNERS"}
    assert public == {type(case.learner) for case in CASES.values()}
    assert set(il.learners.LEARNERS.values()) <= public
