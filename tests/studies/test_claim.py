"""Criteria, verdicts, and the intervals that they are made from."""

import math

import numpy as np
import pytest
import torch

from innerloop.core.errors import ConfigurationError
from innerloop.studies.claim import Claim, Criterion, Over, judge
from innerloop.studies.quantity import (
    Quantity,
    estimate,
    exact,
    mean,
    over_prompts,
    over_seeds,
    ratio,
)


def claim(over: Over = "prompts", *, ratio: bool = False) -> Claim:
    return Claim(
        name="small", sentence="It is small.", quantity="its size", over=over, ratio=ratio,
        criterion=Criterion(at_most=1.0, reason="one is the unit"),
    )  # fmt: skip


@pytest.mark.parametrize(
    ("low", "high", "verdict"),
    [
        (0.2, 0.9, "confirmed"),
        (0.2, 1.0, "confirmed"),
        (0.9, 1.1, "inconclusive"),
        (1.1, 2.0, "not confirmed"),
        (math.nan, 1.0, "inconclusive"),
        (math.inf, math.inf, "not confirmed"),
    ],
)
def test_an_interval_decides_only_where_it_lies_on_one_side(
    low: float, high: float, verdict: str
) -> None:
    assert Criterion(at_most=1.0, reason="").judge(low, high) == verdict


def test_a_criterion_of_two_limits_has_three_answers() -> None:
    criterion = Criterion(at_least=1.0, at_most=2.0, reason="")
    assert criterion.judge(1.0, 2.0) == "confirmed"
    assert criterion.judge(0.5, 0.9) == criterion.judge(2.1, 3.0) == "not confirmed"
    assert criterion.judge(0.5, 1.5) == criterion.judge(0.5, 3.0) == "inconclusive"
    assert str(criterion) == "1 to 2"


@pytest.mark.parametrize("limits", [{}, {"at_least": 2.0, "at_most": 1.0}, {"at_least": math.nan}])
def test_a_criterion_that_decides_nothing_is_refused(limits: dict[str, float]) -> None:
    with pytest.raises(ConfigurationError, match="decides nothing"):
        Criterion(reason="", **limits)


def test_nothing_is_concluded_of_models_at_smoke_scale_but_facts_are() -> None:
    found = [Quantity(0.5, 0.4, 0.6)]
    assert judge(claim(), found, "laptop").verdict == "confirmed"
    assert judge(claim(), found, "smoke").verdict == "inconclusive"
    assert judge(claim("exact"), [exact(0.5)], "smoke").verdict == "confirmed"
    assert judge(claim("exact"), [exact(1.5)], "smoke").verdict == "not confirmed"


def test_one_seed_decides_nothing_over_seeds_and_several_do() -> None:
    one = judge(claim("seeds"), [Quantity(0.5, 0.4, 0.6)], "laptop")
    assert one.verdict == "inconclusive"
    assert "one seed" in one.why
    three = [Quantity(value, value, value) for value in (0.5, 0.52, 0.48)]
    assert judge(claim("seeds"), three, "laptop").verdict == "confirmed"
    # As far apart as these, the next run may be anywhere.
    wide = [Quantity(value, value, value) for value in (0.1, 0.9)]
    assert judge(claim("seeds"), wide, "laptop").verdict == "inconclusive"


def test_the_interval_over_seeds_is_students() -> None:
    value, low, high = over_seeds([1.0, 2.0, 3.0])
    assert value == 2.0
    # t of 2 degrees of freedom at 95% is 2.92, the standard error 1 / sqrt(3).
    assert high - value == pytest.approx(2.9200 / math.sqrt(3), rel=1e-4)
    assert value - low == pytest.approx(high - value)


def test_the_interval_over_seeds_holds_as_often_as_it_says() -> None:
    drawn = np.random.default_rng(0).normal(5.0, 2.0, size=(2000, 4))
    inside = [low <= 5.0 <= high for _, low, high in (over_seeds(list(row)) for row in drawn)]
    # 90%, with a standard error of 0.7% over 2000 draws: four of them.
    assert abs(float(np.mean(inside)) - 0.9) < 0.028


def test_ratios_are_averaged_by_their_logarithms() -> None:
    value, low, high = over_seeds([1.0, 100.0], ratio=True)
    assert value == pytest.approx(10.0)
    assert low * high == pytest.approx(100.0)


def test_infinite_ratios_are_a_finding_only_if_all_are() -> None:
    assert over_seeds([math.inf, math.inf], ratio=True) == (math.inf,) * 3
    assert all(math.isnan(part) for part in over_seeds([math.inf, 1.0], ratio=True))


@pytest.mark.parametrize(
    ("values", "limits", "verdict"),
    [
        ((math.inf, math.inf), {"at_least": 10.0}, "confirmed"),
        ((math.inf, 2.0), {"at_least": 10.0}, "inconclusive"),
        ((math.nan, 2.0), {"at_least": 10.0}, "inconclusive"),
        ((math.nan, math.nan), {"at_most": 1.1}, "inconclusive"),
        ((0.0, 0.0), {"at_most": 1.1}, "confirmed"),
        ((0.0, 2.0), {"at_most": 1.1}, "inconclusive"),
    ],
)
@pytest.mark.parametrize("over", ["prompts", "seeds"])
def test_numbers_without_bounds_decide_only_if_all_seeds_agree(
    values: tuple[float, ...], limits: dict[str, float], verdict: str, over: Over
) -> None:
    claim = Claim(
        name="a", sentence="", quantity="", over=over, ratio=True,
        criterion=Criterion(reason="", **limits),
    )  # fmt: skip
    measured = [Quantity(value, value, value) for value in values]
    assert judge(claim, measured, "laptop").verdict == verdict


def test_more_seeds_make_the_interval_over_prompts_narrower() -> None:
    several = [Quantity(1.0, 0.8, 1.3)] * 4
    value, low, high = over_prompts(several)
    assert (value, low, high) == pytest.approx((1.0, 0.9, 1.15))
    assert over_prompts(several[:1]) == (1.0, 0.8, 1.3)


def test_a_ratio_is_of_the_means_on_the_same_prompts(generator: torch.Generator) -> None:
    first = torch.rand(500, generator=generator, dtype=torch.float64) + 0.1  # (P,)
    found = ratio(2 * first, first, draws=200, generator=generator)
    # Each prompt has twice the error: whatever prompts are drawn, it is two.
    assert (found.value, found.low, found.high) == pytest.approx((2.0, 2.0, 2.0))


def test_the_interval_of_a_mean_is_that_of_its_error(generator: torch.Generator) -> None:
    values = torch.randn(4000, generator=generator, dtype=torch.float64)  # (P,)
    found = mean(values, draws=2000, generator=generator)
    half = 1.645 * float(values.std()) / math.sqrt(4000)
    assert found.high - found.value == pytest.approx(half, rel=0.1)
    assert found.value - found.low == pytest.approx(half, rel=0.1)


def test_an_infinite_error_makes_an_infinite_quantity(generator: torch.Generator) -> None:
    values = torch.tensor([1.0, math.inf])  # (P,)
    found = mean(values, draws=50, generator=generator)
    assert found.value == math.inf
    assert found.high == math.inf


def test_any_function_of_means_has_an_interval(generator: torch.Generator) -> None:
    values = torch.rand(300, 2, generator=generator)  # (P, 2)
    found = estimate(
        lambda means: means[..., 0] - means[..., 1], values, draws=200, generator=generator
    )
    assert found.value == pytest.approx(float((values[:, 0] - values[:, 1]).mean()), abs=1e-6)
    assert found.low < found.value < found.high
