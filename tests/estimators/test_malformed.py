"""Tables as people have them: each gets an answer that is stated, or a sentence."""

import tracemalloc
from typing import Any

import numpy as np
import pandas as pd
import pytest
from sklearn.compose import make_column_transformer
from sklearn.impute import SimpleImputer
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder

import innerloop as il
from innerloop.estimators.checked import TableError
from innerloop.learners import Ridge
from tests.estimators.small import linear_table, tabular, two_classes


def regressor(**settings: Any) -> il.InContextRegressor:
    return il.InContextRegressor(tabular("gaussian"), **settings)


def classifier(**settings: Any) -> il.InContextClassifier:
    return il.InContextClassifier(tabular("binary"), **settings)


def test_missing_values_name_the_imputer() -> None:
    X, y = linear_table()
    X[3, 1] = np.nan
    with pytest.raises(TableError, match=r"column 1 of X holds missing values .*SimpleImputer"):
        regressor().fit(X, y)
    frame = pd.DataFrame(X, columns=["a", "b", "c"])
    with pytest.raises(TableError, match="column 'b' of X"):
        regressor().fit(frame, y)
    with pytest.raises(TableError, match="column 'b' of X"):
        regressor().fit(frame.astype("Float64").astype(object), y)
    fitted = regressor().fit(X[4:], y[4:])
    with pytest.raises(TableError, match="SimpleImputer"):
        fitted.predict(X)
    assert np.isfinite(make_pipeline(SimpleImputer(), regressor()).fit(X, y).predict(X)).all()


def test_infinity_and_missing_outputs_are_refused() -> None:
    X, y = linear_table()
    for bad in (np.inf, np.nan):
        wrong = y.copy()
        wrong[0] = bad
        with pytest.raises(ValueError, match=r"Input y contains (infinity|NaN)"):
            regressor().fit(X, wrong)
    X[0, 0] = np.inf
    with pytest.raises(ValueError, match="Input X contains infinity"):
        regressor().fit(X, y)


def test_text_columns_name_the_encoders() -> None:
    X, y = linear_table()
    frame = pd.DataFrame(X, columns=["a", "b", "c"]).assign(town=["Rome", "Oslo"] * 20)
    sentence = r"column 'town' of X holds text.* OrdinalEncoder or a OneHotEncoder"
    with pytest.raises(TableError, match=sentence):
        regressor().fit(frame, y)
    with pytest.raises(TableError, match=sentence):
        regressor().fit(frame.astype({"town": "category"}), y)
    with pytest.raises(TableError, match="column 0 of X holds text"):
        regressor().fit(np.array([["a", "1"], ["b", "2"]], dtype=object)[:, :1], [1.0, 2.0])
    encoded = make_column_transformer((OneHotEncoder(), ["town"]), remainder="passthrough")
    assert np.isfinite(make_pipeline(encoded, regressor()).fit(frame, y).predict(frame)).all()


def test_one_text_cell_in_a_number_column_is_text() -> None:
    X, y = linear_table()
    cells = X.astype(object)
    cells[5, 2] = "n/a"
    with pytest.raises(TableError, match="column 2 of X holds text"):
        regressor().fit(cells, y)


def test_many_bad_columns_are_not_all_listed() -> None:
    cells = np.full((4, 9), "x", dtype=object)
    with pytest.raises(TableError, match="each of the columns 0, 1, 2, 3, 5 more of X"):
        regressor().fit(cells, np.arange(4.0))


def test_text_as_the_output_of_a_regression_names_the_classifier() -> None:
    X, _ = linear_table()
    with pytest.raises(TableError, match="take an InContextClassifier"):
        regressor().fit(X, ["yes", "no"] * 20)


def test_labels_may_be_strings_numbers_or_booleans() -> None:
    X, y = two_classes()
    expected = classifier().fit(X, y).predict_proba(X)
    for labels in (np.where(y > 0, "yes", "no"), y > 0, np.where(y > 0, 7, -3)):
        fitted = classifier().fit(X, labels)
        np.testing.assert_array_equal(fitted.classes_, np.unique(labels))
        np.testing.assert_allclose(fitted.predict_proba(X), expected, atol=1e-12)
        assert set(fitted.predict(X)) <= set(labels)


def test_one_class_is_the_answer() -> None:
    X, _ = linear_table()
    fitted = classifier().fit(X, ["only"] * 40)
    assert set(fitted.predict(X)) == {"only"}
    np.testing.assert_array_equal(fitted.predict_proba(X), np.ones((40, 1)))
    assert fitted.decision_function(X).shape == (40,)


def test_too_many_classes_are_refused() -> None:
    X, _ = linear_table()
    with pytest.raises(TableError, match="y has 20 classes, expected at most 10"):
        classifier().fit(X, np.arange(40) % 20)
    ten = il.InContextClassifier(Ridge(1.0)).fit(X, np.arange(40) % 10)
    assert ten.predict_proba(X).shape == (40, 10)


def test_one_row_is_its_own_answer() -> None:
    X, y = linear_table()
    means, deviations = regressor().fit(X[:1], y[:1]).predict(X, return_std=True)
    np.testing.assert_array_equal(means, np.full(40, y[0]))
    np.testing.assert_array_equal(deviations, np.zeros(40))
    assert set(classifier().fit(X[:1], ["a"]).predict(X)) == {"a"}


def test_two_rows_are_enough() -> None:
    X, y = linear_table()
    assert np.isfinite(regressor().fit(X[:2], y[:2]).predict(X)).all()
    assert np.isfinite(classifier().fit(X[:2], ["a", "b"]).predict_proba(X)).all()
    wide = np.random.default_rng(0).standard_normal((2, 50))
    assert np.isfinite(regressor().fit(wide, y[:2]).predict(wide)).all()


def test_a_constant_output_is_the_answer() -> None:
    X, _ = linear_table()
    np.testing.assert_array_equal(regressor().fit(X, np.full(40, 0.1)).predict(X), np.full(40, 0.1))


def test_constant_columns_change_nothing() -> None:
    X, y = linear_table()
    more = np.column_stack([np.full(40, 1e9 + 0.1), X, np.zeros(40)])
    expected = regressor().fit(X, y).predict(X)
    np.testing.assert_allclose(regressor().fit(more, y).predict(more), expected, rtol=1e-9)
    nothing = np.ones((40, 2))
    answers = regressor().fit(nothing, y).predict(nothing)
    np.testing.assert_allclose(answers, answers[0])
    assert np.isfinite(answers).all()


def test_units_do_not_matter() -> None:
    X, y = linear_table()
    expected = regressor().fit(X, y).predict(X)
    scaled = X * np.array([1e-9, 1e9, 1.0]) + np.array([0.0, 1e10, -5.0])
    np.testing.assert_allclose(regressor().fit(scaled, y).predict(scaled), expected, rtol=1e-5)


def test_duplicate_rows_are_rows() -> None:
    X, y = linear_table(10)
    many, outputs = np.tile(X, (30, 1)), np.tile(y, 30)
    for selection in ("subsample", "nearest"):
        fitted = regressor(selection=selection, contexts=4).fit(many, outputs)
        assert np.isfinite(fitted.predict(X)).all()
    same = np.ones((300, 2))
    fitted = regressor(selection="nearest").fit(same, np.arange(300.0))
    assert np.isfinite(fitted.predict(same[:3])).all()


@pytest.mark.parametrize("selection", ["subsample", "nearest"])
def test_a_million_rows_are_a_few_contexts(selection: str) -> None:
    random = np.random.default_rng(0)
    X = random.standard_normal((1_000_000, 4))
    y = X @ np.array([1.0, 2.0, 0.0, -1.0])
    tracemalloc.start()
    fitted = regressor(selection=selection).fit(X, y)
    answers = fitted.predict(X[:5])
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert np.isfinite(answers).all()
    assert fitted.contexts_.xs.shape == (8, 128, 4)
    # The table is 32 MB: some copies of it, and never rows by rows.
    assert peak < 10 * X.nbytes
    with pytest.raises(TableError, match=r"would take about \d+ GB"):
        regressor(selection="all").fit(X, y)


@pytest.mark.parametrize("projection", ["principal", "random"])
def test_five_hundred_features_are_projected(projection: str) -> None:
    X, y = linear_table(100, 500)
    fitted = regressor(projection=projection, contexts=3).fit(X, y)
    number = 3 if projection == "random" else 1
    assert fitted.contexts_.xs.shape == (number, 100, 16)
    np.testing.assert_allclose(fitted.contexts_.xs.std(axis=1), 1, rtol=1e-6)
    assert np.isfinite(fitted.predict(X)).all()


def test_another_number_of_features_is_refused() -> None:
    X, y = linear_table()
    with pytest.raises(ValueError, match="X has 2 features, but InContextRegressor is expecting 3"):
        regressor().fit(X, y).predict(X[:, :2])
