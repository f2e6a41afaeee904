"""Small configurations for tests."""

from typing import Any

from innerloop.training.config import RunConfig

LOOP = {"kind": "loop", "width": 8, "heads": 2, "loops": 4}
STACK = {"kind": "stack", "width": 8, "heads": 2, "layers": 2}


def tiny(**changes: Any) -> RunConfig:
    """A looped transformer on two-dimensional linear functions: a few milliseconds a step."""
    values: dict[str, Any] = {
        "task": {"name": "linear", "dims": 2},
        "points": 5,
        "model": {"backbone": LOOP},
        "steps": 12,
        "batch": 4,
        "window": 2,
        "threads": 1,
        "log_every": 2,
        "evaluate_every": 6,
        "save_every": 5,
    }
    return RunConfig.model_validate({**values, **changes})


def stack(**changes: Any) -> RunConfig:
    """The same with a stack of two blocks."""
    return tiny(**{"model": {"backbone": STACK}, "window": None, **changes})
