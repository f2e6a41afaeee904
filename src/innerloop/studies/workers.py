"""How jobs are done, and in turn in this process; `processes` has them side by side."""

import traceback
from collections.abc import Callable, Iterator
from pathlib import Path

from innerloop.core.errors import InnerloopError
from innerloop.core.files import write_atomically
from innerloop.studies.board import Board, Job
from innerloop.studies.lab import StoppedError
from innerloop.studies.measuring import measure
from innerloop.studies.result import ERROR, place
from innerloop.studies.seeds import Seeds
from innerloop.studies.study import Study
from innerloop.training.config import RunConfig
from innerloop.training.divergence import DivergenceError
from innerloop.training.families import Scale
from innerloop.training.run import StartOverError
from innerloop.training.store import Store
from innerloop.training.train import Report

Tell = Callable[[float, str], None]
"""Hears how far a job is, and what it is doing."""
Stop = Callable[[], bool]

STOPPED = "stopped"
"""The error of a job that somebody has interrupted."""


class Worker:
    """Where runs and results are, and how jobs are done there."""

    def __init__(self, *, scale: Scale, seeds: Seeds, store: Store, results: Path) -> None:
        """The same for all jobs of a reproduction."""
        self.scale: Scale = scale
        self.seeds, self.store, self.results = seeds, store, results

    def train(self, config: RunConfig, name: str, tell: Tell, stop: Stop) -> str:
        """Train a run to its end; what went wrong, or nothing."""

        def report(now: Report) -> None:
            tell(now.step / now.steps, "")

        try:
            run = self.store.train(config, name=name, report=report, stop=stop)
            return "" if run.finished else STOPPED
        except DivergenceError:  # it has ended, and studies show that it failed
            return ""
        except StartOverError as error:  # it names an option that only `innerloop train` has
            folder = self.store.place(config)
            ways = " or ".join([*([error.other] if error.other else []), f"remove {folder}"])
            return f"{error.problem}: {ways}, and give the same command again."
        except Exception as error:
            return in_words(error)

    def measure(self, study: Study, tell: Tell, stop: Stop) -> str:
        """Measure a study and write its results; what went wrong, or nothing.

        A study is a user's own code: whatever it raises is written down, and the others go on.
        """
        try:
            measure(
                study, scale=self.scale, seeds=self.seeds, store=self.store, results=self.results,
                tell=lambda what: tell(0.5, what), stop=stop,
            )  # fmt: skip
        except StoppedError:
            return STOPPED
        except InnerloopError as error:
            return str(error)
        except Exception as error:
            file = place(self.results, study, self.scale) / ERROR
            text = traceback.format_exc()
            try:
                write_atomically(file, lambda path: path.write_text(text))
            except Exception:  # perhaps it is the folder that the study has failed on
                return in_words(error)
            return f"{in_words(error)} (see {file})"
        return ""


def in_words(error: BaseException) -> str:
    """A sentence of ours as it is; anything else with its type."""
    return str(error) if isinstance(error, InnerloopError) else f"{type(error).__name__}: {error}"


def in_turn(board: Board, worker: Worker, stop: Stop, look: Callable[[], None]) -> Iterator[Job]:
    """Do the jobs of a board one after the other in this process; each that has ended."""
    while not stop() and (job := board.next()) is not None:
        job.state = "running"
        look()

        def tell(share: float, what: str, job: Job = job) -> None:
            job.share, job.doing = share, what
            look()

        if job.study is not None:
            error = worker.measure(job.study, tell, stop)
        else:
            assert job.config is not None
            error = worker.train(job.config, job.name, tell, stop)
        if error == STOPPED:
            job.state = "waiting"
            return
        fallen = board.finish(job, error)
        look()
        yield from (job, *fallen)
