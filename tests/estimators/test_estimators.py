"""What the estimators answer: one pass, loops, several contexts, projections, padding, pickles."""

import copy
import json
import os
import pickle
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from sklearn.datasets import load_diabetes, load_iris
from sklearn.exceptions import ConvergenceWarning
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import innerloop as il
from innerloop.core.errors import ConfigurationError, NotSupportedError
from innerloop.estimators.checked import TableError
from innerloop.learners import Ridge
from innerloop.models import save
from tests.estimators.small import (
    contracting,
    descent,
    fixed,
    linear_table,
    needs_weights,
    tabular,
    two_classes,
)

FEW = slice(0, 7)


def test_predict_is_what_the_model_answers_after_the_last_example() -> None:
    X, y = linear_table()
    model = tabular().double()
    found = il.InContextRegressor(model).fit(X, y).predict(X[FEW])
    # The same by hand, one question at a time, without any standardising: the model does its own.
    prompts = [il.Prompt.from_arrays(np.vstack([X, x]), np.append(y, 0)) for x in X[FEW]]
    alone = [float(il.predict(model, prompt)[0, -1, 0]) for prompt in prompts]
    np.testing.assert_allclose(found, alone, rtol=1e-9)


def test_answers_do_not_depend_on_what_is_asked_beside_them() -> None:
    X, y = linear_table(200, 20)
    for selection in ("subsample", "nearest"):
        for projection in ("principal", "random"):
            settings = {"selection": selection, "projection": projection, "contexts": 3}
            fitted = il.InContextRegressor(tabular(), **settings).fit(X, y)
            together = fitted.predict(X[FEW])
            alone = np.concatenate([fitted.predict(x[None]) for x in X[FEW]])
            np.testing.assert_allclose(alone, together, rtol=1e-9)
            parts = fitted.set_params(batch_size=3).predict(X[FEW])
            np.testing.assert_allclose(parts, together, rtol=1e-9)


def test_a_trajectory_has_one_row_per_loop_and_ends_where_predict_does() -> None:
    X, y = linear_table(200)
    fitted = il.InContextRegressor(tabular(loops=3), contexts=2).fit(X, y)
    by_loop = fitted.predict_trajectory(X[FEW])
    assert by_loop.shape == (4, 7)
    np.testing.assert_allclose(by_loop[-1], fitted.predict(X[FEW]), rtol=1e-9)
    for loops in (0, 1, 2):
        fewer = fitted.set_params(loops=loops).predict(X[FEW])
        np.testing.assert_allclose(by_loop[loops], fewer, rtol=1e-9)
    assert fitted.set_params(loops=9).predict_trajectory(X[FEW]).shape == (10, 7)


def test_converged_is_where_more_loops_change_nothing() -> None:
    X, y = linear_table(200)
    fitted = il.InContextRegressor(contracting(), loops="converged", contexts=3).fit(X, y)
    answers, by_loop = fitted.predict(X[FEW]), fitted.predict_trajectory(X[FEW])
    assert 2 < len(by_loop) < 200
    np.testing.assert_allclose(by_loop[-1], answers, atol=1e-3 * float(np.std(y)))
    far = fitted.set_params(loops=300).predict(X[FEW])
    np.testing.assert_allclose(answers, far, atol=1e-3 * float(np.std(y)))


def test_contexts_that_do_not_converge_say_so() -> None:
    X, y = linear_table(30, 4)
    with pytest.warns(UserWarning, match="zeros take the place"):
        fitted = il.InContextRegressor(descent(5), loops="converged").fit(X, y)
    with pytest.warns(ConvergenceWarning, match="were still moving .* choose a number of loops"):
        fitted.predict(X[FEW])


def test_a_model_without_loops_cannot_converge() -> None:
    X, y = linear_table(8, 5)
    with pytest.raises(NotSupportedError, match="no moving part"):
        il.InContextRegressor(Ridge(1.0), loops="converged").fit(X, y).predict(X)


def test_deviations_are_in_the_units_of_y_and_average_as_mixtures() -> None:
    X, y = linear_table(200)
    fitted = il.InContextRegressor(tabular(), contexts=3).fit(X, y)
    means, deviations = fitted.predict(X[FEW], return_std=True)
    scaled, wider = il.InContextRegressor(tabular(), contexts=3).fit(X, 100 * y).predict(
        X[FEW], return_std=True
    )  # fmt: skip
    np.testing.assert_allclose(scaled, 100 * means, rtol=1e-6)
    np.testing.assert_allclose(wider, 100 * deviations, rtol=1e-6)
    one_each = []
    for k in range(3):
        part = copy.deepcopy(fitted)
        kept = part.contexts_
        one = slice(k, k + 1)
        part.contexts_ = replace(
            kept, rows=kept.rows[one], xs=kept.xs[one], center=kept.center[one],
            scale=kept.scale[one],
        )  # fmt: skip
        part.targets_, part.y_center_, part.y_scale_ = (
            each[one] for each in (part.targets_, part.y_center_, part.y_scale_)
        )
        one_each.append(part.predict(X[FEW], return_std=True))
    own_means, own_deviations = (np.stack(each) for each in zip(*one_each, strict=True))
    np.testing.assert_allclose(means, own_means.mean(axis=0), rtol=1e-9)
    total = (own_deviations**2).mean(axis=0) + own_means.var(axis=0)
    np.testing.assert_allclose(deviations**2, total, rtol=1e-9)


def test_a_model_without_deviations_says_so() -> None:
    X, y = linear_table(8, 5)
    fitted = il.InContextRegressor(fixed()).fit(X, y)
    with pytest.raises(NotSupportedError, match="gives no deviations"):
        fitted.predict(X, return_std=True)


def test_a_model_of_fixed_size_sees_zeros_after_the_last_feature_and_warns() -> None:
    X, y = linear_table(30, 3)
    with pytest.warns(UserWarning, match="reads 5 inputs and X has 3 features"):
        fitted = il.InContextRegressor(descent(5)).fit(X, y)
    # Gradient descent from zero leaves the weights of such inputs at zero: least squares all the
    # same, in units that the model has never seen.
    np.testing.assert_allclose(fitted.predict(X[FEW]), y[FEW], atol=1e-2 * float(np.std(y)))


def test_a_run_whose_dimensions_grew_knows_zeros_and_does_not_warn(tmp_path: Path) -> None:
    X, y = linear_table(8, 3)
    folder = save(fixed(dims=5, points=11), tmp_path / "run")
    described = json.loads((folder / "config.json").read_text())
    del described["seal"]  # changed on purpose
    grown = {"start": 2, "by": 1, "every": 10}
    for dims, warns in ((None, True), (grown, False)):
        run = described | {"points": 11, "curriculum": {"dims": dims, "points": None}}
        (folder / "config.json").write_text(json.dumps(run))
        os.utime(folder / "weights.safetensors", (1, 1 + warns))  # read again
        expected = pytest.warns(UserWarning, match="zeros") if warns else nullcontext()
        with expected:
            fitted = il.InContextRegressor(folder).fit(X, y)
        assert fitted.contexts_.xs.shape == (1, 8, 5)


def test_a_model_of_fixed_size_takes_projections_of_more_features() -> None:
    X, y = linear_table(60, 9)
    fitted = il.InContextRegressor(fixed(dims=5, points=11), contexts=2).fit(X, y)
    assert fitted.contexts_.xs.shape == (2, 10, 5)
    assert np.isfinite(fitted.predict(X)).all()
    with pytest.raises(TableError, match="reads 10 examples at most"):
        il.InContextRegressor(fixed(dims=5, points=11), selection="all").fit(X, y)
    small = il.InContextRegressor(fixed(dims=5, points=11), selection="all").fit(X[:10], y[:10])
    assert small.contexts_.xs.shape == (1, 10, 5)


def test_principal_components_keep_what_a_table_of_few_directions_holds() -> None:
    random = np.random.default_rng(0)
    hidden, mixed = random.standard_normal((100, 3)), random.standard_normal((3, 40))
    X, y = hidden @ mixed, hidden @ np.array([1.0, -2.0, 0.5])
    fitted = il.InContextRegressor(Ridge(1e-6)).fit(X, y)
    assert fitted.contexts_.xs.shape[2] == 16
    assert fitted.score(X, y) > 0.999


def test_each_context_has_rows_and_a_random_projection_of_its_own() -> None:
    X, y = linear_table(200, 20)
    kept = il.InContextRegressor(tabular(), projection="random", contexts=3).fit(X, y).contexts_
    assert kept.xs.shape == (3, 128, 16)
    assert all(len(set(rows)) == 128 for rows in kept.rows)
    assert len({tuple(rows) for rows in kept.rows}) == 3
    assert kept.maps is not None
    assert not np.allclose(kept.maps[0], kept.maps[1])
    few = il.InContextRegressor(tabular(), projection="random", contexts=3).fit(X[:50], y[:50])
    assert few.contexts_.xs.shape == (3, 50, 16)
    assert il.InContextRegressor(tabular()).fit(X[:50], y[:50]).contexts_.xs.shape == (1, 50, 16)


def test_nearest_shows_the_rows_around_a_question() -> None:
    X = np.concatenate([np.linspace(0, 1, 100), np.linspace(10, 11, 100)])[:, None]
    y = np.where(X[:, 0] < 5, X[:, 0], 10 - X[:, 0])
    settings = {"selection": "nearest", "contexts": 2, "max_rows": 80}
    fitted = il.InContextRegressor(Ridge(1e-9), **settings).fit(X, y)
    # A line through each half; one line through both is far off.
    assert fitted.score(X, y) > 0.9999
    whole = il.InContextRegressor(Ridge(1e-9), max_rows=80).fit(X, y)
    assert whole.score(X, y) < 0.9


def test_subsamples_keep_classes_in_proportion() -> None:
    y = np.array(["rare"] * 2 + ["some"] * 98 + ["most"] * 300)
    X = np.random.default_rng(0).standard_normal((400, 2))
    fitted = il.InContextClassifier(tabular("binary"), contexts=4).fit(X, y)
    for rows in fitted.contexts_.rows:
        counts = dict(zip(*np.unique(y[rows], return_counts=True), strict=True))
        assert counts["rare"] >= 1
        assert counts["some"] == pytest.approx(128 * 98 / 400, abs=1.5)


def test_it_does_not_matter_which_class_comes_first() -> None:
    X, y = two_classes()
    one = il.InContextClassifier(tabular("binary")).fit(X, y).predict_proba(X)
    other = il.InContextClassifier(tabular("binary")).fit(X, 1 - y).predict_proba(X)
    np.testing.assert_allclose(one, other[:, ::-1], atol=1e-12)


def test_probabilities_decisions_and_classes_agree() -> None:
    X, y = load_iris(return_X_y=True)
    for labels in (y, y == 0):
        fitted = il.InContextClassifier(Ridge(0.1), contexts=2).fit(X, labels)
        shares, odds = fitted.predict_proba(X), fitted.decision_function(X)
        assert shares.shape == (150, len(fitted.classes_))
        np.testing.assert_allclose(shares.sum(axis=1), 1)
        best = odds.argmax(axis=1) if odds.ndim == 2 else (odds > 0).astype(int)
        np.testing.assert_array_equal(fitted.classes_[best], fitted.predict(X))
        assert fitted.score(X, labels) > 0.8


def test_the_classifier_has_trajectories_of_classes_and_of_probabilities() -> None:
    X, y = two_classes(200)
    fitted = il.InContextClassifier(tabular("binary", loops=4), contexts=2).fit(X, y)
    shares = fitted.predict_proba_trajectory(X[FEW])
    assert shares.shape == (5, 7, 2)
    np.testing.assert_allclose(shares[-1], fitted.predict_proba(X[FEW]), rtol=1e-9)
    np.testing.assert_array_equal(fitted.predict_trajectory(X[FEW])[-1], fitted.predict(X[FEW]))


def test_estimators_work_in_pipelines_searches_and_cross_validation() -> None:
    X, y = linear_table(60)
    pipeline = make_pipeline(StandardScaler(), il.InContextRegressor(tabular()))
    assert cross_val_score(pipeline, X, y, cv=3).shape == (3,)
    search = GridSearchCV(pipeline, {"incontextregressor__loops": [1, 2]}, cv=3).fit(X, y)
    assert search.best_params_["incontextregressor__loops"] in (1, 2)
    X, y = two_classes()
    grid = {"loops": [1, 2], "max_rows": [16, 32]}
    found = GridSearchCV(il.InContextClassifier(tabular("binary")), grid, cv=2).fit(X, y)
    assert found.cv_results_["mean_test_score"].shape == (4,)


def test_a_pickle_has_the_weights_of_a_learner_and_not_those_of_a_folder(tmp_path: Path) -> None:
    X, y = linear_table()
    model = tabular()
    folder = save(model, tmp_path / "model")
    by_learner, by_folder = (il.InContextRegressor(one).fit(X, y) for one in (model, str(folder)))
    expected = by_learner.predict(X)
    for fitted in (by_learner, by_folder):
        for copied in (pickle.loads(pickle.dumps(fitted)), copy.deepcopy(fitted)):
            np.testing.assert_array_equal(copied.predict(X), expected)
    weights = sum(parameter.numel() for parameter in model.parameters()) * 4
    assert len(pickle.dumps(by_learner)) > weights + len(pickle.dumps(by_folder)) / 2
    assert len(pickle.dumps(by_folder)) < len(pickle.dumps(by_learner)) - weights
    written = pickle.dumps(by_folder)
    (folder / "weights.safetensors").unlink()
    with pytest.raises(ValueError, match=r"weights.safetensors is missing"):
        pickle.loads(written).predict(X)


def test_new_weights_in_a_folder_are_read_again(tmp_path: Path) -> None:
    X, y = linear_table()
    fitted = il.InContextRegressor(str(save(tabular(seed=0), tmp_path / "model"))).fit(X, y)
    first = fitted.predict(X[FEW])
    save(tabular(seed=1), tmp_path / "model")
    assert not np.allclose(fitted.predict(X[FEW]), first)


def test_the_folder_of_a_run_says_what_the_model_was_trained_with(tmp_path: Path) -> None:
    config = il.training.RunConfig.model_validate({
        "task": {"name": "tabular-prior", "dims": 5}, "points": 21, "steps": 1, "batch": 2,
        "model": {"kind": "tabular", "shape": {"width": 8, "heads": 2, "loops": 2}},
    })  # fmt: skip
    run = il.train(config, store=tmp_path)
    X, y = linear_table(50, 7)
    kept = il.InContextRegressor(run.path, contexts=2).fit(X, y).contexts_
    assert kept.xs.shape == (2, 20, 5)


def test_the_model_that_was_given_is_left_as_it_was() -> None:
    X, y = linear_table()
    model = tabular().train()
    before = {name: value.clone() for name, value in model.state_dict().items()}
    il.InContextRegressor(model).fit(X, y).predict(X)
    assert model.training
    for name, value in model.state_dict().items():
        assert value.dtype == before[name].dtype
        assert (value == before[name]).all()
    assert all(parameter.requires_grad for parameter in model.parameters())


@pytest.mark.parametrize(
    ("settings", "sentence"),
    [
        ({"model": "tabular-regresion"}, "'tabular-regression', 'tabular-classification'"),
        ({"model": 3}, "model is a int, expected the name"),
        ({"model": tabular("binary")}, "has the head 'binary'"),
        ({"loops": -1}, "loops is -1"),
        ({"loops": "forever"}, "loops is 'forever'"),
        ({"contexts": 0}, "contexts is 0"),
        ({"selection": "some"}, "selection is 'some', expected one of 'all', 'subsample'"),
        ({"projection": "none"}, "projection is 'none'"),
        ({"max_rows": 0}, "max_rows is 0"),
        ({"device": "abacus"}, "device is 'abacus'"),
    ],
)
def test_wrong_settings_are_one_sentence(settings: dict[str, object], sentence: str) -> None:
    X, y = linear_table(10)
    with pytest.raises((ConfigurationError, NotSupportedError), match=sentence):
        il.InContextRegressor(**{"model": tabular(), **settings}).fit(X, y)


@needs_weights
def test_the_shipped_regressor_beats_the_mean_on_diabetes() -> None:
    X, y = load_diabetes(return_X_y=True)
    fitted = il.InContextRegressor().fit(X[:64], y[:64])
    means, deviations = fitted.predict(X[64:], return_std=True)
    assert fitted.score(X[64:], y[64:]) > 0.2
    inside = np.abs(y[64:] - means) < 1.645 * deviations
    assert 0.75 < inside.mean() < 0.99


@needs_weights
def test_the_shipped_classifier_knows_irises() -> None:
    X, y = load_iris(return_X_y=True)
    scores = cross_val_score(il.InContextClassifier(), X, y, cv=5)
    assert scores.mean() > 0.9
