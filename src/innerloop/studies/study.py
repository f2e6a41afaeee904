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

from innerloop.analysis.intervals import DRAWS, Averages, Estimate, estimate
from innerloop.analysis.measured import Measured, tables_of
from innerloop.core.errors import ConfigurationError, unknown
from innerloop.studies.claim import Claim, Control, Judged, control, judge
from innerloop.studies.code import code_of
from innerloop.studies.lab import Lab, Null
from innerloop.studies.seeds import Seeds
from innerloop.training.config import RunConfig
from innerloop.training.data import generator_for
from innerloop.training.families import SCALES, Scale

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


def no_data(scale: Scale) -> tuple[str, ...]:
    """Studies that draw all their prompts."""
    return ()


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class Findings:
    """All that was measured for a study."""

    seeds: tuple[Measures, ...]
    """The measures of each seed."""
    nulls: Mapping[str, tuple[Measures, ...]] = field(default_factory=dict)
    """The same of learners that take the place of trained models, by null."""
    failed: Mapping[int, str] = field(default_factory=dict)
    """The seeds that could not be trained, with the reason."""
    tables: Tables
    """Tables of facts beside those that are made of the measures."""
    notes: tuple[str, ...]

    @classmethod
    def of(
        cls,
        seeds: Sequence[tuple[Lab, Measures]],
        nulls: Mapping[str, Sequence[Measures]] | None = None,
        failed: Mapping[int, str] | None = None,
    ) -> "Findings":
        """What the study's function has returned for each seed, and has left in its lab."""
        tables: dict[str, list[pd.DataFrame]] = {}
        for lab, _ in seeds:
            for name, table in lab.tables.items():
                tables.setdefault(name, []).append(table)
        return cls(
            seeds=tuple(measures for _, measures in seeds),
            nulls={null: tuple(each) for null, each in (nulls or {}).items()},
            failed=failed or {},
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
    nulls: Mapping[str, Null] = field(default_factory=dict)
    """Learners of which claims are not true, by the names that claims exclude them by."""
    data: Callable[[Scale], tuple[str, ...]] = no_data
    """The data sets that it needs at a scale, by name; where one is not here it is skipped."""
    minutes: Mapping[Scale, float]
    """What it takes with its runs, about, at each scale that it has: paper on a GPU, the others on
    two cores."""
    smaller: Mapping[Scale, str] = field(default_factory=dict)
    """What is smaller than in the paper, or left out, in a sentence; the paper's scale has none."""
    notes: tuple[str, ...] = ()
    """Sentences that a reader should know, whatever is measured."""

    def __post_init__(self) -> None:
        """Where nothing is trained, every claim is exact; refused if a null is not declared."""
        if self.runs is no_runs:
            exact = tuple(replace(claim, exact=True) for claim in self.claims)
            object.__setattr__(self, "claims", exact)
        for claim in self.claims:
            for null in claim.excludes:
                if null not in self.nulls:
                    raise ConfigurationError(unknown(f"null of {self.name}", null, self.nulls))

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
        return tuple(self._judge(claim, findings, scale) for claim in self.claims)

    def _judge(self, claim: Claim, findings: Findings, scale: Scale) -> Judged:
        if claim.exact:
            return judge(claim.statement, self._estimate(claim, findings.seeds[:1], scale), scale)
        controls: list[Control] = []
        for null in claim.excludes:
            seeds = findings.nulls.get(null, ())
            if seeds:
                number = self._estimate(claim, seeds, scale)
                controls.append(control(claim.statement, null, number, premises(claim, seeds)))
        return judge(
            claim.statement, self._estimate(claim, findings.seeds, scale), scale,
            premises=premises(claim, findings.seeds), controls=controls, failed=findings.failed,
        )  # fmt: skip

    def _estimate(self, claim: Claim, seeds: Sequence[Measures], scale: Scale) -> Estimate:
        try:
            return estimate(
                claim.statistic, seeds, log=claim.ratio, draws=_draws(scale),
                generator=partial(self._generator, "bootstrap"),
            )  # fmt: skip
        except KeyError as error:
            raise ConfigurationError(
                f"{self.name}: the claim {claim.name!r} needs the measure {error}, and the "
                f"study has measured {', '.join(map(repr, seeds[0]))}."
            ) from error

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

    @property
    def scales(self) -> tuple[Scale, ...]:
        """The scales that it has, from the smallest on."""
        return tuple(scale for scale in SCALES if scale in self.minutes)

    def seeded_runs(self, scale: Scale, seeds: Seeds) -> dict[tuple[str, int], RunConfig]:
        """The runs by label and seed."""
        return {
            (label, seed): config.model_copy(update={"seed": seed})
            for label, config in self.runs(scale).items()
            for seed in seeds
        }

    def fingerprint(self, scale: Scale, seeds: Seeds) -> str:
        """A hash of what results depend on: code, claims and runs, the scale and the seeds."""
        runs = self.seeded_runs(scale, seeds)
        kinds = {config.model_type for config in runs.values()}
        kinds |= {type(config.task) for config in runs.values()}
        record = {
            "code": code_of(self.measure, *kinds),
            "claims": [repr(claim.statement) for claim in self.claims],
            "runs": sorted(f"{label}/{config.key()}" for (label, _), config in runs.items()),
            "scale": scale,
            "seeds": list(seeds),
        }
        return hashlib.sha256(json.dumps(record, sort_keys=True).encode()).hexdigest()[:16]


def premises(claim: Claim, seeds: Sequence[Measures]) -> tuple[float, ...]:
    """The quantity of a claim's premise in each seed; nothing if it has none."""
    if claim.premise is None:
        return ()
    return tuple(float(claim.premise.statistic(Averages(own))) for own in seeds)


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
