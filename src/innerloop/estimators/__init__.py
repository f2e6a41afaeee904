"""scikit-learn estimators whose training is a prompt: a trained model learns in context."""

from typing import TYPE_CHECKING

from innerloop.core.lazy import import_at_first_use

if TYPE_CHECKING:
    from innerloop.estimators.classifier import InContextClassifier
    from innerloop.estimators.regressor import InContextRegressor

__all__ = ["InContextClassifier", "InContextRegressor"]

import_at_first_use(__name__)
