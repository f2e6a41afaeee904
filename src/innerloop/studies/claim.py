"""A claim of a paper: what is measured, the criterion that stands before the run, the verdict."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from innerloop.core.errors import ConfigurationError
from innerloop.studies.quantity import Quantity, over_prompts, over_seeds
from innerloop.training.families import Scale

Verdict = Literal["confirmed", "not confirmed", "inconclusive"]

Over = Literal["exact", "prompts", "seeds"]
"""What a claim speaks of.

exact: a fact of mathematics, for which nothing is trained, such as the worst error of a circuit;
where it rests on random draws it has their interval. prompts: the models that were trained here, on
any prompts. seeds: a way of training, whatever its seed.
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Criterion:
    """The numbers between which a quantity must lie, and why just these."""

    reason: str
    at_least: float = -math.inf
    at_most: float = math.inf

    def __post_init__(self) -> None:
        """A criterion that everything or nothing meets decides nothing."""
        open_ended = math.isinf(self.at_least) and math.isinf(self.at_most)
        if open_ended or not self.at_least <= self.at_most:
            raise ConfigurationError(
                f"a criterion from {self.at_least} to {self.at_most} decides nothing: give one "
                "limit, or two in order."
            )

    def judge(self, low: float, high: float) -> Verdict:
        """Confirmed if the whole interval meets it, not confirmed if none of it does."""
        if math.isnan(low) or math.isnan(high):
            return "inconclusive"
        if self.at_least <= low and high <= self.at_most:
            return "confirmed"
        if high < self.at_least or low > self.at_most:
            return "not confirmed"
        return "inconclusive"

    def __str__(self) -> str:
        """The limits: `at most 1.1`."""
        if math.isinf(self.at_least):
            return f"at most {self.at_most:g}"
        if math.isinf(self.at_most):
            return f"at least {self.at_least:g}"
        return f"{self.at_least:g} to {self.at_most:g}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Claim:
    """One sentence of a paper that a study decides."""

    name: str
    """A word or two, joined by dashes, by which the study's findings call it."""
    sentence: str
    """What the paper says, in our words."""
    quantity: str
    """What is measured: the number that the criterion is about."""
    criterion: Criterion
    over: Over
    ratio: bool = False
    """Whether it is a ratio, or another positive number that is averaged by its logarithm."""
    paper: str = ""
    """The number that the paper gives, where it gives one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Judged:
    """A claim with what was measured."""

    claim: Claim
    value: float
    low: float
    high: float
    seeds: tuple[float, ...]
    """What each seed came to."""
    verdict: Verdict
    why: str = ""
    """Why nothing can be concluded, where that is not the interval's doing."""


def judge(claim: Claim, measured: Sequence[Quantity], scale: Scale) -> Judged:
    """The verdict on a claim, from what each seed came to.

    At smoke scale models are hardly trained and prompts are few, and nothing is concluded of them.
    A claim over seeds needs at least two of them: one run says nothing of the next.
    """
    values = tuple(quantity.value for quantity in measured)
    if claim.over == "exact":
        (whole,) = measured
        interval = (whole.value, whole.low, whole.high)
    elif claim.over == "prompts" or len(measured) == 1:
        interval = over_prompts(measured, ratio=claim.ratio)
    else:
        interval = over_seeds(values, ratio=claim.ratio)
    value, low, high = interval
    why = ""
    if claim.over != "exact" and scale == "smoke":
        why = "nothing is concluded at smoke scale"
    elif claim.over == "seeds" and len(measured) == 1:
        why = "one seed: an interval over seeds is needed"
    verdict: Verdict = "inconclusive" if why else claim.criterion.judge(low, high)
    return Judged(
        claim=claim, value=value, low=low, high=high, seeds=values, verdict=verdict, why=why
    )
