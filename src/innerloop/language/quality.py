"""How good translations are: BLEU and chrF by `sacrebleu`, with intervals over sentences.

All systems are resampled alike (a paired bootstrap), so that differences have intervals too.
Shapes: N sentences, R resamples, F statistics of a sentence.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

import torch
from torch import Tensor

from innerloop.core.arguments import expect_generator
from innerloop.core.errors import ConfigurationError
from innerloop.core.extras import import_extra

Score = Literal["BLEU", "chrF"]
RESAMPLES = 1000
LEVEL = 0.9


@dataclass(frozen=True, slots=True)
class Interval:
    """A number, and where 90% of its resamples are."""

    value: float
    low: float
    high: float


@dataclass(frozen=True, slots=True, eq=False)
class Resampled:
    """A score of all sentences, and of each resample of them."""

    value: float
    draws: Tensor
    """(R,)."""

    @property
    def interval(self) -> Interval:
        """With 90% of the resamples."""
        outside = (1 - LEVEL) / 2
        ends = torch.tensor([outside, 1 - outside], dtype=self.draws.dtype)
        low, high = self.draws.quantile(ends).tolist()
        return Interval(self.value, low, high)

    def minus(self, other: "Resampled") -> "Resampled":
        """The difference of two systems, resample by resample."""
        return Resampled(self.value - other.value, self.draws - other.draws)


def resample_counts(
    sentences: int, *, generator: torch.Generator, resamples: int = RESAMPLES
) -> Tensor:
    """How often each sentence comes in each resample: (R, N)."""
    expect_generator(generator)
    if not sentences:
        raise ConfigurationError("there is no sentence to score: give at least one.")
    drawn = torch.randint(sentences, (resamples, sentences), generator=generator)  # (R, N)
    times = torch.zeros(resamples, sentences, dtype=torch.float64)  # (R, N)
    return times.scatter_add_(1, drawn, torch.ones_like(times))


def corpus_scores(
    translations: Sequence[str], references: Sequence[str], score: Score, times: Tensor
) -> Resampled:
    """The score of translations, from 0 to 100, and that of each resample (R, N) of them."""
    if len(translations) != len(references):
        raise ConfigurationError(
            f"there are {len(translations)} translations of {len(references)} sentences: give one "
            "per sentence."
        )
    metric = _metric(score)
    # The sums that a score is made of, sentence by sentence: the library keeps them to itself.
    rows = metric._extract_corpus_statistics(list(translations), [list(references)])
    statistics = torch.tensor(rows, dtype=torch.float64)  # (N, F)
    draws = [_score(metric, sums) for sums in times @ statistics]  # (R, F), row by row
    return Resampled(_score(metric, statistics.sum(0)), torch.tensor(draws, dtype=torch.float64))


def _score(metric: Any, sums: Tensor) -> float:
    return float(metric._compute_score_from_stats([round(value) for value in sums.tolist()]).score)


def _metric(score: Score) -> Any:
    library = import_extra("sacrebleu", "text", "the quality of translations")
    return library.BLEU() if score == "BLEU" else library.CHRF()
