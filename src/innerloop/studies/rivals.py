"""The estimators of scikit-learn that ours are compared with, tuned as a careful user would."""

import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
from sklearn.dummy import DummyClassifier, DummyRegressor
from sklearn.ensemble import (
    GradientBoostingClassifier,
    GradientBoostingRegressor,
    RandomForestClassifier,
    RandomForestRegressor,
)
from sklearn.exceptions import ConvergenceWarning
from sklearn.gaussian_process import GaussianProcessClassifier, GaussianProcessRegressor
from sklearn.gaussian_process.kernels import RBF, ConstantKernel, WhiteKernel
from sklearn.linear_model import LogisticRegression, RidgeCV
from sklearn.model_selection import GridSearchCV, KFold, StratifiedKFold
from sklearn.neighbors import KNeighborsClassifier, KNeighborsRegressor
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from innerloop.estimators import InContextClassifier, InContextRegressor

Make = Callable[[], Any]
BASELINE = "constant"
"""The mean, or the larger class."""
FOLDS = 4


def rivals(kind: str, ours: Any = None) -> dict[str, Make]:
    """Name -> how an estimator for a kind of output is made; `ours` is the model behind ours."""
    given = {} if ours is None else {"model": ours}
    if kind == "regression":
        return {
            "innerloop": lambda: InContextRegressor(**given),
            "ridge": lambda: scaled(RidgeCV(np.logspace(-3, 3, 13))),
            "neighbours": lambda: _tuned(KNeighborsRegressor(weights="distance"), _neighbours),
            "random forest": lambda: RandomForestRegressor(random_state=0),
            "boosting": lambda: GradientBoostingRegressor(random_state=0),
            "gaussian process": lambda: scaled(
                GaussianProcessRegressor(
                    ConstantKernel() * RBF() + WhiteKernel(), normalize_y=True, random_state=0
                )
            ),
            BASELINE: DummyRegressor,
        }
    return {
        "innerloop": lambda: InContextClassifier(**given),
        "logistic": lambda: _tuned(LogisticRegression(max_iter=1000), _penalties),
        "neighbours": lambda: _tuned(KNeighborsClassifier(weights="distance"), _neighbours),
        "random forest": lambda: RandomForestClassifier(random_state=0),
        "boosting": lambda: GradientBoostingClassifier(random_state=0),
        "gaussian process": lambda: scaled(
            GaussianProcessClassifier(ConstantKernel() * RBF(), random_state=0)
        ),
        BASELINE: DummyClassifier,
    }


def scaled(estimator: Any) -> Any:
    """An estimator that sees standardised columns."""
    return make_pipeline(StandardScaler(), estimator)


def _tuned(estimator: Any, grid: Callable[[str], dict[str, list[float]]]) -> Any:
    """A scaled estimator whose setting is chosen by cross-validation on the examples."""
    name = type(estimator).__name__.lower()
    folds = KFold if name.endswith("regressor") else StratifiedKFold
    search = folds(FOLDS, shuffle=True, random_state=0)
    return GridSearchCV(scaled(estimator), grid(name), cv=search, error_score=-np.inf)


def _neighbours(name: str) -> dict[str, list[float]]:
    return {f"{name}__n_neighbors": [1, 2, 3, 5, 8]}


def _penalties(name: str) -> dict[str, list[float]]:
    return {f"{name}__C": [0.01, 0.1, 1.0, 10.0, 100.0]}


@contextmanager
def quiet() -> Iterator[None]:
    """Without what small tables make scikit-learn warn of: few of a class, bounds of kernels."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        warnings.simplefilter("ignore", ConvergenceWarning)
        warnings.simplefilter("ignore", FutureWarning)
        warnings.simplefilter("ignore", RuntimeWarning)
        yield
