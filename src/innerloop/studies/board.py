"""What is to be done for some studies: each run once, then each study, and how far all that is."""

import time
from collections.abc import Iterable
from dataclasses import dataclass, field

from innerloop.core.errors import InnerloopError
from innerloop.studies.seeds import Seeds
from innerloop.studies.study import Study
from innerloop.training.config import RunConfig
from innerloop.training.estimate import seconds_left, training_seconds
from innerloop.training.families import Scale
from innerloop.training.store import Store

_MEASURING = {"smoke": 0.05, "laptop": 3.0, "desk": 10.0, "paper": 60.0}
"""Minutes that a study takes beside its runs, about."""
_BEGINNING = 0.02
"""Minutes that a run takes beside its steps."""


@dataclass(frozen=True, slots=True)
class Progress:
    """How far the whole of the work is."""

    done: float
    """A share, from 0 to 1."""
    seconds_left: float | None
    """None as long as nothing is known of it."""
    jobs: int
    jobs_done: int
    running: tuple[str, ...]
    """One line for each job that is running."""


@dataclass(slots=True, eq=False)
class Job:
    """A run to train, or a study to measure."""

    name: str
    minutes: float
    """What it is expected to take on one core."""
    config: RunConfig | None = None
    study: Study | None = None
    needs: tuple["Job", ...] = ()
    """The runs that a study waits for."""
    share: float = 0.0
    """How far it is."""
    before: float = 0.0
    """How far it was when the board was made: what an earlier command did took no time here."""
    doing: str = ""
    """What it is doing now."""
    state: str = "waiting"
    """waiting, running, done or failed."""
    error: str = ""
    lost: bool = False
    """Whether it has lost its process once: it is begun again alone, and then it has failed."""

    def __str__(self) -> str:
        """A line for the progress display."""
        if self.study is None:
            return f"training {self.name} {100 * self.share:.0f}%"
        return f"measuring {self.name}" + (f": {self.doing}" if self.doing else "")


@dataclass(slots=True, eq=False)
class Board:
    """All jobs of some studies, in the order in which they are begun."""

    runs: dict[str, Job] = field(default_factory=dict)
    """By the key of the configuration: a run that several studies need is one job."""
    measures: list[Job] = field(default_factory=list)
    began: float = field(default_factory=time.perf_counter)

    @classmethod
    def of(cls, studies: Iterable[Study], *, scale: Scale, seeds: Seeds, store: Store) -> "Board":
        """The jobs of studies; runs that are finished in the store are none."""
        board, finished = cls(), set[str]()
        for study in studies:
            needs: dict[str, Job] = {}
            for (label, _), config in study.seeded_runs(scale, seeds).items():
                key = config.key()
                if key in finished:
                    continue
                if key not in board.runs:
                    share = _share(store, config)
                    if share is None:
                        finished.add(key)
                        continue
                    minutes = training_seconds(config) / 60 + _BEGINNING
                    board.runs[key] = Job(label, minutes, config=config, share=share, before=share)
                needs[key] = board.runs[key]
            board.measures.append(
                Job(study.name, _MEASURING[scale], study=study, needs=tuple(needs.values()))
            )
        return board

    @property
    def jobs(self) -> list[Job]:
        """All of them, runs first."""
        return [*self.runs.values(), *self.measures]

    @property
    def ended(self) -> int:
        """How many are done or have failed."""
        return sum(job.state in ("done", "failed") for job in self.jobs)

    def next(self) -> Job | None:
        """The job to begin now: a study that is ready, else the longest run; None: nothing."""
        for job in self.measures:
            if job.state == "waiting" and all(run.state == "done" for run in job.needs):
                return job
        waiting = [job for job in self.runs.values() if job.state == "waiting"]
        return max(waiting, key=lambda job: job.minutes, default=None)

    def finish(self, job: Job, error: str) -> list[Job]:
        """Note that a job has ended; what else cannot be done because of it."""
        job.state, job.error, job.share = ("failed" if error else "done"), error, 1.0
        fallen: list[Job] = []
        for other in self.measures:
            if error and job in other.needs and other.state == "waiting":
                other.state, other.share = "failed", 1.0
                other.error = f"its run {job.name!r} failed: {error}"
                fallen.append(other)
        return fallen

    def progress(self, workers: int) -> Progress:
        """How far all jobs are, by the minutes that they were expected to take."""
        jobs = self.jobs
        whole = sum(job.minutes for job in jobs)
        done = sum(job.minutes * job.share for job in jobs)
        before = sum(job.minutes * job.before for job in jobs)
        elapsed = time.perf_counter() - self.began
        left = seconds_left(
            whole=whole, done=done, before=before, elapsed=elapsed,
            expected=60 * (whole - done) / workers,
        )  # fmt: skip
        return Progress(
            done=done / whole if whole else 1.0,
            seconds_left=left if elapsed > 1 else None,
            jobs=len(jobs),
            jobs_done=self.ended,
            running=tuple(str(job) for job in jobs if job.state == "running"),
        )


def _share(store: Store, config: RunConfig) -> float | None:
    """How far a run in the store is; None: finished, or given up."""
    try:
        run = store.find(config)
        if run is None:
            return 0.0
        ended = run.finished or run.diverged is not None
        return None if ended else run.step / config.steps
    except InnerloopError:
        return 0.0  # damaged: its training will say so, and the other jobs are done
