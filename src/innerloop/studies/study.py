"""A study: a figure, table or theorem as one function, and what it declares beforehand."""

import hashlib
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, field, replace
from functools import partial
from typing import Concatenate, ParamSpec

import pandas as pd
import torch
from matplotlib.figure import Figure

from innerloop.analysis.intervals import DRAWS, estimate
from innerloop.analysis.measured import Measured, tables_of
from innerloop.core.errors import ConfigurationError
from innerloop.studies.claim import Claim, Judged, judge
from innerloop.studies.code import code_of
from innerloop.studies.lab import Lab
from innerloop.training.config import RunConfig
from innerloop.training.data import generator_for
from innerloop.training.families import Scale

Tables = Mapping[str, pd.DataFrame]
"""The numbers of a study by name, each written to a CSV; figures are drawn of nothing else."""
Measures = Mapping[str, Measured]
"""What a study's function returns: measures by name, which the statistics of its claims take."""
Runs = Mapping[str, RunConfig]
"""The models that a study needs, by a label of its own."""
Measure = Callable[[Lab], Measures]
"""What a study measures with the learners of one seed."""


def no_runs(scale: Scale) -> Runs:
    """Studies that train nothing."""
    return {}


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class Findings:
    """All that was measured for a study."""

    seeds: tuple[Measures, ...]
    """The measures of each seed."""
    tables: Tables
    """Tables of facts beside those that are made of the measures."""
    notes: tuple[str, ...]

    @classmethod
    def of(cls, seeds: Sequence[tuple[Lab, Measures]]) -> "Findings":
        """What the study's function has returned for each seed, and has left in its lab."""
        tables: dict[str, list[pd.DataFrame]] = {}
        for lab, _ in seeds:
            for name, table in lab.tables.items():
                tables.setdefault(name, []).append(table)
        return cls(
            seeds=tuple(measures for _, measures in seeds),
            tables={name: pd.concat(each, ignore_index=True) for name, each in tables.items()},
            notes=tuple(dict.fromkeys(note for lab, _ in seeds for note in lab.notes)),
        )


@dataclass(frozen=True, slots=True, eq=False)
class Study:
    """One row of the papers' claims: `innerloop reproduce PAPER/ID`."""

    measure: Measure
    """Called once per seed; all that it measures, by the names that the claims use."""
    _: KW_ONLY
    paper: str
    id: str
    """The figure, table or theorem, in the paper's count: fig2, thm4.1."""
    also: tuple[str, ...] = ()
    """Other figures of the paper that it covers; they find it too."""
    title: str
    claims: tuple[Claim, ...]
    """Each with its criterion, before the run."""
    draw: Callable[[Tables], Figure]
    """From the tables alone."""
    runs: Callable[[Scale], Runs] = no_runs
    """The models that it needs at a scale, by a label of its own; other seeds follow from these."""
    minutes: Mapping[Scale, float]
    """What it takes with its runs, about: smoke and laptop on two cores, paper on a GPU."""
    smaller: Mapping[Scale, str] = field(default_factory=dict)
    """What is smaller than in the paper, or left out, in a sentence; the paper's scale has none."""
    notes: tuple[str, ...] = ()
    """Sentences that a reader should know, whatever is measured."""

    def __post_init__(self) -> None:
        """Where nothing is trained, every claim is exact."""
        if self.runs is no_runs:
            exact = tuple(replace(claim, over="exact") for claim in self.claims)
            object.__setattr__(self, "claims", exact)

    @property
    def name(self) -> str:
        """`PAPER/ID`."""
        return f"{self.paper}/{self.id}"

    @property
    def called(self) -> str:
        """What `innerloop reproduce` takes: its name, or `module:name` in another package."""
        module = self.measure.__module__
        ours = module.startswith("innerloop.studies.")
        return self.name if ours else f"{module}:{self.measure.__name__}"

    def judge(self, findings: Findings, scale: Scale) -> tuple[Judged, ...]:
        """Every claim with its verdict; an exact one is decided by the first seed alone."""
        names = [claim.name for claim in self.claims]
        if len(set(names)) < len(names):
            raise ConfigurationError(f"{self.name} has two claims of one name: {names}.")
        judged: list[Judged] = []
        for claim in self.claims:
            seeds = findings.seeds[:1] if claim.over == "exact" else findings.seeds
            try:
                number = estimate(
                    claim.statistic, seeds, log=claim.ratio, draws=_draws(scale),
                    generator=partial(self._generator, "bootstrap"),
                )  # fmt: skip
            except KeyError as error:
                raise ConfigurationError(
                    f"{self.name}: the claim {claim.name!r} needs the measure {error}, and the "
                    f"study has measured {', '.join(map(repr, seeds[0]))}."
                ) from error
            judged.append(judge(claim, number, scale))
        return tuple(judged)

    def tables(self, findings: Findings, scale: Scale) -> dict[str, pd.DataFrame]:
        """The tables of all measures that have axes, and those of facts."""
        seeds = findings.seeds
        together = {name: Measured.of_seeds([own[name] for own in seeds]) for name in seeds[0]}
        own = tables_of(
            together, draws=_draws(scale), generator=lambda axis: self._generator(f"curve {axis}")
        )
        return {**own, **findings.tables}

    def _generator(self, purpose: str) -> torch.Generator:
        return generator_for(0, f"{self.name}/{purpose}")

    def seeded_runs(self, scale: Scale, seeds: int) -> dict[tuple[str, int], RunConfig]:
        """The runs by label and seed."""
        return {
            (label, seed): config.model_copy(update={"seed": seed})
            for label, config in self.runs(scale).items()
            for seed in range(seeds)
        }

    def fingerprint(self, scale: Scale, seeds: int) -> str:
        """A hash of what results depend on: code, claims and runs, the scale and the seeds."""
        runs = self.seeded_runs(scale, seeds)
        kinds = {config.model_type for config in runs.values()}
        kinds |= {type(config.task) for config in runs.values()}
        record = {
            "code": code_of(self.measure, *kinds),
            "claims": [repr(claim.statement) for claim in self.claims],
            "runs": sorted(f"{label}/{config.key()}" for (label, _), config in runs.items()),
            "scale": scale,
            "seeds": seeds,
        }
        return hashlib.sha256(json.dumps(record, sort_keys=True).encode()).hexdigest()[:16]


def _draws(scale: Scale) -> int:
    """Draws of the bootstrap: the papers' 1000, at smoke scale 100."""
    return 100 if scale == "smoke" else DRAWS


P = ParamSpec("P")
Decorator = Callable[[Measure], Study]


def _decorator(study: Callable[Concatenate[Measure, P], Study]) -> Callable[P, Decorator]:
    def declare(*args: P.args, **fields: P.kwargs) -> Decorator:
        """Make a study of the function below: what it measures with the learners of one seed."""
        return lambda measure: study(measure, *args, **fields)

    return declare


declare = _decorator(Study)
"""Takes the fields of a study but `measure`, by name, as a decorator of the latter."""
