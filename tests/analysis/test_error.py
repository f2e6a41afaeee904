"""Error curves of learners on tasks."""

import numpy as np
import pandas as pd
import pytest
import torch

import innerloop as il
from innerloop.analysis.error import error_curve, squared_errors
from innerloop.core.errors import ConfigurationError, PromptError
from innerloop.learners import OLS, Averaging, GradientDescent, Ridge

TASK = il.tasks.LinearRegression(dims=5)


Columns = dict[str, np.ndarray]


def columns(table: pd.DataFrame, learner: str) -> Columns:
    rows = dict(iter(table.groupby("learner")))[learner]
    return {name: rows[name].to_numpy() for name in rows}


def test_errors_by_prefix_equal_a_plain_computation() -> None:
    table = error_curve([OLS(), Ridge(0.5)], TASK, points=9, prompts=200, seed=3)
    prompt = TASK.sample(200, 9, generator=torch.Generator().manual_seed(3))
    for learner in (OLS(), Ridge(0.5)):
        mine = columns(table, learner.name)
        errors = (il.predict(learner, prompt) - prompt.ys).double().square()[..., 0] / 5
        assert list(mine["prefix"]) == list(range(9))
        assert np.allclose(mine["mean"], errors.mean(0))
        assert np.allclose(mine["median"], errors.median(0).values)
        assert (mine["low"] <= mine["mean"]).all()
        assert (mine["high"] >= mine["mean"]).all()
        assert (mine["prompts"] == 200).all()


def test_predicting_zero_has_error_one() -> None:
    table = error_curve(GradientDescent(0), TASK, points=4, prompts=4000)
    # A 90% interval is 3.3 standard errors wide; four of them on either side.
    found = columns(table, GradientDescent(0).name)
    error = (found["high"] - found["low"]) / 3.3
    assert (np.abs(found["mean"] - 1) < 4 * error).all()


def test_errors_by_step_equal_the_trajectory() -> None:
    table = error_curve(
        [GradientDescent(6), OLS()], TASK, points=9, by="step", prefix=7, prompts=50
    )
    prompt = TASK.sample(50, 9, generator=torch.Generator().manual_seed(0))
    steps = il.trajectory(GradientDescent(6), prompt).predictions[:, :, 7, 0].double()
    expected = (steps - prompt.ys[:, 7, 0]).square().mean(1) / 5
    mine = columns(table, GradientDescent(6).name)
    assert list(mine["step"]) == list(range(7))
    assert np.allclose(mine["mean"], expected)
    assert list(columns(table, "OLS")["step"]) == [0]


def test_unscored_positions_are_left_out() -> None:
    task = il.tasks.ChainOfThought(dims=3, layers=2)
    table = error_curve(Averaging(), task, points=9, prompts=20)
    assert list(table["prefix"]) == [0, 1, 3, 4, 6, 7]
    by_step = error_curve(Averaging(), task, points=9, prompts=20, by="step")
    assert set(by_step["prefix"]) == {7}


def test_queries_are_compared_with_their_answers() -> None:
    shifted = il.tasks.shifts.ExampleQuery(task=TASK)
    table = error_curve(OLS(), shifted, points=5, prompts=64)
    # A noiseless example asked again is answered exactly, once there is one.
    means = columns(table, "OLS")["mean"]
    assert means[1:].max() < 1e-10
    assert means[0] > 0.1


def test_queries_without_answers_are_refused(generator: torch.Generator) -> None:
    prompt = TASK.sample(2, 4, generator=generator).ask(torch.zeros(2, 4, 1, 5))
    with pytest.raises(PromptError, match="query_ys"):
        squared_errors(il.predict(OLS(), prompt), prompt)


def test_learners_of_one_name_are_told_apart() -> None:
    table = error_curve([OLS(), OLS()], TASK, points=3, prompts=8)
    assert set(table["learner"]) == {"OLS", "OLS #2"}


def test_progress_is_reported() -> None:
    seen: list[tuple[str, int, int]] = []
    error_curve(OLS(), TASK, points=3, prompts=300, progress=lambda *report: seen.append(report))
    assert seen == [("OLS", 128, 300), ("OLS", 256, 300), ("OLS", 300, 300)]


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        ({"learners": []}, "no learner"),
        ({"prompts": 0}, "prompts is 0"),
        ({"confidence": 1.5}, "between 0 and 1"),
        ({"draws": 0}, "draws is 0"),
        ({"by": "step", "prefix": 9}, "expected 0 to 4"),
        ({"points": 0}, "points is 0"),
        ({"steps": -1}, "steps is -1"),
        ({"by": "stpe"}, "did you mean 'step'"),
        ({"prefix": 2}, "only a curve by step"),
        ({"seed": -1}, "seed is -1"),
    ],
)
def test_bad_arguments_are_one_sentence(arguments: dict[str, object], sentence: str) -> None:
    given: dict[str, object] = {"learners": [OLS()], "task": TASK, "points": 5, "prompts": 8}
    with pytest.raises(ConfigurationError, match=sentence):
        error_curve(**{**given, **arguments})  # type: ignore[arg-type]
