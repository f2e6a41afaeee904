"""Criteria, and the verdicts that intervals lead to."""

import math

import pytest
import torch

from innerloop.analysis.intervals import Estimate
from innerloop.core.errors import ConfigurationError
from innerloop.studies.claim import Claim, Criterion, Premise, control, judge

SMALL = Criterion(at_most=1.0, reason="one is the unit")


def claim(*, exact: bool = False, premise: bool = False) -> Claim:
    learned = Premise(quantity="its error", criterion=SMALL, statistic=lambda m: torch.tensor(0.0))
    return Claim(
        name="small", sentence="It is small.", quantity="its size", exact=exact, criterion=SMALL,
        statistic=lambda m: torch.tensor(0.0), premise=learned if premise else None,
    )  # fmt: skip


def measured(value: float, low: float, high: float, seeds: int = 1) -> Estimate:
    return Estimate(value=value, low=low, high=high, seeds=(value,) * seeds)


@pytest.mark.parametrize(
    ("low", "high", "verdict"),
    [
        (0.2, 0.9, "confirmed"),
        (0.2, 1.0, "confirmed"),
        (0.9, 1.1, "inconclusive"),
        (1.1, 2.0, "contradicted"),
        (math.nan, 1.0, "inconclusive"),
        (2.0, math.nan, "inconclusive"),
        (math.inf, math.inf, "contradicted"),
    ],
)
def test_an_interval_decides_only_where_it_lies_on_one_side(
    low: float, high: float, verdict: str
) -> None:
    assert Criterion(at_most=1.0, reason="").judge(low, high) == verdict


def test_a_criterion_of_two_limits_has_three_answers() -> None:
    criterion = Criterion(at_least=1.0, at_most=2.0, reason="")
    assert criterion.judge(1.0, 2.0) == "confirmed"
    assert criterion.judge(0.5, 0.9) == criterion.judge(2.1, 3.0) == "contradicted"
    assert criterion.judge(0.5, 1.5) == criterion.judge(0.5, 3.0) == "inconclusive"
    assert str(criterion) == "1 to 2"


@pytest.mark.parametrize("limits", [{}, {"at_least": 2.0, "at_most": 1.0}, {"at_least": math.nan}])
def test_a_criterion_that_decides_nothing_is_refused(limits: dict[str, float]) -> None:
    with pytest.raises(ConfigurationError, match="decides nothing"):
        Criterion(reason="", **limits)


THREE = measured(0.5, 0.4, 0.6, seeds=3)


def test_nothing_is_concluded_of_models_at_smoke_scale_but_facts_are() -> None:
    assert judge(claim(), THREE, "laptop").verdict == "confirmed"
    smoke = judge(claim(), THREE, "smoke")
    assert smoke.verdict == "exploratory"
    assert "smoke" in smoke.why
    assert judge(claim(exact=True), measured(0.5, 0.5, 0.5), "smoke").verdict == "confirmed"
    assert judge(claim(exact=True), measured(1.5, 1.5, 1.5), "smoke").verdict == "contradicted"


@pytest.mark.parametrize("seeds", [1, 2])
def test_fewer_than_three_seeds_are_exploratory_whatever_they_measure(seeds: int) -> None:
    few = judge(claim(), measured(0.5, 0.4, 0.6, seeds=seeds), "laptop")
    assert few.verdict == "exploratory"
    assert few.why.startswith(f"{seeds} seed")
    assert judge(claim(), measured(1.5, 1.4, 1.6, seeds=seeds), "laptop").verdict == "exploratory"


def test_three_seeds_decide_unless_their_interval_reaches_across() -> None:
    assert judge(claim(), THREE, "laptop").seeds == (0.5, 0.5, 0.5)
    assert judge(claim(), measured(1.5, 1.4, 1.6, seeds=3), "desk").verdict == "contradicted"
    wide = judge(claim(), measured(0.5, -2.0, 3.0, seeds=3), "laptop")
    assert (wide.verdict, wide.why) == ("inconclusive", "")


@pytest.mark.parametrize("value", [0.5, 1.5])
def test_a_premise_that_one_seed_misses_leaves_nothing_to_follow(value: float) -> None:
    estimate = measured(value, value, value, seeds=3)
    met = judge(claim(premise=True), estimate, "laptop", premises=(0.2, 0.3, 1.0))
    assert met.verdict in ("confirmed", "contradicted")
    missed = judge(claim(premise=True), estimate, "laptop", premises=(0.2, 0.3, 1.1))
    assert missed.verdict == "not at this size"
    assert "its error is 0.2, 0.3, 1.1" in missed.why
    unknown = judge(claim(premise=True), estimate, "laptop", premises=(0.2, 0.3, math.nan))
    assert unknown.verdict == "not at this size"


def test_a_null_passes_only_with_criterion_and_premise() -> None:
    plain, careful = claim(), claim(premise=True)
    assert control(plain, "ridge", THREE).passes
    assert control(careful, "ridge", THREE, (0.1, 0.2, 0.3)).passes
    assert not control(careful, "ridge", THREE, (0.1, 0.2, 1.3)).passes
    assert not control(plain, "ridge", measured(0.9, 0.7, 1.1, seeds=3)).passes


def test_a_criterion_that_a_null_passes_confirms_nothing() -> None:
    for null, verdict in ((THREE, "not at this size"), (measured(2.0, 1.9, 2.1), "confirmed")):
        controls = [control(claim(), "an untrained model", null)]
        judged = judge(claim(), THREE, "laptop", controls=controls)
        assert judged.verdict == verdict
        assert ("untrained" in judged.why) == (verdict != "confirmed")


def test_a_training_that_failed_is_shown_and_decides_against_a_verdict() -> None:
    failed = judge(claim(), measured(0.5, 0.4, 0.6, seeds=2), "laptop", failed={4: "it diverged"})
    assert failed.verdict == "not at this size"
    assert "seed 4 failed: it diverged" in failed.why


def test_what_cannot_be_measured_is_not_decided_at_this_size() -> None:
    nothing = judge(claim(), measured(math.nan, math.nan, math.nan, seeds=3), "laptop")
    assert nothing.verdict == "not at this size"
