"""A study measured on its finished runs, and how long they were trained."""

import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from datetime import date
from pathlib import Path

from innerloop.core.errors import InnerloopError
from innerloop.studies.lab import Lab
from innerloop.studies.result import Result, write_result
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
    seeds: int,
    store: Store,
    results: Path,
    tell: Callable[[str], None] | None = None,
    stop: Callable[[], bool] | None = None,
) -> Result:
    """Measure a study on runs that are finished, judge its claims, and write its folder."""
    runs = _finished_runs(study, scale, seeds, store)
    began = time.perf_counter()
    distinct = {run.path: run for run in runs.values()}
    measured: list[tuple[Lab, Measures]] = []
    # Without a training there is nothing that a seed could change but the prompts.
    for seed in range(seeds if runs else 1):
        own = {label: run for (label, number), run in runs.items() if number == seed}
        lab = Lab(study=study.name, scale=scale, seed=seed, runs=own, tell=tell, stop=stop)
        measured.append((lab, study.measure(lab)))
    return write_result(
        results,
        study,
        Findings.of(measured),
        scale=scale,
        seeds=seeds,
        runs=sorted(run.name for run in distinct.values()),
        training_seconds=sum(run.seconds for run in distinct.values()),
        seconds=time.perf_counter() - began,
        finished=date.today().isoformat(),
    )


def _finished_runs(
    study: Study, scale: Scale, seeds: int, store: Store
) -> dict[tuple[str, int], Run]:
    runs: dict[tuple[str, int], Run] = {}
    for (label, seed), config in study.seeded_runs(scale, seeds).items():
        run = store.find(config)
        if run is None or not run.finished:
            raise MissingRunError(
                f"{study.name} needs the run {label!r} with seed {seed}, which is not trained: "
                "`innerloop reproduce` trains it."
            )
        runs[label, seed] = run
    return runs


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
