"""Tables that scikit-learn would refuse, or misread, refused in a sentence that says what to do."""

import warnings
from typing import Any

import numpy as np
from scipy import sparse
from sklearn.utils.validation import _get_feature_names

from innerloop.core.errors import ConfigurationError, InnerloopError


class TableError(InnerloopError):
    """A table that an estimator cannot learn from as it is."""


def expect_choice(name: str, value: object, choices: tuple[str, ...]) -> None:
    """Refuse a setting that is not among its choices."""
    if value not in choices:
        known = ", ".join(repr(choice) for choice in choices)
        raise ConfigurationError(f"{name} is {value!r}, expected one of {known}.")


def refuse_text_and_gaps(X: Any) -> None:
    """Refuse text and missing values, and name the transformer to put before the estimator.

    All else that is wrong with a table is left to scikit-learn's own checks.
    """
    if sparse.issparse(X) or X is None:
        return
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # ragged lists: scikit-learn has a sentence for them
        try:
            values = np.asarray(X)  # (n, d)
        except ValueError:
            return
    if values.ndim != 2:
        return
    text = [j for j in range(values.shape[1]) if _holds_text(values[:, j])]
    if text:
        raise TableError(
            f"{_columns(X, text)} of X holds text, expected numbers: put an OrdinalEncoder or a "
            "OneHotEncoder of sklearn.preprocessing before, for these columns, by a "
            "ColumnTransformer in a Pipeline."
        )
    gaps = [j for j in range(values.shape[1]) if _holds_gap(values[:, j])]
    if gaps:
        raise TableError(
            f"{_columns(X, gaps)} of X holds missing values (NaN), which no context can have: put "
            "a sklearn.impute.SimpleImputer before, in a Pipeline."
        )


def refuse_text_targets(y: Any) -> None:
    """Refuse text where numbers are to be predicted."""
    values = np.asarray(y)
    if values.ndim == 1 and _holds_text(values):
        raise TableError(
            "y holds text, expected numbers: take an InContextClassifier for classes, or cast y."
        )


def _holds_text(column: np.ndarray) -> bool:
    if column.dtype.kind == "O":
        return any(isinstance(value, str) for value in column)
    return column.dtype.kind in "UST"


def _holds_gap(column: np.ndarray) -> bool:
    if column.dtype.kind == "f":
        return bool(np.isnan(column).any())
    if column.dtype.kind != "O":
        return False
    import pandas as pd  # which knows None, NaN and NA; only tables of objects need it

    return bool(pd.isna(column).any())


def _columns(X: Any, which: list[int]) -> str:
    """The columns of a table for the beginning of a sentence: by name, or by number from 0."""
    names = _get_feature_names(X)
    given = [str(j) if names is None else repr(str(names[j])) for j in which]
    shown = given if len(given) <= 5 else [*given[:4], f"{len(given) - 4} more"]
    return f"column {shown[0]}" if len(shown) == 1 else f"each of the columns {', '.join(shown)}"
