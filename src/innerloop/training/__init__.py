"""Training models on tasks: configurations, runs and where they are kept."""

from typing import TYPE_CHECKING

from innerloop.core.lazy import import_at_first_use

if TYPE_CHECKING:
    from innerloop.training.config import RunConfig
    from innerloop.training.curriculum import Curriculum, Growth, LoopSchedule
    from innerloop.training.divergence import DivergenceError
    from innerloop.training.interrupt import interruptible
    from innerloop.training.optimizer import Optimizer
    from innerloop.training.recipes import recipe
    from innerloop.training.run import Run
    from innerloop.training.store import Store
    from innerloop.training.train import Report

__all__ = [
    "Curriculum",
    "DivergenceError",
    "Growth",
    "LoopSchedule",
    "Optimizer",
    "Report",
    "Run",
    "RunConfig",
    "Store",
    "interruptible",
    "recipe",
]

import_at_first_use(__name__)
