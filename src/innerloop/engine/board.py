"""All jobs of a command: which is begun next, and how far the whole is."""

import time
from collections.abc import Iterable
from dataclasses import dataclass

from innerloop.engine.job import End, Job
from innerloop.training.estimate import seconds_left

LOST_TWICE = (
    "its process was killed twice, perhaps for want of memory: the same command tries it again."
)


@dataclass(frozen=True, slots=True)
class Progress:
    """How far all jobs are."""

    done: float
    """A share, from 0 to 1."""
    seconds_left: float | None
    """None as long as nothing is known of it."""
    jobs: int
    jobs_done: int
    """Those that have failed are among them."""
    running: tuple[str, ...] = ()
    """One line for each job that is running."""
    failed: tuple[str, ...] = ()
    """One line for each job that has failed, with the reason."""


class Board:
    """Jobs in the order in which they are begun."""

    def __init__(self, jobs: Iterable[Job]) -> None:
        """All of them; what a job needs is among them."""
        self.jobs = tuple(jobs)
        self.began = time.perf_counter()

    @property
    def ended(self) -> int:
        """How many jobs are done or have failed."""
        return sum(job.state in ("done", "failed") for job in self.jobs)

    def next(self) -> Job | None:
        """The job to begin now: an early one, else the longest; one that was lost comes last."""
        ready = [
            job
            for job in self.jobs
            if job.state == "waiting" and all(other.state == "done" for other in job.needs)
        ]
        return max(ready, key=lambda job: (not job.lost, job.early, job.minutes), default=None)

    def finish(self, job: Job, end: End) -> list[Job]:
        """Note how an attempt has ended; the jobs that are done or have failed by that."""
        if end.fate == "stopped" or (end.fate == "lost" and not job.lost):
            job.state, job.lost = "waiting", end.fate == "lost"
            return []
        job.share = 1.0
        if end.fate == "done":
            job.state = "done"
            return [job]
        job.state, job.error = "failed", LOST_TWICE if end.fate == "lost" else end.why
        fallen = [job]
        for other in self.jobs:
            if job in other.needs and other.state == "waiting":
                why = f"{job.work.verb} {job.name!r} failed: {job.error}"
                fallen += self.finish(other, End("failed", why))
        return fallen

    def progress(self, workers: int) -> Progress:
        """How far all jobs are, by the minutes that they were expected to take."""
        whole = sum(job.minutes for job in self.jobs)
        done = sum(job.minutes * job.share for job in self.jobs)
        before = sum(job.minutes * job.before for job in self.jobs)
        elapsed = time.perf_counter() - self.began
        left = seconds_left(
            whole=whole, done=done, before=before, elapsed=elapsed,
            expected=60 * (whole - done) / workers,
        )  # fmt: skip
        return Progress(
            done=done / whole if whole else 1.0,
            seconds_left=left if elapsed > 1 else None,
            jobs=len(self.jobs),
            jobs_done=self.ended,
            running=tuple(str(job) for job in self.jobs if job.state == "running"),
            failed=tuple(f"{job.name}: {job.error}" for job in self.jobs if job.state == "failed"),
        )
