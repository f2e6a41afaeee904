"""Averages over prompts, their bootstrap intervals, and Student's intervals across seeds."""

import math
from functools import partial

import numpy as np
import pytest
import scipy.stats
import torch

from innerloop.analysis.intervals import Averages, across_seeds, average, ends, estimate, seeded
from innerloop.analysis.measured import Measured
from innerloop.core.errors import ConfigurationError


def test_the_interval_agrees_with_scipy(generator: torch.Generator) -> None:
    values = torch.randn(300, 3, generator=generator, dtype=torch.float64).exp()
    ours = Measured(values=values, axes=("place",)).interval(draws=4000, generator=generator)
    theirs = scipy.stats.bootstrap(
        (values.numpy(),), np.mean, confidence_level=0.9, n_resamples=4000, method="percentile",
        rng=np.random.default_rng(0),
    ).confidence_interval  # fmt: skip
    width = theirs.high - theirs.low
    # Two sets of 4000 draws: the ends of the intervals differ by their own sampling error, about
    # 2% of the width (standard error of a 5% quantile); five of those.
    assert np.abs(ours.low.numpy() - theirs.low).max() < 0.1 * width.max()
    assert np.abs(ours.high.numpy() - theirs.high).max() < 0.1 * width.max()
    assert torch.allclose(ours.value, values.mean(0))


@pytest.mark.parametrize("kind", ["mean", "median"])
def test_the_interval_covers_the_average_about_as_often_as_it_says(kind: str) -> None:
    hits = 0
    for seed in range(200):
        generator = torch.Generator().manual_seed(seed)
        values = torch.randn(101, generator=generator, dtype=torch.float64)
        measured = Measured(values=values, average=kind)  # pyright: ignore[reportArgumentType]
        interval = measured.interval(draws=300, generator=generator)
        hits += bool((interval.low <= 0) & (interval.high >= 0))
    # Binomial(200, 0.9): four standard deviations on either side.
    assert 163 <= hits <= 197


def test_only_what_counts_is_averaged(generator: torch.Generator) -> None:
    values = torch.tensor([[1.0, 5.0], [3.0, 7.0], [100.0, 9.0]])
    counted = torch.tensor([[True, False], [True, False], [False, False]])
    measured = Measured(values=values, axes=("place",), counted=counted)
    interval = measured.interval(generator=generator)
    assert interval.value[0] == 2.0
    assert average(values, counted=counted, kind="median")[0] == 1.0
    assert interval.low[0] >= 1.0
    assert interval.high[0] <= 3.0
    assert interval.value[1].isnan()
    assert interval.low[1].isnan()


def test_infinite_errors_stay_infinite_and_in_their_column(generator: torch.Generator) -> None:
    values = torch.ones(50, 3)
    values[3, 1] = torch.inf
    values[4, 2] = torch.nan
    interval = Measured(values=values, axes=("place",)).interval(generator=generator)
    assert interval.value[0] == 1.0
    assert float(interval.high[0]) == pytest.approx(1.0)
    assert interval.value[1].isinf()
    assert interval.value[2].isinf()
    assert interval.high[1].isinf()


def test_a_learner_that_fails_on_most_prompts_has_no_good_median() -> None:
    values = torch.tensor([torch.nan, torch.nan, torch.inf, 1.0, 1.0])
    assert average(values, kind="median").isinf()


def test_the_same_seed_gives_the_same_interval() -> None:
    measured = Measured(values=torch.arange(20.0))
    one, two = (measured.interval(generator=seeded(7)) for _ in range(2))
    assert torch.equal(one.low, two.low)
    assert torch.equal(one.high, two.high)
    assert not torch.equal(one.low, measured.interval(generator=seeded(8)).low)


def test_the_interval_is_wider_with_more_confidence() -> None:
    measured = Measured(values=torch.arange(50.0))
    narrow, wide = (measured.interval(confidence=level) for level in (0.5, 0.95))
    assert wide.low < narrow.low < narrow.high < wide.high
    with pytest.raises(ConfigurationError, match="between 0 and 1"):
        measured.interval(confidence=1.0)


def test_comparisons_are_on_the_same_prompts(generator: torch.Generator) -> None:
    first = torch.rand(500, generator=generator, dtype=torch.float64) + 0.1  # (P,)
    measures = {"one": Measured(values=2 * first), "other": Measured(values=first)}
    found = estimate(lambda m: m["one"] / m["other"], [measures], draws=200)
    # Each prompt has twice the error: whatever prompts are drawn, it is two.
    assert (found.value, found.low, found.high) == pytest.approx((2.0, 2.0, 2.0))


def test_measures_of_other_prompts_are_drawn_apart() -> None:
    measures = {"many": Measured(values=torch.arange(9.0)), "one": Measured.exact(3.0)}
    several = Averages(measures, draws=50, generator=partial(seeded, 1))
    assert several["many"].shape == (50,)
    assert bool((several["one"] == 3.0).all())
    assert set(several) == {"many", "one"}


def test_several_measures_are_taken_by_the_beginning_of_their_names() -> None:
    numbers = {"looped, a": 1.0, "standard, a": 2.0, "looped, b": 3.0}
    measures = {name: Measured.exact(number) for name, number in numbers.items()}
    assert Averages(measures).several("looped").tolist() == [1.0, 3.0]
    assert Averages(measures, draws=4).several("looped").tolist() == [[1.0, 3.0]] * 4
    with pytest.raises(ConfigurationError, match="unknown beginning of a measure 'loped'"):
        Averages(measures).several("loped")


def test_a_number_that_no_prompt_enters_is_its_own_interval() -> None:
    found = estimate(lambda m: m["exact"], [{"exact": Measured.exact(0.25)}])
    assert (found.value, found.low, found.high) == (0.25, 0.25, 0.25)


def test_what_cannot_be_measured_is_not_a_number() -> None:
    found = estimate(lambda m: torch.tensor(math.nan), [{"any": Measured.exact(1.0)}])
    assert all(math.isnan(part) for part in (found.value, found.low, found.high))


def test_a_draw_that_is_not_a_number_makes_no_interval() -> None:
    low, high = ends(torch.tensor([1.0, 2.0, math.nan] * 30).double())
    assert low.isnan()
    assert high.isnan()
    low, high = ends(torch.tensor([1.0, 2.0, math.nan] * 30).double(), skip_nan=True)
    assert (float(low), float(high)) == (1.0, 2.0)


def test_the_interval_across_seeds_is_students() -> None:
    found = across_seeds(torch.tensor([1.0, 2.0, 3.0]))
    assert float(found.value) == 2.0
    # t of 2 degrees of freedom at 95% is 2.92, the standard error 1 / sqrt(3).
    assert float(found.high) - 2 == pytest.approx(2.9200 / math.sqrt(3), rel=1e-4)
    assert 2 - float(found.low) == pytest.approx(float(found.high) - 2)


def test_the_interval_across_three_seeds_holds_as_often_as_it_says() -> None:
    drawn = torch.from_numpy(np.random.default_rng(0).normal(5.0, 2.0, size=(3, 2000)))
    found = across_seeds(drawn)
    inside = ((found.low <= 5) & (found.high >= 5)).double().mean()
    # 90%, with a standard error of 0.7% over 2000 draws: four of them.
    assert abs(float(inside) - 0.9) < 0.028
    # A percentile bootstrap of three seeds holds far less often: why it is not taken.
    times = torch.randint(3, (400, 3), generator=seeded(0))  # (D, S)
    low, high = ends(drawn[times].mean(dim=1))  # (2000,) each
    assert float(((low <= 5) & (high >= 5)).double().mean()) < 0.8


def test_ratios_are_averaged_by_their_logarithms() -> None:
    found = across_seeds(torch.tensor([1.0, 100.0]), log=True)
    assert float(found.value) == pytest.approx(10.0)
    assert float(found.low * found.high) == pytest.approx(100.0)


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        ((math.inf, math.inf), math.inf),
        ((0.0, 0.0), 0.0),
        ((math.inf, 1.0), math.nan),
        ((0.0, 2.0), math.nan),
        ((math.nan, 2.0), math.nan),
    ],
)
def test_ratios_without_bounds_are_a_finding_only_if_all_seeds_agree(
    values: tuple[float, ...], expected: float
) -> None:
    found = across_seeds(torch.tensor(values), log=True)
    for part in (found.value, found.low, found.high):
        assert float(part) == pytest.approx(expected, nan_ok=True)
