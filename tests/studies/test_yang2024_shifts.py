"""What figures 6 and 16 of Yang et al. (2024) measure, with learners whose answers are known."""

import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from innerloop.analysis import estimate
from innerloop.core.learner import Learner
from innerloop.learners import OLS, Averaging, GradientDescent, Ridge
from innerloop.studies.claim import Judged, judge
from innerloop.studies.lab import Lab
from innerloop.studies.study import Measures, Study
from innerloop.studies.yang2024.shifts import fig6, fig16
from innerloop.training.run import Run

DIMS, POINTS = 5, 11
"""Those of the scale laptop."""
ZERO, RIDGE = GradientDescent(0), Ridge(1.0)


def measured(study: Study, standard: Learner[Any]) -> Measures:
    """What a study measures with ridge regression for its loops, and another for its stacks."""
    configs = study.runs("laptop")
    lab = Lab(
        study=study.name,
        scale="laptop",
        runs={label: Run(Path("none"), config) for label, config in configs.items()},
        learners={label: RIDGE if "looped" in label else standard for label in configs},
    )
    return study.measure(lab)


def judged(study: Study, name: str, measures: Measures) -> Judged:
    (claim,) = [each for each in study.claims if each.name == name]
    # Two seeds that agree: of one, nothing is concluded about a way of training.
    number = estimate(claim.statistic, [measures, measures], log=claim.ratio, draws=2)
    return judge(claim, number, "laptop")


@pytest.fixture(scope="module", name="against_zero")
def _against_zero() -> Measures:
    return measured(fig6, ZERO)


@pytest.fixture(scope="module", name="against_least_squares")
def _against_least_squares() -> Measures:
    return measured(fig6, OLS())


@pytest.fixture(scope="module", name="against_itself")
def _against_itself() -> Measures:
    return measured(fig6, RIDGE)


def test_shifts_that_allow_fewer_points_have_fewer(against_zero: Measures) -> None:
    assert against_zero["orthogonal-query: standard L = 8"].values.shape == (1280, DIMS)
    assert against_zero["skewed-covariance: standard L = 8"].values.shape == (1280, POINTS)


def test_a_small_penalty_lowers_the_peak_of_double_descent(
    against_least_squares: Measures, against_itself: Measures, against_zero: Measures
) -> None:
    assert judged(fig6, "lower-peak", against_least_squares).verdict == "confirmed"
    # Against itself it is no lower; zero is above the noise by just the task's scale.
    same = judged(fig6, "lower-peak", against_itself)
    assert same.value == pytest.approx(1)
    assert same.verdict == "contradicted"
    noisy = against_zero["noisy-outputs: standard L = 8"].values  # (P, n)
    assert float(noisy.mean()) - 1 / DIMS == pytest.approx(1, abs=0.05)
    above = against_zero["above noise at d, noisy-outputs, full"].values  # (P,)
    assert above.tolist() == pytest.approx((noisy[:, DIMS] - 1 / DIMS).tolist())


def test_errors_below_the_noise_have_no_ratio(against_itself: Measures) -> None:
    below = {
        name: replace(own, values=own.values - 100) if name.startswith("above noise") else own
        for name, own in against_itself.items()
    }
    unknown = judged(fig6, "lower-peak", below)
    assert math.isnan(unknown.value)
    assert unknown.verdict == "inconclusive"


def test_looped_models_are_compared_from_d_examples_on(against_least_squares: Measures) -> None:
    against_averaging = measured(fig6, Averaging())
    skewed = judged(fig6, "skewed-better", against_averaging)
    loop, stack = (
        float(against_averaging[f"skewed-covariance: {label}"].values[:, DIMS:].mean())
        for label in ("looped b = 20", "standard L = 8")
    )
    assert skewed.value == pytest.approx(loop / stack)
    assert skewed.verdict == "confirmed"
    assert judged(fig6, "scaled-worse", against_least_squares).verdict == "confirmed"


def test_subspaces_and_orthants_are_judged_by_the_worst(
    against_least_squares: Measures, against_itself: Measures
) -> None:
    assert judged(fig6, "matches-deepest", against_itself).value == pytest.approx(1)
    worse = {
        name: own / 0.5 if name.startswith("from d on, random-orthant, looped") else own
        for name, own in against_itself.items()
    }
    assert judged(fig6, "matches-deepest", worse).value == pytest.approx(2)
    assert judged(fig6, "matches-deepest", against_least_squares).verdict == "contradicted"


def test_scaled_models_are_like_themselves_alone() -> None:
    itself, least_squares = measured(fig16, RIDGE), measured(fig16, OLS())
    for claim in ("doubled-inputs", "scaled-alike"):
        assert judged(fig16, claim, itself).verdict == "confirmed"
        assert judged(fig16, claim, least_squares).verdict == "contradicted"


def test_queries_that_tell_learners_apart_make_a_difference(against_zero: Measures) -> None:
    apart = judged(fig6, "queries-alike", against_zero)
    assert apart.value > 0.5
    assert apart.verdict == "contradicted"
    # Of an orthogonal query every linear learner that starts at zero knows nothing.
    only_orthogonal = {
        name: against_zero[name.replace("example-query", "orthogonal-query")]
        for name in against_zero
        if name.startswith("everywhere")
    }
    alike = judged(fig6, "queries-alike", only_orthogonal)
    assert alike.value < 1e-4
    assert alike.verdict == "confirmed"
