"""scikit-learn's own checks, on both estimators, with models of every kind."""

from typing import Any

from sklearn.utils.estimator_checks import parametrize_with_checks

import innerloop as il
from innerloop.learners import Ridge
from tests.estimators.small import needs_weights, tabular

BY_NAME = [il.InContextRegressor(), il.InContextClassifier()]
BY_LEARNER = [il.InContextRegressor(Ridge(1.0)), il.InContextClassifier(Ridge(1.0))]
UNTRAINED = [il.InContextRegressor(tabular("gaussian")), il.InContextClassifier(tabular("binary"))]


def not_with_random_weights(estimator: Any) -> dict[str, str]:
    """What a model that is not trained, given as a module, cannot pass."""
    accuracy = "random weights predict nothing: this check asks for accuracy"
    return {
        "check_regressors_train": accuracy,
        "check_classifiers_train": accuracy,
        "check_estimators_overwrite_params": "joblib's hash of a module is not that of its copy",
    }


@needs_weights
@parametrize_with_checks(BY_NAME)
def test_the_shipped_models_pass(estimator: Any, check: Any) -> None:
    check(estimator)


@parametrize_with_checks(BY_LEARNER)
def test_a_classical_learner_passes(estimator: Any, check: Any) -> None:
    check(estimator)


@parametrize_with_checks(UNTRAINED, expected_failed_checks=not_with_random_weights)
def test_random_weights_pass_all_but_accuracy(estimator: Any, check: Any) -> None:
    check(estimator)
