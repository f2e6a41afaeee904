"""Bootstrap intervals of means over prompts."""

import numpy as np
import scipy.stats
import torch

from innerloop.analysis.bootstrap import bootstrap


def test_interval_agrees_with_scipy(generator: torch.Generator) -> None:
    values = torch.randn(300, 3, generator=generator, dtype=torch.float64).exp()
    ours = bootstrap(values, draws=4000, generator=generator)
    theirs = scipy.stats.bootstrap(
        (values.numpy(),), np.mean, confidence_level=0.9, n_resamples=4000, method="percentile",
        rng=np.random.default_rng(0),
    ).confidence_interval  # fmt: skip
    width = theirs.high - theirs.low
    # Two sets of 4000 draws: the ends of the intervals differ by their own sampling error, about
    # 2% of the width (standard error of a 5% quantile); five of those.
    assert np.abs(ours.low.numpy() - theirs.low).max() < 0.1 * width.max()
    assert np.abs(ours.high.numpy() - theirs.high).max() < 0.1 * width.max()
    assert torch.allclose(ours.mean, values.mean(0))


def test_interval_covers_the_mean_about_as_often_as_it_says() -> None:
    hits = 0
    for seed in range(200):
        generator = torch.Generator().manual_seed(seed)
        values = torch.randn(100, 1, generator=generator, dtype=torch.float64)
        found = bootstrap(values, draws=300, generator=generator)
        hits += bool((found.low <= 0) & (found.high >= 0))
    # Binomial(200, 0.9): four standard deviations on either side.
    assert 163 <= hits <= 197


def test_only_what_counts_is_averaged(generator: torch.Generator) -> None:
    values = torch.tensor([[1.0, 5.0], [3.0, 7.0], [100.0, 9.0]])
    counted = torch.tensor([[True, False], [True, False], [False, False]])
    found = bootstrap(values, counted=counted, generator=generator)
    assert found.mean[0] == 2.0
    assert found.median[0] == 1.0
    assert found.low[0] >= 1.0
    assert found.high[0] <= 3.0
    assert found.mean[1].isnan()


def test_infinite_errors_stay_infinite_and_in_their_column(generator: torch.Generator) -> None:
    values = torch.ones(50, 3)
    values[3, 1] = torch.inf
    values[4, 2] = torch.nan
    found = bootstrap(values, generator=generator)
    assert found.mean[0] == 1.0
    assert found.high[0] == 1.0
    assert found.mean[1].isinf()
    assert found.mean[2].isinf()
    assert found.high[1].isinf()


def test_a_learner_that_fails_on_most_prompts_has_no_good_median(
    generator: torch.Generator,
) -> None:
    values = torch.tensor([[torch.nan], [torch.nan], [torch.inf], [1.0], [1.0]])
    assert bootstrap(values, generator=generator).median.isinf()


def test_same_seed_same_interval() -> None:
    values = torch.arange(20.0)[:, None]
    one, two = (bootstrap(values, generator=torch.Generator().manual_seed(7)) for _ in range(2))
    assert torch.equal(one.low, two.low)
    assert torch.equal(one.high, two.high)
