"""A claim of a paper: a statistic, the criterion that stands before the run, the verdict."""

import math
from dataclasses import asdict, dataclass, fields
from typing import Literal

from innerloop.analysis.intervals import Estimate, Statistic
from innerloop.core.errors import ConfigurationError
from innerloop.training.families import Scale

Verdict = Literal["confirmed", "not confirmed", "inconclusive"]

Over = Literal["exact", "prompts", "seeds"]
"""What a claim is about.

exact: a fact of mathematics, for which nothing is trained, such as the worst error of a circuit;
where it rests on random draws it has their interval. prompts: the models that were trained here, on
any prompts. seeds: a way of training, whatever its seed.
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Criterion:
    """The numbers between which a quantity must lie, and why just these."""

    at_least: float = -math.inf
    at_most: float = math.inf
    reason: str

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


def at_most(limit: float, reason: str) -> Criterion:
    """The quantity is this number or less."""
    return Criterion(at_most=limit, reason=reason)


def at_least(limit: float, reason: str) -> Criterion:
    """The quantity is this number or more."""
    return Criterion(at_least=limit, reason=reason)


def between(low: float, high: float, reason: str) -> Criterion:
    """The quantity lies between these numbers."""
    return Criterion(at_least=low, at_most=high, reason=reason)


@dataclass(frozen=True, slots=True, kw_only=True)
class Statement:
    """One sentence of a paper, the number that decides it, and its criterion: all but code."""

    name: str
    """A word or two, joined by dashes."""
    sentence: str
    """What the paper says, in our words."""
    quantity: str
    """What is measured: the number that the criterion is about."""
    criterion: Criterion
    over: Over = "prompts"
    ratio: bool = False
    """Whether it is a ratio, or another positive number that is averaged by its logarithm."""
    paper: str = ""
    """The number that the paper gives, where it gives one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Claim(Statement):
    """A statement with the statistic that turns a study's measures into its quantity."""

    statistic: Statistic

    @property
    def statement(self) -> Statement:
        """All of it but the code: what is written to a file."""
        return Statement(**{part.name: getattr(self, part.name) for part in fields(Statement)})


@dataclass(frozen=True, slots=True, kw_only=True)
class Judged(Estimate):
    """A statement with what was measured."""

    claim: Statement
    verdict: Verdict
    why: str = ""
    """Why nothing can be concluded, where that is not the interval's doing."""


def judge(claim: Claim, estimate: Estimate, scale: Scale) -> Judged:
    """The verdict on a claim, from its quantity and interval.

    At smoke scale models are hardly trained and prompts are few, and nothing is concluded of them.
    A claim over seeds needs at least two of them: one run says nothing of the next.
    """
    why = ""
    if claim.over != "exact" and scale == "smoke":
        why = "nothing is concluded at smoke scale"
    elif claim.over == "seeds" and len(estimate.seeds) == 1:
        why = "one seed: an interval over seeds is needed"
    verdict = "inconclusive" if why else claim.criterion.judge(estimate.low, estimate.high)
    return Judged(claim=claim.statement, verdict=verdict, why=why, **asdict(estimate))
