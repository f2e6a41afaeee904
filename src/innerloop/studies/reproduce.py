"""Studies from nothing: the runs that they need, each once, then what is measured on them."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from innerloop.core.errors import InnerloopError
from innerloop.data.reading import MissingDataError, require_here
from innerloop.engine.cluster import RayCluster
from innerloop.engine.job import Job, Stop
from innerloop.engine.run import Listener, run_jobs
from innerloop.studies.jobs import StudyJobs, address, study_jobs
from innerloop.studies.result import Result, find_result, place, read_result, refusal
from innerloop.studies.seeds import Seeds
from innerloop.studies.study import Study
from innerloop.training.families import Scale
from innerloop.training.store import Store


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class Outcome:
    """What became of a study."""

    study: Study
    result: Result | None
    error: str = ""
    """Why there is no result, in a sentence."""
    skipped: bool = False
    """Whether its data are not here, so that nothing was tried."""
    known: bool = False
    """Whether the result was there already, of the same code and runs, with no fewer seeds."""


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class Plan:
    """What a reproduction will do; it is good for one, as its jobs keep what has been done."""

    known: tuple[Outcome, ...]
    """Of the studies whose results are there already."""
    refused: tuple[Outcome, ...]
    """Of the studies whose results of other seeds would be lost, or whose data are not here."""
    jobs: StudyJobs
    """Those of the others."""

    @property
    def left(self) -> list[Study]:
        """The studies that are to be measured."""
        return list(self.jobs.measures.values())


def make_plan(
    studies: Sequence[Study],
    *,
    scale: Scale,
    seeds: Seeds = (0,),
    store: Store,
    results: Path,
    again: bool = False,
) -> Plan:
    """What there is and what is missing; this reads the state of every run that is needed."""
    known: list[Outcome] = []
    refused: list[Outcome] = []
    left: list[Study] = []
    for study in studies:
        result = None if again else find_result(results, study, scale=scale, seeds=seeds)
        lost = None if again else refusal(results, study, scale=scale, seeds=seeds)
        if result is not None:
            known.append(Outcome(study=study, result=result, known=True))
        elif lost is not None:
            refused.append(Outcome(study=study, result=None, error=lost))
        elif missing := _missing_data(study, scale):
            refused.append(Outcome(study=study, result=None, error=missing, skipped=True))
        else:
            left.append(study)
    jobs = study_jobs(left, scale=scale, seeds=seeds, store=store, results=results)
    return Plan(known=tuple(known), refused=tuple(refused), jobs=jobs)


def _missing_data(study: Study, scale: Scale) -> str:
    """The sentence of the first data set that a study needs and that is not here; or nothing."""
    try:
        for name in study.data(scale):
            require_here(name)
    except MissingDataError as error:
        return str(error)
    return ""


def reproduce(
    studies: Sequence[Study],
    *,
    scale: Scale,
    seeds: Seeds = (0,),
    store: Store,
    results: Path,
    workers: int = 1,
    cluster: RayCluster | None = None,
    again: bool = False,
    listener: Listener | None = None,
    stop: Stop | None = None,
    plan: Plan | None = None,
) -> Iterator[Outcome]:
    """Train what is missing, measure, judge and write; an outcome as soon as a study has one.

    Studies share their runs, and with several workers, or on a cluster, jobs are done side by side.
    A study that fails leaves the others alone. Results that are there already, of the same
    code and runs and with no fewer seeds, are given as they are, unless `again`; results of seeds
    that are not asked for are kept, and the study is refused, unless `again`. Where `stop`
    returns True, runs are saved and the iteration ends; called again, it goes on from there. `plan`
    is what `make_plan` has made of the same studies and settings, if it has been made already.
    """
    if plan is None:
        plan = make_plan(
            studies, scale=scale, seeds=seeds, store=store, results=results, again=again
        )
    if workers > 1 or cluster is not None:
        for study in plan.left:
            address(study)  # refused before the work begins, where other processes have none
    yield from (*plan.known, *plan.refused)
    for job in run_jobs(
        plan.jobs.all, workers=workers, cluster=cluster, stop=stop, listener=listener
    ):
        if (study := plan.jobs.measures.get(job)) is not None:
            yield _outcome(job, study, scale, results)


def _outcome(job: Job, study: Study, scale: Scale, results: Path) -> Outcome:
    if job.error:
        return Outcome(study=study, result=None, error=job.error)
    try:
        return Outcome(study=study, result=read_result(place(results, study, scale)))
    except InnerloopError as error:  # gone or changed since: the other studies are not
        return Outcome(study=study, result=None, error=str(error))
