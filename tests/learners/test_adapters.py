"""Functions and scikit-learn estimators as learners: equality, queries, seeds and errors."""

import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from pydantic import ValidationError
from sklearn.base import BaseEstimator
from sklearn.ensemble import RandomForestRegressor
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.neighbors import KNeighborsRegressor
from sklearn.neural_network import MLPRegressor
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from torch import Tensor

import innerloop as il
from innerloop.core.errors import ContractViolation, InnerloopError
from innerloop.core.learner import Traits
from innerloop.core.tolerances import REFERENCE
from innerloop.learners.adapters import FromEstimator, FromFunction

RandomPrompt = Callable[..., il.Prompt]

LINEAR = Traits(order_invariant=True, rotation_equivariant=True, linear_in_y=True)
WHOLE = Traits(causal=False, order_invariant=True, rotation_equivariant=True, linear_in_y=True)


def running_mean(xs: Tensor, ys: Tensor) -> Tensor:
    """The mean of the outputs before each point."""
    number = torch.arange(ys.shape[1], dtype=ys.dtype).clamp(min=1)  # (n,)
    return (ys.cumsum(dim=1) - ys) / number[:, None]


def ridge_on_all(xs: Tensor, ys: Tensor) -> Tensor:
    """Ridge regression on all points but the last, asked at every point."""
    gram = xs[:, :-1].mT @ xs[:, :-1] + 0.1 * torch.eye(xs.shape[2], dtype=xs.dtype)  # (B, d, d)
    return xs @ torch.linalg.solve(gram, xs[:, :-1].mT @ ys[:, :-1])


def test_a_causal_function_is_called_once_on_the_whole_prompt(random_prompt: RandomPrompt) -> None:
    prompt = random_prompt()
    calls: list[tuple[int, ...]] = []

    def spy(xs: Tensor, ys: Tensor) -> Tensor:
        calls.append(tuple(xs.shape))
        return running_mean(xs, ys)

    assert torch.equal(il.predict(FromFunction(spy), prompt), running_mean(prompt.xs, prompt.ys))
    assert calls == [(3, 6, 2)]


def test_a_function_of_a_whole_prompt_is_run_on_every_prefix(random_prompt: RandomPrompt) -> None:
    prompt = random_prompt(3, 6, 2, queries=4)
    answer = il.predict(FromFunction(ridge_on_all, traits=WHOLE), prompt)  # (B, n, q, 1)
    expected = np.zeros(prompt.prediction_shape)
    for b, i in np.ndindex(3, 6):
        if i > 0:
            model = Ridge(0.1, fit_intercept=False)
            model.fit(prompt.xs[b, :i].numpy(), prompt.ys[b, :i].numpy())
            expected[b, i] = model.predict(prompt.asked[b, i].numpy()).reshape(4, 1)
    torch.testing.assert_close(answer, torch.from_numpy(expected), rtol=REFERENCE, atol=REFERENCE)


def test_a_function_that_peeks_is_found_out() -> None:
    with pytest.raises(ContractViolation, match="ridge_on_all peeks"):
        il.check_learner(FromFunction(ridge_on_all, traits=LINEAR))


def test_names() -> None:
    class Callable_:
        def __call__(self, xs: Tensor, ys: Tensor) -> Tensor:
            return ys

    assert FromFunction(running_mean).name == "running_mean"
    assert FromFunction(lambda xs, ys: ys, label="copy").name == "copy"
    assert FromFunction(Callable_()).name == "Callable_"
    assert FromEstimator(Ridge(0.5)).name == "FromEstimator(Ridge(alpha=0.5))"
    long = FromEstimator(make_pipeline(StandardScaler(), RandomForestRegressor(7)))
    assert "RandomForestRegressor(n_estimators=7)" in long.name
    assert "\n" not in long.name


@pytest.mark.parametrize(
    ("function", "complaint"),
    [
        (lambda xs, ys: ys.tolist(), "returned list, expected a tensor of shape"),
        (lambda xs, ys: ys[:, 0], r"returned shape \(3, 1\) for xs \(3, 6, 2\)"),
        (lambda xs, ys: ys.long(), "returned torch.int64 on cpu"),
    ],
)
def test_wrong_answers_are_explained(
    function: Callable[..., Any], complaint: str, random_prompt: RandomPrompt
) -> None:
    with pytest.raises(InnerloopError, match=complaint):
        il.predict(FromFunction(function), random_prompt())


def test_estimators_are_fitted_to_every_prefix_and_output(random_prompt: RandomPrompt) -> None:
    prompt = random_prompt(2, 7, 3, 2, queries=2)
    answer = il.predict(FromEstimator(Ridge(0.3), minimum_examples=2), prompt)
    expected = np.zeros(prompt.prediction_shape)
    for b, i, o in np.ndindex(2, 7, 2):
        if i >= 2:
            model = Ridge(0.3).fit(prompt.xs[b, :i].numpy(), prompt.ys[b, :i, o].numpy())
            expected[b, i, :, o] = model.predict(prompt.asked[b, i].numpy())
    torch.testing.assert_close(answer, torch.from_numpy(expected), rtol=REFERENCE, atol=REFERENCE)


def test_open_seeds_are_set_also_in_nested_estimators(random_prompt: RandomPrompt) -> None:
    prompt = random_prompt(1, 6)
    trees = RandomForestRegressor(2)
    forest = make_pipeline(StandardScaler(), trees)
    first, again = (il.predict(FromEstimator(forest), prompt) for _ in range(2))
    assert torch.equal(first, again)
    assert not torch.equal(first, il.predict(FromEstimator(forest, seed=1), prompt))
    fixed = make_pipeline(StandardScaler(), RandomForestRegressor(2, random_state=0))
    assert torch.equal(first, il.predict(FromEstimator(fixed, seed=1), prompt))
    assert trees.random_state is None  # the user's own estimator stays as it was


def test_classifiers_answer_labels(random_prompt: RandomPrompt) -> None:
    prompt = random_prompt(2, 9)
    labels = il.Prompt(xs=prompt.xs, ys=prompt.ys.sign())
    answer = il.predict(FromEstimator(LogisticRegression()), labels)
    assert set(answer[:, 1:].unique().tolist()) == {-1.0, 1.0}
    assert torch.equal(answer[:, 1], labels.ys[:, 0])  # one label is all it has seen


def test_an_estimator_of_another_library_needs_no_base_class(random_prompt: RandomPrompt) -> None:
    class FirstInput:
        def get_params(self, deep: bool = True) -> dict[str, Any]:
            return {}

        def fit(self, inputs: np.ndarray, outputs: np.ndarray) -> "FirstInput":
            return self

        def predict(self, inputs: np.ndarray) -> np.ndarray:
            return inputs[:, 0]

    prompt = random_prompt()
    answer = il.predict(FromEstimator(FirstInput()), prompt)
    assert torch.equal(answer[:, 1:, 0], prompt.xs[:, 1:, 0])


def test_failures_name_the_number_of_examples_and_the_remedy(random_prompt: RandomPrompt) -> None:
    with pytest.raises(
        InnerloopError, match=r"failed on 1 examples .* raise minimum_examples above"
    ):
        il.predict(FromEstimator(KNeighborsRegressor(3)), random_prompt())


def test_answers_of_a_wrong_number_are_a_failure(random_prompt: RandomPrompt) -> None:
    class Constant(BaseEstimator):
        def fit(self, inputs: np.ndarray, outputs: np.ndarray) -> "Constant":
            return self

        def predict(self, inputs: np.ndarray) -> np.ndarray:
            return np.zeros(7)

    with pytest.raises(InnerloopError, match=r"Constant.* failed on 1 examples"):
        il.predict(FromEstimator(Constant()), random_prompt())


def test_warnings_come_through(random_prompt: RandomPrompt) -> None:
    learner = FromEstimator(MLPRegressor(hidden_layer_sizes=2, max_iter=1), minimum_examples=2)
    prompt = random_prompt(1, 3)
    with pytest.raises(ConvergenceWarning):  # as errors, which is how the tests run
        il.predict(learner, prompt)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        assert il.predict(learner, prompt).isfinite().all()
    assert any(issubclass(warning.category, ConvergenceWarning) for warning in caught)


@pytest.mark.parametrize("wrong", [3, Ridge])
def test_what_is_no_estimator_is_refused(wrong: Any) -> None:
    with pytest.raises(ValidationError, match=r"give an instance of one, for example Ridge\(\)"):
        FromEstimator(wrong)


def test_settings() -> None:
    with pytest.raises(ValidationError):
        FromFunction(3)  # type: ignore[arg-type]
    with pytest.raises(ValidationError):
        FromEstimator(Ridge(), minimum_examples=0)
