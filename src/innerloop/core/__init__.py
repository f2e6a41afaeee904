"""Prompts, tasks, learners and the one loop that runs them."""

from typing import TYPE_CHECKING

from innerloop.core.lazy import import_at_first_use

if TYPE_CHECKING:
    from innerloop.core.checks import check_learner
    from innerloop.core.fixed_point import FixedPoint, run_to_fixed_point
    from innerloop.core.iterate import Trajectory, iterate, predict, trajectory
    from innerloop.core.learner import Learner, OneShot, Traits
    from innerloop.core.prompt import Prompt, expand_prefixes
    from innerloop.core.state_parts import HiddenStates, MovingPart
    from innerloop.core.task import Task

__all__ = [
    "FixedPoint",
    "HiddenStates",
    "Learner",
    "MovingPart",
    "OneShot",
    "Prompt",
    "Task",
    "Traits",
    "Trajectory",
    "check_learner",
    "expand_prefixes",
    "iterate",
    "predict",
    "run_to_fixed_point",
    "trajectory",
]

import_at_first_use(__name__)
