"""A study measured on its finished runs, and how long they were trained."""

import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from datetime import date
from pathlib import Path

from innerloop.core.errors import InnerloopError
from innerloop.studies.lab import Lab, NoOtherSeedError
from innerloop.studies.result import Result, write_result
from innerloop.studies.seeds import Seeds
from innerloop.studies.study import Findings, Measures, Study
from innerloop.training.estimate import training_seconds
from innerloop.training.families import Scale
from innerloop.training.run import Run
from innerloop.training.store import Store


class MissingRunError(InnerloopError):
    """A study whose models are not there."""


def measure(
    study: Study,
    *,
    scale: Scale,
    seeds: Seeds,
    store: Store,
    results: Path,
    tell: Callable[[str], None] | None = None,
    stop: Callable[[], bool] | None = None,
) -> Result:
    """Measure a study on runs that are finished, judge its claims, and write its folder."""
    began = time.perf_counter()
    runs, failed = _runs_by_seed(study, scale, seeds, store)
    labs: list[Lab] = []
    for place, (seed, own) in enumerate(runs.items()):
        others = list(runs.values())[(place + 1) % len(runs)] if len(runs) > 1 else {}
        lab = Lab(
            study=study.name, scale=scale, seed=seed, first=place == 0, runs=own, others=others,
            tell=tell, stop=stop,
        )  # fmt: skip
        labs.append(lab)
    measured = [(lab, study.measure(lab)) for lab in labs]
    distinct = {run.path: run for own in runs.values() for run in own.values()}
    return write_result(
        results,
        study,
        Findings.of(measured, _nulls(study, labs), failed),
        scale=scale,
        seeds=seeds,
        runs=sorted(run.name for run in distinct.values()),
        training_seconds=sum(run.seconds for run in distinct.values()),
        seconds=time.perf_counter() - began,
        finished=date.today().isoformat(),
    )


def _nulls(study: Study, labs: Sequence[Lab]) -> dict[str, list[Measures]]:
    """What the study measures on learners in the place of trained models, by null, in each seed."""
    wanted = {null for claim in study.claims for null in claim.excludes}
    nulls: dict[str, list[Measures]] = {}
    for name, null in study.nulls.items():
        if name in wanted:
            try:
                nulls[name] = [study.measure(lab.standing_in(null)) for lab in labs]
            except NoOtherSeedError:
                if len(labs) > 1:  # a control that names a run which the study does not have
                    raise
    return nulls


def _runs_by_seed(
    study: Study, scale: Scale, seeds: Seeds, store: Store
) -> tuple[dict[int, dict[str, Run]], dict[int, str]]:
    """The finished runs of each seed by label, and the seeds of which one has diverged."""
    # Without a training there is nothing that a seed could change but the prompts.
    runs: dict[int, dict[str, Run]] = {seed: {} for seed in seeds}
    failed: dict[int, str] = {}
    for (label, seed), config in study.seeded_runs(scale, seeds).items():
        run = store.find(config)
        if run is not None and run.diverged is not None:
            failed.setdefault(seed, f"{label!r}, {run.diverged}")
        elif run is None or not run.finished:
            raise MissingRunError(
                f"{study.name} needs the run {label!r} with seed {seed}, which is not trained: "
                "`innerloop reproduce` trains it."
            )
        else:
            runs[seed][label] = run
    if not any(runs.values()):
        runs = {seeds[0]: {}}
    whole = {seed: own for seed, own in runs.items() if seed not in failed}
    if not whole:
        why = "; ".join(f"seed {seed}: {reason}" for seed, reason in failed.items())
        raise InnerloopError(f"no seed of {study.name} could be trained ({why}): try other seeds.")
    return whole, failed


@dataclass(frozen=True, slots=True)
class TrainingTime:
    """How long runs were trained, added up."""

    seconds: float
    """By the clock, beside whatever else the machine did."""
    expected: float
    """Seconds of one core that does nothing else, by what a step costs."""


def training_time(runs: Iterable[Run]) -> TrainingTime:
    """The time of several runs."""
    several = list(runs)
    return TrainingTime(
        sum(run.seconds for run in several),
        sum(training_seconds(run.config) for run in several),
    )
