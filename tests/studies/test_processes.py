"""Jobs in processes of their own: one that is killed, told to end, or left alone harms no other."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from multiprocessing import active_children
from pathlib import Path

import pytest

from innerloop.core.errors import ConfigurationError
from innerloop.engine.board import Progress
from innerloop.studies.jobs import address
from innerloop.studies.reproduce import Outcome, reproduce
from innerloop.studies.study import Study
from innerloop.studies.table import STUDIES
from innerloop.training.lock import LOCK
from innerloop.training.run import METRICS, Run
from innerloop.training.store import Store
from tests.studies import own
from tests.studies.small import small_study

ROOT = Path(__file__).parents[2]


@pytest.fixture(autouse=True)
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where studies leave word."""
    monkeypatch.setenv(own.PLACE, str(tmp_path))
    return tmp_path


def by_two(
    place: Path, *studies: Study, listener: Callable[[Progress], None] | None = None
) -> dict[str, Outcome]:
    found = reproduce(
        studies, scale="smoke", store=Store(place / "runs"), results=place / "results", workers=2,
        listener=listener,
    )  # fmt: skip
    return {outcome.study.id: outcome for outcome in found}


def test_a_job_that_kills_its_process_fails_and_takes_no_other_along(place: Path) -> None:
    found = by_two(place, own.killed, own.slow)
    assert found["slow"].result is not None, found["slow"].error
    assert "its process was killed twice" in found["killed"].error
    assert (place / "slow").read_text() == "begun\n", "the other was left alone"


def test_a_job_whose_process_was_killed_is_begun_again(place: Path) -> None:
    found = by_two(place, own.plain, own.killed_once)
    assert all(outcome.result is not None for outcome in found.values())


def test_a_job_that_ends_its_process_fails_and_progress_reaches_its_end(place: Path) -> None:
    heard: list[Progress] = []
    found = by_two(place, own.exits, own.plain, listener=heard.append)
    assert found["exits"].error == "SystemExit: not a word"
    assert found["plain"].result is not None
    assert (heard[-1].jobs_done, heard[-1].jobs) == (2, 2)
    assert heard[-1].done == 1


def test_a_study_that_no_other_process_finds_is_refused_before_anything_begins(place: Path) -> None:
    with pytest.raises(ConfigurationError, match=r"test2024/small cannot .* use workers=1"):
        by_two(place, own.plain, small_study())
    assert list(place.iterdir()) == []


def test_every_study_of_the_table_is_found_by_other_processes() -> None:
    for study in STUDIES:
        module, name = address(study)
        assert getattr(sys.modules[module], name) is study


def test_what_was_typed_into_a_shell_is_not_found_by_other_processes(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    assert address(own.plain) == (own.__name__, "plain")
    monkeypatch.delattr(own, "__file__")
    with pytest.raises(ConfigurationError, match="workers=1"):
        address(own.plain)


def until(done: Callable[[], bool]) -> None:
    end = time.monotonic() + 300  # a machine that is busy starts processes slowly
    while not done():
        assert time.monotonic() < end, "it takes too long"
        time.sleep(0.02)


def lives(process: int) -> bool:
    """Whether a process is there, and no zombie that nobody has buried."""
    try:
        told = Path(f"/proc/{process}/stat").read_text()
    except OSError:
        return False
    return told.rpartition(")")[2].split()[0] != "Z"


def trains(place: Path) -> bool:
    return any(file.stat().st_size for file in place.glob(f"runs/*/{METRICS}"))


def saved(place: Path) -> int:
    """The steps that the only run has in its checkpoint; the first one was written at 0."""
    (run,) = (place / "runs").iterdir()
    return Run.open(run).step


def test_training_is_saved_where_all_processes_are_told_to_end(place: Path) -> None:
    def stop() -> bool:
        """As where a group has a SIGTERM: the parent is to stop, and the others have it too."""
        if not trains(place):
            return False
        for process in active_children():
            process.terminate()
        return True

    found = reproduce(
        [own.long], scale="smoke", store=Store(place / "runs"), results=place / "results",
        workers=2, stop=stop,
    )  # fmt: skip
    assert list(found) == []
    assert saved(place) > 0


@pytest.fixture
def program(place: Path) -> Iterator["subprocess.Popen[bytes]"]:
    """A long study and a short one as a program in a group of its own."""
    words = [sys.executable, "-m", "tests.studies.own", str(place), "long", "identified"]
    process = subprocess.Popen(words, cwd=ROOT, start_new_session=True)
    yield process
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()


@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="it asks Linux for processes")
def test_processes_whose_parent_was_killed_save_and_end(
    place: Path, program: "subprocess.Popen[bytes]"
) -> None:
    claims = place / "results" / "smoke" / "own" / "identified" / "claims.json"
    until(lambda: trains(place) and claims.is_file())
    (lock,) = place.glob(f"runs/*/{LOCK}")
    idle, training = int((place / "id").read_text()), int(lock.read_text())
    assert lives(idle)
    assert lives(training)
    assert idle != training
    program.kill()
    program.wait()
    until(lambda: not lives(idle) and not lives(training))
    assert saved(place) > 0
