"""A claim of a paper: a statistic, the criterion that stands before the run, the verdict.

A verdict says what follows from what was measured:

- confirmed: the whole interval meets the criterion;
- contradicted: none of it does, and the premise holds;
- inconclusive: the interval reaches across the criterion;
- exploratory: fewer than three trainings of every model, so that nothing can follow;
- not at this size: nothing follows, as the models have not learned what the claim is about (its
  premise), a training failed, or a learner that should fail meets the criterion as well.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from typing import Any, Literal

from innerloop.analysis.intervals import Estimate, Statistic
from innerloop.core.errors import ConfigurationError
from innerloop.training.families import Scale

Verdict = Literal["confirmed", "contradicted", "inconclusive", "exploratory", "not at this size"]
Answer = Literal["confirmed", "contradicted", "inconclusive"]
FEWEST_SEEDS = 3
"""A claim about trained models is one about trainings: two of them have no interval to speak of."""


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

    def judge(self, low: float, high: float) -> Answer:
        """Confirmed if the whole interval meets it, contradicted if none of it does."""
        if math.isnan(low) or math.isnan(high):
            return "inconclusive"
        if self.meets(low) and self.meets(high):
            return "confirmed"
        if high < self.at_least or low > self.at_most:
            return "contradicted"
        return "inconclusive"

    def meets(self, value: float) -> bool:
        """Whether a number lies between the limits; NaN does not."""
        return self.at_least <= value <= self.at_most

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
class Condition:
    """What must be so in every seed for a claim to mean anything: a quantity and its limits."""

    quantity: str
    criterion: Criterion


@dataclass(frozen=True, slots=True, kw_only=True)
class Premise(Condition):
    """A condition with the statistic that turns a study's measures into its quantity.

    The models that a claim compares have learned the task, say: an error in distribution, with the
    reason why this much is enough.
    """

    statistic: Statistic

    @property
    def condition(self) -> Condition:
        """All of it but the code."""
        return Condition(quantity=self.quantity, criterion=self.criterion)


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
    exact: bool = False
    """Whether it is a fact of mathematics, for which nothing is trained, such as the worst error of
    a circuit; where it rests on random draws it has their interval."""
    ratio: bool = False
    """Whether it is a ratio, or another positive number that is averaged by its logarithm."""
    paper: str = ""
    """The number that the paper gives, where it gives one."""
    premise: Condition | None = None
    excludes: tuple[str, ...] = ()
    """The study's nulls that must not meet premise and criterion: learners of which the sentence is
    not true."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Claim(Statement):
    """A statement with the statistic that turns a study's measures into its quantity."""

    statistic: Statistic
    premise: Premise | None = None

    @property
    def statement(self) -> Statement:
        """All of it but the code: what is written to a file."""
        values: dict[str, Any] = {part.name: getattr(self, part.name) for part in fields(Statement)}
        if self.premise is not None:
            values["premise"] = self.premise.condition
        return Statement(**values)


@dataclass(frozen=True, slots=True, kw_only=True)
class Control(Estimate):
    """A claim's quantity measured on learners of which the sentence is not true."""

    null: str
    premises: tuple[float, ...] = ()
    """The premise's quantity in each seed."""
    passes: bool
    """Whether they meet premise and criterion: then the criterion says nothing."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Judged(Estimate):
    """A statement with what was measured."""

    claim: Statement
    verdict: Verdict
    why: str = ""
    """Why nothing can be concluded, where that is not the interval's doing."""
    premises: tuple[float, ...] = ()
    """The premise's quantity in each seed."""
    controls: tuple[Control, ...] = ()


def control(
    claim: Statement, null: str, estimate: Estimate, premises: Sequence[float] = ()
) -> Control:
    """A null measured, and whether it passes: as if it were the claim's own models."""
    met = claim.premise is None or all(map(claim.premise.criterion.meets, premises))
    passes = met and claim.criterion.judge(estimate.low, estimate.high) == "confirmed"
    return Control(null=null, premises=tuple(premises), passes=passes, **asdict(estimate))


def judge(
    claim: Statement,
    estimate: Estimate,
    scale: Scale,
    *,
    premises: Sequence[float] = (),
    controls: Sequence[Control] = (),
    failed: Mapping[int, str] | None = None,
) -> Judged:
    """The verdict on a claim, from its quantity and interval, its premise and its controls.

    `premises` are the premise's quantity in each seed; `failed` has the seeds whose training
    failed, with the reason.
    """
    verdict: Verdict = claim.criterion.judge(estimate.low, estimate.high)
    why = ""
    if not claim.exact:
        if math.isnan(estimate.value) and not any(map(math.isfinite, estimate.seeds)):
            verdict, why = "not at this size", "it cannot be measured at this size"
        elif scale == "smoke":
            verdict, why = "exploratory", "models are hardly trained at smoke scale"
        elif len(estimate.seeds) + len(failed or ()) < FEWEST_SEEDS:
            verdict = "exploratory"
            why = f"{_seeds(len(estimate.seeds))}, and {FEWEST_SEEDS} are needed"
        elif nothing := _nothing_follows(claim, premises, controls, failed or {}):
            verdict, why = "not at this size", nothing
    return Judged(
        claim=claim, verdict=verdict, why=why, premises=tuple(premises), controls=tuple(controls),
        **asdict(estimate),
    )  # fmt: skip


def _nothing_follows(
    claim: Statement,
    premises: Sequence[float],
    controls: Sequence[Control],
    failed: Mapping[int, str],
) -> str:
    """Why nothing follows from what was measured, whatever it is; empty if something does."""
    if failed:
        return "; ".join(
            f"the training of seed {seed} failed: {why}" for seed, why in failed.items()
        )
    if claim.premise is not None and not all(map(claim.premise.criterion.meets, premises)):
        condition = claim.premise
        values = ", ".join(f"{value:.3g}" for value in premises)
        return (
            f"its premise is not met: {condition.quantity} is {values}, not {condition.criterion}"
        )
    passing = [each.null for each in controls if each.passes]
    return f"the criterion is met as well by: {', '.join(passing)}" if passing else ""


def _seeds(number: int) -> str:
    return "1 seed" if number == 1 else f"{number} seeds"
