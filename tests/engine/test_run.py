"""The one loop: order, failures that take others along, and processes that are killed."""

import os
import signal
from multiprocessing import active_children
from pathlib import Path

import pytest
import torch

from innerloop.engine.board import LOST_TWICE, Board, Progress
from innerloop.engine.job import End, Job, Work
from innerloop.engine.run import run_jobs
from tests.engine.works import CountingThreads, Doing, Unpicklable, Unreadable


def job(work: Work, name: str = "it", *needs: Job, minutes: float = 1, early: bool = False) -> Job:
    return Job(name, work, minutes, needs=needs, early=early)


def test_the_longest_is_begun_first_and_what_somebody_waits_for_before_it(tmp_path: Path) -> None:
    work = Doing(tmp_path / "log")
    short, long = job(work, "short", minutes=1), job(work, "long", minutes=2)
    answer = job(work, "answer", short, early=True)
    board = Board([short, long, answer])
    assert board.next() is long
    board.finish(long, End("done"))
    assert board.next() is short
    board.finish(short, End("lost"))
    other = job(work, "other", minutes=0.1)
    assert Board([short, other]).next() is other, "what was lost comes last"
    board.finish(short, End("done"))
    assert board.next() is answer


def test_a_failure_takes_along_what_needs_it_and_nothing_else(tmp_path: Path) -> None:
    bad = job(Doing(tmp_path / "log", "raises"), "bad")
    first = job(Doing(tmp_path / "log"), "first", bad)
    second = job(Doing(tmp_path / "log"), "second", first)
    free = job(Doing(tmp_path / "log"), "free")
    heard: list[Progress] = []
    ended = [one.name for one in run_jobs([bad, first, second, free], listener=heard.append)]
    assert ended == ["bad", "first", "second", "free"]
    why = "it cannot be done: do something else."
    assert bad.error == why
    assert first.error == f"doing 'bad' failed: {why}"
    assert second.error == f"doing 'first' failed: doing 'bad' failed: {why}"
    assert free.state == "done"
    assert (heard[-1].jobs_done, len(heard[-1].failed), heard[-1].running) == (4, 3, ())


@pytest.mark.parametrize("workers", [1, 2])
def test_a_job_has_one_thread_wherever_it_is_done(tmp_path: Path, workers: int) -> None:
    before = torch.get_num_threads()
    torch.set_num_threads(2)
    try:
        for _ in run_jobs([job(CountingThreads(tmp_path / "log"))], workers=workers):
            pass
        assert torch.get_num_threads() == 2, "the process has its own again"
    finally:
        torch.set_num_threads(before)
    assert (tmp_path / "log").read_text() == "1"


@pytest.mark.slow
def test_every_kind_of_end_is_told_apart_in_other_processes(tmp_path: Path) -> None:
    endings = ("well", "killed", "raises", "exits")
    jobs = {ending: job(Doing(tmp_path / ending, ending), ending) for ending in endings}
    jobs["unpicklable"] = job(Unpicklable(tmp_path / "log"), "unpicklable")
    jobs["unreadable"] = job(Unreadable(), "unreadable")
    ended = {one.name: one.error for one in run_jobs(jobs.values(), workers=2)}
    assert ended == {
        "well": "",
        "killed": LOST_TWICE,
        "raises": "it cannot be done: do something else.",
        "exits": LOST_TWICE,
        "unpicklable": "it cannot leave this process: use workers=1.",
        "unreadable": "ModuleNotFoundError: No module named 'elsewhere'",
    }
    begun = {ending: len((tmp_path / ending).read_text().split()) for ending in endings}
    assert begun == {"well": 1, "killed": 2, "raises": 1, "exits": 2}
    assert active_children() == []


@pytest.mark.slow
def test_a_process_that_is_killed_with_nothing_to_do_is_replaced(tmp_path: Path) -> None:
    log = tmp_path / "log"
    first = job(Doing(log), "first")
    second = job(Doing(log), "second", first)
    for ended in run_jobs([first, second], workers=2):
        if ended is first:
            os.kill(int(log.read_text()), signal.SIGKILL)
    assert second.state == "done", second.error


def test_nothing_is_started_where_there_is_nothing_to_do() -> None:
    assert list(run_jobs([], workers=2)) == []
