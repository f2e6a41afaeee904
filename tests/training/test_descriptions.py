"""Every setting that a user can write says in one line what it is."""

import typing
from typing import Any

import pytest

from innerloop.circuits import CIRCUITS
from innerloop.core.explain import fields_of
from innerloop.learners import LEARNERS
from innerloop.models.table import MODEL_CONFIGS
from innerloop.tasks import TASKS
from innerloop.tasks.shifts import SHIFTS
from innerloop.training import RunConfig


def with_parts(kind: type[Any], found: dict[str, type[Any]]) -> dict[str, type[Any]]:
    """A configuration and all configurations that its fields may hold, by name."""
    if kind.__name__ in found:
        return found
    found[kind.__name__] = kind
    left = [field.annotation for field in fields_of(kind).values()]
    while left:
        part = left.pop()
        left += typing.get_args(part)
        if isinstance(part, type) and hasattr(part, "__pydantic_fields__"):
            with_parts(part, found)
    return found


ROOTS = (
    RunConfig, *MODEL_CONFIGS.values(), *TASKS.values(), *SHIFTS.values(), *LEARNERS.values(),
    *CIRCUITS.values(),
)  # fmt: skip
KINDS = {
    f"{kind.__module__}.{name}": kind
    for root in ROOTS
    for name, kind in with_parts(root, {}).items()
}


def test_the_parts_of_a_run_are_among_them() -> None:
    names = {name.rpartition(".")[2] for name in KINDS}
    assert {"RunConfig", "Optimizer", "Growth", "LoopSchedule", "Loop", "Stack"} <= names
    assert {"LSTMConfig", "LinearRegression", "Ridge"} <= names


@pytest.mark.parametrize("name", KINDS)
def test_every_setting_is_described_in_one_line(name: str) -> None:
    for key, field in fields_of(KINDS[name]).items():
        description = field.description or ""
        assert description.strip(), f"{name}.{key} has no description"
        assert "\n" not in description
        assert len(description) <= 140, f"{name}.{key}: too long for a line"
