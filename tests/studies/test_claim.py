"""Criteria, and the verdicts that intervals lead to."""

import math

import pytest
import torch

from innerloop.analysis.intervals import Estimate
from innerloop.core.errors import ConfigurationError
from innerloop.studies.claim import Claim, Criterion, Over, judge


def claim(over: Over = "prompts") -> Claim:
    return Claim(
        name="small", sentence="It is small.", quantity="its size", over=over,
        statistic=lambda m: torch.tensor(0.0),
        criterion=Criterion(at_most=1.0, reason="one is the unit"),
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


def test_nothing_is_concluded_of_models_at_smoke_scale_but_facts_are() -> None:
    found = measured(0.5, 0.4, 0.6)
    assert judge(claim(), found, "laptop").verdict == "confirmed"
    smoke = judge(claim(), found, "smoke")
    assert smoke.verdict == "inconclusive"
    assert "smoke" in smoke.why
    assert judge(claim("exact"), measured(0.5, 0.5, 0.5), "smoke").verdict == "confirmed"
    assert judge(claim("exact"), measured(1.5, 1.5, 1.5), "smoke").verdict == "contradicted"


def test_one_seed_decides_nothing_over_seeds_and_several_do() -> None:
    one = judge(claim("seeds"), measured(0.5, 0.4, 0.6), "laptop")
    assert one.verdict == "inconclusive"
    assert "one seed" in one.why
    three = judge(claim("seeds"), measured(0.5, 0.4, 0.6, seeds=3), "laptop")
    assert three.verdict == "confirmed"
    assert three.seeds == (0.5, 0.5, 0.5)
    # As far apart as these, the next run may be anywhere.
    wide = judge(claim("seeds"), measured(0.5, -2.0, 3.0, seeds=2), "laptop")
    assert wide.verdict == "inconclusive"
    assert wide.why == ""
