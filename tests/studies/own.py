"""Studies at the top of a file, which other processes find: some end badly, some take long.

As a program it reproduces those that are named, with two workers, and saves when it is asked to.
"""

import os
import signal
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path

import torch

from innerloop.analysis.measured import Measured
from innerloop.studies.claim import Claim, Criterion
from innerloop.studies.lab import Lab
from innerloop.studies.reproduce import reproduce
from innerloop.studies.runs import trained
from innerloop.studies.study import Measures, Study, declare, no_runs
from innerloop.training.config import RunConfig
from innerloop.training.families import Scale
from innerloop.training.interrupt import interruptible
from innerloop.training.run import METRICS
from innerloop.training.store import Store
from tests.studies.small import draw

PLACE = "INNERLOOP_TEST_PLACE"
"""The variable that says where studies leave word for each other."""
ONE = Claim(
    name="one", sentence="It is one.", quantity="one", exact=True,
    statistic=lambda m: m["one"][..., 0],
    criterion=Criterion(at_most=1.0, reason="one is one"),
)  # fmt: skip


def _own(
    id: str, measure: Callable[[Lab], None], runs: Callable[[Scale], Mapping[str, RunConfig]]
) -> Study:
    def measured(lab: Lab) -> Measures:
        measure(lab)
        return {"one": Measured.exact(torch.ones(2), "examples")}

    return declare(
        paper="own", id=id, title="One of our own", claims=(ONE,), draw=draw, runs=runs,
        minutes={"smoke": 0.1, "laptop": 0.1, "paper": 0.1},
        smaller={"smoke": "All.", "laptop": "All."},
    )(measured)  # fmt: skip


def _word(name: str) -> Path:
    return Path(os.environ[PLACE]) / name


def _nothing(lab: Lab) -> None:
    pass


def _leave_id(lab: Lab) -> None:
    """Say which process this is, once another one trains: so it is never the same one."""
    _wait_until(lambda: any(file.stat().st_size for file in _word("runs").glob(f"*/{METRICS}")))
    _word("id").write_text(str(os.getpid()))


def _wait_until(happened: Callable[[], bool]) -> None:
    """Wait for an event, however slow the machine; whoever runs the test gives up, not this."""
    while not happened():
        time.sleep(0.01)


def _wait_for(*words: str) -> None:
    _wait_until(lambda: all(_word(word).exists() for word in words))


def _be_slow(lab: Lab) -> None:
    """Go on until the other has killed itself twice, and count how often this was begun."""
    with _word("slow").open("a") as word:
        word.write("begun\n")
    _wait_for("first", "second")


def _kill(lab: Lab) -> None:
    _wait_for("slow")
    _word("second" if _word("first").exists() else "first").touch()
    os.kill(os.getpid(), signal.SIGKILL)


def _kill_once(lab: Lab) -> None:
    if not _word("first").exists():
        _word("first").touch()
        os.kill(os.getpid(), signal.SIGKILL)


def _exit(lab: Lab) -> None:
    sys.exit("not a word")


def _long_run(scale: Scale) -> Mapping[str, RunConfig]:
    return {
        "model": trained(
            "looped-linear", "smoke", "steps=1000000", "save_every=1000000", "log_every=1"
        )
    }


plain = _own("plain", _nothing, no_runs)
identified = _own("identified", _leave_id, no_runs)
slow = _own("slow", _be_slow, no_runs)
killed = _own("killed", _kill, no_runs)
killed_once = _own("killed-once", _kill_once, no_runs)
exits = _own("exits", _exit, no_runs)
long = _own("long", _nothing, _long_run)


def main(place: Path, names: list[str]) -> None:
    """Reproduce in a folder."""
    with interruptible() as interruption:
        for _ in reproduce(
            [globals()[name] for name in names], scale="smoke", store=Store(place / "runs"),
            results=place / "results", workers=2, stop=interruption,
        ):  # fmt: skip
            pass
    sys.exit(interruption.exit_code)


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2:])
