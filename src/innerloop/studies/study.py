"""A study: a figure, table or theorem as one function, and what it declares beforehand."""

import hashlib
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

import pandas as pd
from matplotlib.figure import Figure

from innerloop.core.errors import ConfigurationError
from innerloop.studies.claim import Claim, Judged, judge
from innerloop.studies.code import code_of
from innerloop.studies.lab import Lab
from innerloop.studies.quantity import Quantity
from innerloop.training.config import RunConfig
from innerloop.training.families import Scale

Tables = Mapping[str, pd.DataFrame]
"""The numbers of a study by name, each written to a CSV; figures are drawn of nothing else."""


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class Findings:
    """What a study's function returns."""

    tables: Tables
    measured: Mapping[str, Quantity | Sequence[Quantity]]
    """What was measured for each claim, by its name: one quantity a seed, one where it is exact."""
    notes: tuple[str, ...] = ()
    """Sentences that a reader should know: what was left out, what was surprising."""


def no_runs(scale: Scale) -> Mapping[str, RunConfig]:
    """Studies that train nothing."""
    return {}


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class Study:
    """One row of the papers' claims: `innerloop reproduce PAPER/ID`."""

    paper: str
    id: str
    """The figure, table or theorem, in the paper's count: fig2, thm4.1."""
    also: tuple[str, ...] = ()
    """Other figures of the paper that it covers; they find it too."""
    title: str
    claims: tuple[Claim, ...]
    """Each with its criterion, before the run."""
    measure: Callable[[Lab], Findings]
    draw: Callable[[Tables], Figure]
    """From the tables alone."""
    runs: Callable[[Scale], Mapping[str, RunConfig]] = no_runs
    """The models that it needs at a scale, by a label of its own; other seeds follow from these."""
    minutes: Mapping[Scale, float]
    """What it takes with its runs, about: smoke and laptop on two cores, paper on a GPU."""
    smaller: Mapping[Scale, str] = field(default_factory=dict)
    """What is smaller than in the paper, or left out, in a sentence; the paper's scale has none."""

    @property
    def name(self) -> str:
        """`PAPER/ID`."""
        return f"{self.paper}/{self.id}"

    def judge(self, findings: Findings, scale: Scale, seeds: int) -> tuple[Judged, ...]:
        """Every claim with its verdict; one that was not measured for every seed is a mistake."""
        names = {claim.name for claim in self.claims}
        if set(findings.measured) != names:
            raise ConfigurationError(
                f"{self.name} declares the claims {sorted(names)}, but has measured "
                f"{sorted(findings.measured)}: make them the same."
            )
        judged: list[Judged] = []
        for claim in self.claims:
            found = findings.measured[claim.name]
            several = [found] if isinstance(found, Quantity) else list(found)
            expected = 1 if claim.over == "exact" else seeds
            if len(several) != expected:
                raise ConfigurationError(
                    f"{self.name} has measured {len(several)} numbers for the claim {claim.name}, "
                    f"expected {expected}: one a seed, or one where it is exact."
                )
            judged.append(judge(claim, several, scale))
        return tuple(judged)

    def seeded_runs(self, scale: Scale, seeds: int) -> dict[tuple[str, int], RunConfig]:
        """The runs by label and seed."""
        return {
            (label, seed): config.model_copy(update={"seed": seed})
            for label, config in self.runs(scale).items()
            for seed in range(seeds)
        }

    def fingerprint(self, scale: Scale, seeds: int) -> str:
        """The same for the same results: code, claims and runs, at a scale, with so many seeds."""
        runs = self.seeded_runs(scale, seeds)
        told = {
            "code": code_of(self.measure),
            "claims": [repr(claim) for claim in self.claims],
            "runs": sorted(f"{label}/{config.key()}" for (label, _), config in runs.items()),
            "scale": scale,
            "seeds": seeds,
        }
        return hashlib.sha256(json.dumps(told, sort_keys=True).encode()).hexdigest()[:16]


def declare(
    *,
    paper: str,
    id: str,
    also: tuple[str, ...] = (),
    title: str,
    claims: tuple[Claim, ...],
    draw: Callable[[Tables], Figure],
    runs: Callable[[Scale], Mapping[str, RunConfig]] = no_runs,
    minutes: Mapping[Scale, float],
    smaller: Mapping[Scale, str] | None = None,
) -> Callable[[Callable[[Lab], Findings]], Study]:
    """Make a study of the function below: what it measures, from a lab to its findings."""

    def study(measure: Callable[[Lab], Findings]) -> Study:
        return Study(
            paper=paper, id=id, also=also, title=title, claims=claims, measure=measure, draw=draw,
            runs=runs, minutes=minutes, smaller=smaller or {},
        )  # fmt: skip

    return study
