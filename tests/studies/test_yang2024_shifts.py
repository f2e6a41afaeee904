"""What figures 6 and 16 of Yang et al. (2024) measure, with learners whose answers are known."""

import math
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from innerloop.analysis import estimate
from innerloop.core.learner import Learner
from innerloop.learners import OLS, Averaging, GradientDescent, Ridge
from innerloop.studies.claim import Control, control
from innerloop.studies.lab import Lab
from innerloop.studies.study import Measures, Study, premises
from innerloop.studies.yang2024.shifts import fig6, fig16
from innerloop.training.run import Run

DIMS, POINTS = 5, 11
"""Those of the scale laptop."""
ZERO, RIDGE, SMALL = GradientDescent(0), Ridge(1.0), Ridge(0.05)
Learners = Mapping[str, Learner[Any]]


def lab_of(study: Study, learners: Callable[[str], Learner[Any]], number: int = 256) -> Lab:
    """A lab at laptop scale with few prompts, whose models are learners by their labels."""

    class Few(Lab):
        @property
        def prompts(self) -> int:
            """So that a test takes seconds."""
            return number

    configs = study.runs("laptop")
    return Few(
        study=study.name,
        scale="laptop",
        runs={label: Run(Path("none"), config) for label, config in configs.items()},
        learners={label: learners(label) for label in configs},
    )


def measured(study: Study, standard: Learner[Any], loops: Learner[Any] = RIDGE) -> Measures:
    """What a study measures with one learner for its loops, and another for its stacks."""
    return study.measure(lab_of(study, lambda label: loops if "looped" in label else standard))


def judged(study: Study, name: str, measures: Measures) -> Control:
    (claim,) = [each for each in study.claims if each.name == name]
    # Two seeds that agree: of one, nothing is concluded about a way of training.
    number = estimate(claim.statistic, [measures, measures], log=claim.ratio, draws=2)
    return control(claim.statement, "", number, premises(claim, [measures]))


@pytest.fixture(scope="module", name="against_zero")
def _against_zero() -> Measures:
    return measured(fig6, ZERO)


@pytest.fixture(scope="module", name="against_least_squares")
def _against_least_squares() -> Measures:
    return measured(fig6, OLS())


@pytest.fixture(scope="module", name="against_itself")
def _against_itself() -> Measures:
    return measured(fig6, SMALL, SMALL)


def test_shifts_that_allow_fewer_points_have_fewer(against_zero: Measures) -> None:
    assert against_zero["orthogonal-query: standard L = 8"].values.shape == (256, DIMS)
    assert against_zero["skewed-covariance: standard L = 8"].values.shape == (256, POINTS)


def test_a_small_penalty_lowers_the_peak_of_double_descent(
    against_least_squares: Measures, against_itself: Measures, against_zero: Measures
) -> None:
    lower = measured(fig6, Ridge(1e-3), SMALL)
    assert judged(fig6, "lower-peak", lower).value < 1
    # Not by being further from least squares: without noise its error after d examples is larger.
    plain, noisy = (
        float(
            lower[f"at d, {shift}, looped b = 20"].values.mean()
            / lower[f"at d, {shift}, full"].values.mean()
        )
        for shift in ("in-distribution", "noisy-outputs")
    )
    assert noisy < 1 < plain
    assert judged(fig6, "lower-peak", lower).value == pytest.approx(noisy * plain)
    # Against itself it is no lower; zero is above the noise by just the task's scale.
    same = judged(fig6, "lower-peak", against_itself)
    assert same.value == pytest.approx(1)
    assert not same.passes
    noise = against_zero["noisy-outputs: standard L = 8"].values  # (P, n)
    above = against_zero["at d, noisy-outputs, full"].values  # (P,)
    assert above.tolist() == pytest.approx((noise[:, DIMS] - 1 / DIMS).tolist())
    assert judged(fig6, "lower-peak", against_least_squares).premises[0] > 1


def test_errors_below_the_noise_have_no_ratio(against_itself: Measures) -> None:
    below = {
        name: replace(own, values=own.values - 100) if name.startswith("at d, noisy") else own
        for name, own in against_itself.items()
    }
    unknown = judged(fig6, "lower-peak", below)
    assert math.isnan(unknown.value)
    assert not unknown.passes


@pytest.mark.parametrize(
    ("claim", "shift", "factor", "wanted"),
    [("skewed-better", "skewed-covariance", 0.5, 0.5), ("scaled-worse", "scaled-inputs 3", 2, 2)],
)
def test_a_difference_that_is_there_in_distribution_too_does_not_count(
    against_itself: Measures, claim: str, shift: str, factor: float, wanted: float
) -> None:
    def changed(*shifts: str) -> Control:
        names = tuple(f"from d on, {each}, looped" for each in shifts)
        measures = {
            name: own / (1 / factor) if name.startswith(names) else own
            for name, own in against_itself.items()
        }
        return judged(fig6, claim, measures)

    alone = changed(shift)
    assert alone.value == pytest.approx(wanted)
    assert alone.passes
    both = changed(shift, "in-distribution")
    assert both.value == pytest.approx(1)
    assert both.premises[0] > 1
    assert not both.passes


def test_looped_models_are_compared_from_d_examples_on() -> None:
    against_averaging = measured(fig6, Averaging())
    loop, stack = (
        float(against_averaging[f"skewed-covariance: {label}"].values[:, DIMS:].mean())
        for label in ("looped b = 20", "standard L = 8")
    )
    loops, full = (
        float(against_averaging[f"from d on, skewed-covariance, {name}"].values.mean())
        for name in ("looped b = 20", "full")
    )
    assert (loops, full) == pytest.approx((loop, stack))


def test_subspaces_and_orthants_are_judged_by_the_worst(
    against_least_squares: Measures, against_itself: Measures
) -> None:
    same = judged(fig6, "matches-deepest", against_itself)
    assert same.value == pytest.approx(1)
    assert same.passes
    worse = {
        name: own / 0.5 if name.startswith("from d on, random-orthant, looped") else own
        for name, own in against_itself.items()
    }
    assert judged(fig6, "matches-deepest", worse).value == pytest.approx(2)
    assert not judged(fig6, "matches-deepest", against_least_squares).passes


def test_queries_that_tell_learners_apart_make_a_difference(
    against_zero: Measures, against_itself: Measures
) -> None:
    assert judged(fig6, "queries-alike", against_itself).passes
    assert judged(fig6, "queries-alike", against_zero).value > 1.25
    # Of an orthogonal query every linear learner that starts at zero knows nothing.
    only_orthogonal = {
        name: against_zero[name.replace("example-query", "orthogonal-query")]
        for name in against_zero
        if name.startswith("with examples")
    } | {name: own for name, own in against_itself.items() if "in-distribution" in name}
    alike = judged(fig6, "queries-alike", only_orthogonal)
    assert alike.value == pytest.approx(1, abs=1e-3)
    assert alike.passes


def test_scaled_models_are_like_themselves_alone() -> None:
    def stacks(label: str) -> Learner[Any]:
        """Loops as good as eight layers, that are ridge regression as four layers are."""
        return SMALL if "looped" in label or label.endswith("8") else Ridge(0.06)

    same = fig16.measure(lab_of(fig16, stacks))
    assert judged(fig16, "doubled-inputs", same).passes
    # Loops that equal the full stack are like it, and not like a shallower one.
    assert judged(fig16, "scaled-alike", same).value == 0
    like_shallow = {
        name: same[f"{name.split(', looped')[0]}, fewer"] if ", looped" in name else own
        for name, own in same.items()
    }
    shallow = judged(fig16, "scaled-alike", like_shallow)
    assert shallow.value == 1
    assert shallow.passes


@pytest.mark.parametrize("study", [fig6, fig16])
def test_nulls_fail_where_the_stacks_are_good(study: Study) -> None:
    """Stacks of growing depth are descents of more steps; the full one is as good as the loops."""
    steps = {"standard L = 2": 3, "standard L = 4": 12, "standard L = 8": 200}
    own = lab_of(study, lambda label: GradientDescent(steps.get(label, 210)), 64)
    others: Learners = {"standard L = 8": GradientDescent(190)}
    own.of_another_seed = others.__getitem__  # pyright: ignore[reportAttributeAccessIssue]
    good = study.measure(own)
    wanted = {null for claim in study.claims for null in claim.excludes}
    for null in wanted:
        learners = {label: own.learner(label) for label in own.labels} | dict(
            study.nulls[null](own)
        )
        measures = study.measure(lab_of(study, learners.__getitem__, 64))
        for claim in study.claims:
            # The descent does as it should, so that it is the null that fails.
            assert judged(study, claim.name, good).premises[0] <= 1
            if null in claim.excludes:
                assert not judged(study, claim.name, measures).passes, (claim.name, null)
