"""innerloop: a laboratory for the learning algorithms inside transformers."""

from typing import TYPE_CHECKING

from innerloop.core.lazy import import_at_first_use

if TYPE_CHECKING:
    from innerloop import (
        analysis,
        circuits,
        core,
        data,
        estimators,
        language,
        learners,
        models,
        report,
        studies,
        tasks,
        training,
    )
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
    from innerloop.estimators import InContextClassifier, InContextRegressor
    from innerloop.models import wrap
    from innerloop.training.store import train

__all__ = [
    "InContextClassifier",
    "InContextRegressor",
    "Learner",
    "Prompt",
    "Task",
    "analysis",
    "check_learner",
    "circuits",
    "core",
    "data",
    "estimators",
    "iterate",
    "language",
    "learners",
    "models",
    "predict",
    "report",
    "run_to_fixed_point",
    "studies",
    "tasks",
    "train",
    "training",
    "trajectory",
    "wrap",
]

import_at_first_use(__name__)
