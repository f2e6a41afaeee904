"""Studies from nothing: the runs that they need, each once, then what is measured on them."""

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from innerloop.core.errors import InnerloopError
from innerloop.studies.board import Board, Job, Progress
from innerloop.studies.result import Result, place, read_result
from innerloop.studies.study import Study
from innerloop.studies.workers import Stop, Worker, in_turn, side_by_side
from innerloop.training.families import Scale
from innerloop.training.store import Store

Listener = Callable[[Progress], None]


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class Outcome:
    """What became of a study."""

    study: Study
    result: Result | None
    error: str = ""
    """Why there is no result, in a sentence."""
    known: bool = False
    """Whether the result was there already, of the same code, runs and seeds."""


def reproduce(
    studies: Sequence[Study],
    *,
    scale: Scale,
    seeds: int = 1,
    store: Store,
    results: Path,
    workers: int = 1,
    again: bool = False,
    listener: Listener | None = None,
    stop: Stop | None = None,
) -> Iterator[Outcome]:
    """Train what is missing, measure, judge and write; an outcome as soon as a study has one.

    Studies share their runs, and with several workers jobs are done side by side, each on one
    thread. A study that fails leaves the others alone. Results that are there already, of the same
    code, runs and seeds, are given as they are, unless `again`. Where `stop` returns True, runs are
    saved and the iteration ends; called again, it goes on from there.
    """
    left: list[Study] = []
    for study in studies:
        known = None if again else known_result(study, scale=scale, seeds=seeds, results=results)
        if known is None:
            left.append(study)
        else:
            yield Outcome(study=study, result=known, known=True)
    board = Board.of(left, scale=scale, seeds=seeds, store=store)
    worker = Worker(scale=scale, seeds=seeds, store=store, results=results)
    look = _look(board, workers, listener)
    jobs = (
        in_turn(board, worker, stop or _never, look)
        if workers == 1
        else side_by_side(board, worker, workers, stop or _never, look)
    )
    for job in jobs:
        if job.study is not None:
            yield _outcome(job, job.study, scale, results)


def known_result(study: Study, *, scale: Scale, seeds: int, results: Path) -> Result | None:
    """The result of a study in its folder, if it is of the same code, runs and seeds."""
    try:
        found = read_result(place(results, study, scale))
    except InnerloopError:
        return None
    return found if found.fingerprint == study.fingerprint(scale, seeds) else None


def _outcome(job: Job, study: Study, scale: Scale, results: Path) -> Outcome:
    if job.error:
        return Outcome(study=study, result=None, error=job.error)
    return Outcome(study=study, result=read_result(place(results, study, scale)))


def _look(board: Board, workers: int, listener: Listener | None) -> Callable[[], None]:
    """Tell a listener how far the board is, a few times a second at most."""
    last = [0.0]

    def look() -> None:
        now = time.perf_counter()
        if listener is not None and now - last[0] > 0.1:
            last[0] = now
            listener(board.progress(workers))

    return look


def _never() -> bool:
    return False
