"""The one loop that runs jobs, wherever they are done."""

import time
from collections.abc import Callable, Iterable, Iterator

from innerloop.engine.board import Board, Progress
from innerloop.engine.cluster import OnRay, RayCluster
from innerloop.engine.job import End, Job, Stop, in_words
from innerloop.engine.processes import Processes
from innerloop.engine.workers import Here, Workers

Listener = Callable[[Progress], None]
_OFTEN = 0.1
"""Seconds between two reports to a listener, at the least, as long as no job ends."""


def run_jobs(
    jobs: Iterable[Job],
    *,
    workers: int = 1,
    cluster: RayCluster | None = None,
    stop: Stop | None = None,
    listener: Listener | None = None,
) -> Iterator[Job]:
    """Do jobs; each that is done or has failed, as soon as it is.

    They are done in this process, or by several workers in processes, on one thread each; or on a
    cluster. One that fails takes with it those that need it, and no others. Where `stop` returns
    True, the jobs that are running save what they have, and the iteration ends.
    """
    board, stop = Board(jobs), stop or _never
    if board.next() is None:
        return
    if cluster is not None:
        chosen: Workers = OnRay(cluster)
    else:
        chosen = Here(stop) if workers == 1 else Processes(workers)
    yield from _run(board, chosen, stop, _looking(board, chosen, listener))


def _run(board: Board, workers: Workers, stop: Stop, look: Callable[[], None]) -> Iterator[Job]:
    running, halted = 0, False
    try:
        while True:
            if stop() and not halted:
                halted = True
                workers.halt()
            while not halted and running < workers.number and (job := board.next()) is not None:
                job.state = "running"
                try:
                    workers.begin(job)
                    running += 1
                except Exception as error:  # it has a part that no other process could find
                    yield from board.finish(job, End("failed", in_words(error)))
            look()
            if not running:
                return
            for job, end in workers.wait(look):
                running -= 1
                ended = board.finish(job, end)
                look()
                yield from ended
    finally:
        workers.close()


def _looking(board: Board, workers: Workers, listener: Listener | None) -> Callable[[], None]:
    """Tell a listener how far the board is: where a job has ended, else a few times per second."""
    last, ended = float("-inf"), 0

    def look() -> None:
        nonlocal last, ended
        if listener is None:
            return
        now, over = time.perf_counter(), board.ended
        if now - last > _OFTEN or over > ended:
            last, ended = now, over
            listener(board.progress(workers.number))

    return look


def _never() -> bool:
    return False
