"""innerloop: a laboratory for the learning algorithms inside transformers."""

from innerloop import core
from innerloop.core import (
    Learner,
    Prompt,
    Task,
    check_learner,
    iterate,
    predict,
    run_to_fixed_point,
    trajectory,
)

__all__ = [
    "Learner",
    "Prompt",
    "Task",
    "check_learner",
    "core",
    "iterate",
    "predict",
    "run_to_fixed_point",
    "trajectory",
]
