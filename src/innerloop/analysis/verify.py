"""Whether one learner is another, step by step: a circuit and the algorithm that it should run."""

from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import Any

import pandas as pd
import torch

from innerloop.core.arguments import expect_number
from innerloop.core.chunks import in_parts, rows_within_budget
from innerloop.core.errors import ConfigurationError, PromptError
from innerloop.core.expects import expect_learner, expect_prompt
from innerloop.core.iterate import trajectory
from innerloop.core.learner import Learner
from innerloop.core.overflow import overflow_allowed
from innerloop.core.prompt import Prompt

SLICE = 128
"""Prompts compared at a time: the predictions after every step of both are held at once."""

Tolerance = float | Callable[[int], float]
"""How far apart two learners may be: one number, or one per step."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StepError:
    """The worst error after a number of steps, and where it is."""

    step: int
    error: float
    """|a - b| / max(1, |b|); infinite where either is not a number."""
    tolerance: float
    prompt: int
    prefix: int
    """How many examples were seen."""

    @property
    def holds(self) -> bool:
        """Whether the error is within the tolerance."""
        return self.error <= self.tolerance


@dataclass(frozen=True, slots=True, kw_only=True)
class Verification:
    """How far a circuit is from its algorithm after every step."""

    circuit: str
    algorithm: str
    steps: tuple[StepError, ...]
    """From before the first step on."""

    @property
    def holds(self) -> bool:
        """Whether every step is within its tolerance."""
        return all(step.holds for step in self.steps)

    @property
    def worst(self) -> StepError:
        """The step with the largest error; the first of several."""
        return max(self.steps, key=lambda step: step.error)

    @property
    def failed(self) -> StepError | None:
        """The first step that is beyond its tolerance: later ones may only carry it on."""
        return next((step for step in self.steps if not step.holds), None)

    def table(self) -> pd.DataFrame:
        """One row per step: step, error, tolerance, prompt, prefix, holds."""
        return pd.DataFrame([{**asdict(step), "holds": step.holds} for step in self.steps])

    def __str__(self) -> str:
        step = self.worst if self.failed is None else self.failed
        sign, verdict = ("<=", "is") if self.failed is None else (">", "is not")
        which = "at worst" if self.failed is None else "first"
        return (
            f"{self.circuit} {verdict} {self.algorithm} over {len(self.steps) - 1} steps: {which} "
            f"{step.error:.2g} {sign} {step.tolerance:.2g} after step {step.step}, at prefix "
            f"{step.prefix} of prompt {step.prompt}"
        )


@overflow_allowed()
def verify(
    circuit: Learner[Any],
    algorithm: Learner[Any],
    prompt: Prompt,
    *,
    tolerance: Tolerance,
    steps: int | None = None,
) -> Verification:
    """Compare two learners on all prompts, prefixes and outputs, before and after every step.

    An error is |circuit - algorithm| / max(1, |algorithm|). Positions that the prompt does not
    score are left out. Without steps both take their own number, which must be the same.
    """
    for learner in (circuit, algorithm):
        expect_learner(learner)
    expect_prompt(prompt)
    if steps is None and circuit.steps != algorithm.steps:
        raise ConfigurationError(
            f"{circuit.name} takes {circuit.steps} steps and {algorithm.name} {algorithm.steps}: "
            "give both the same number, or say how many steps to compare."
        )
    if prompt.scored is not None and not bool(prompt.scored.any()):
        raise PromptError("the prompt scores no position: there is nothing to compare.")
    total = circuit.steps if steps is None else steps
    worst: list[tuple[float, int, int]] = [(-1.0, 0, 0)] * (total + 1)
    # Those that are not causal are run in parts by the loop itself.
    causal = [learner for learner in (circuit, algorithm) if learner.traits.causal]
    sizes = (rows_within_budget(learner.bytes_per_prompt(prompt)) for learner in causal)
    rows = min([SLICE, *sizes])
    for which, part in in_parts(prompt, rows):
        with torch.no_grad():
            actual, expected = (
                trajectory(learner, part, steps=total).predictions.double()
                for learner in (circuit, algorithm)
            )  # (K + 1, b, n[, q], k) each
        errors = (actual - expected).abs() / expected.abs().clamp(min=1)  # (K + 1, b, n[, q], k)
        # Two infinities have no difference that is a number, and agree in nothing.
        errors = errors.nan_to_num(nan=torch.inf, posinf=torch.inf).flatten(3).amax(dim=3)
        if part.scored is not None:
            errors = errors.masked_fill(~part.scored, -1.0)  # (K + 1, b, n)
        largest, places = errors.flatten(1).max(dim=1)  # (K + 1,), (K + 1,)
        for step, (error, place) in enumerate(zip(largest.tolist(), places.tolist(), strict=True)):
            if error > worst[step][0]:
                row, prefix = divmod(place, prompt.points)
                worst[step] = (error, which.start + row, prefix)
    compared: list[StepError] = []
    for step, (error, row, prefix) in enumerate(worst):
        allowed = tolerance(step) if callable(tolerance) else tolerance
        expect_number("tolerance", allowed)
        if not allowed >= 0:
            raise ConfigurationError(
                f"the tolerance after step {step} is {allowed}, expected a number of at least 0."
            )
        compared.append(
            StepError(step=step, error=error, tolerance=allowed, prompt=row, prefix=prefix)
        )
    return Verification(circuit=circuit.name, algorithm=algorithm.name, steps=tuple(compared))
