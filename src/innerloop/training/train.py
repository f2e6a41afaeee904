"""Training a run in its folder: from its last checkpoint, or from the start, to its end."""

import json
import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from io import FileIO
from typing import Any

import torch

from innerloop.core.files import append_whole, open_own, writing
from innerloop.training.config import RunConfig
from innerloop.training.distributed import ALONE, Processes
from innerloop.training.divergence import DivergenceError, require_finite
from innerloop.training.estimate import RunCost, seconds_left, usual_pace
from innerloop.training.run import METRICS, TIMINGS, Run
from innerloop.training.state_file import STATE, StartOverError
from innerloop.training.trainer import Taken, Trainer


@dataclass(frozen=True, slots=True)
class Report:
    """How a run is doing."""

    step: int
    """Updates so far."""
    steps: int
    loss: float
    """The smoothed training loss."""
    error: float | None
    """On held-out prompts, at the last prefix, when it was last measured."""
    loops: int | None
    dims: int
    points: int
    steps_per_second: float
    seconds_left: float


Listener = Callable[[Report], None]


def train(
    run: Run,
    *,
    report: Listener | None = None,
    stop: Callable[[], bool],
    processes: Processes = ALONE,
) -> None:
    """Train a run until it is finished, has diverged, or `stop` says so; then save it.

    Whoever calls it holds the run's lock. Of several processes the first has the lock, reads what
    there is, and writes; the others need not even see the folder.
    """
    _require_alike(run.config, processes)
    stored = processes.from_first(lambda: _stored(run))
    if stored is not None and stored["finished"]:
        return
    threads = processes.from_first(lambda: _threads(run.config, stored, processes))
    with _using(threads, run):
        trainer = Trainer(run.config, processes)
        if stored is not None:
            _restore(trainer, stored, run)
        with _metrics(run, stored) if processes.first else nullcontext() as metrics:
            session = _Session(run, trainer, metrics, threads, report)
            try:
                session.work(stop, stored)
            except DivergenceError as failure:
                session.conclude({"step": trainer.step, "diverged": str(failure)})
                raise


class _Session:
    """One stretch of training, from a checkpoint on."""

    def __init__(
        self,
        run: Run,
        trainer: Trainer,
        metrics: FileIO | None,
        threads: int,
        report: Listener | None,
    ) -> None:
        """Without a file for `metrics`, nothing is written: another process does."""
        self.run, self.trainer, self.metrics = run, trainer, metrics
        self.config, self.processes = run.config, trainer.processes
        self.threads, self.report = threads, report
        self.error: float | None = None
        self.clock = _Clock(run.config, trainer.step)

    def work(self, stop: Callable[[], bool], stored: dict[str, Any] | None) -> None:
        """Take steps until there is a reason to stop."""
        self._time(0.0, None)  # a stretch begins
        if stored is not None:
            self.error = stored["error"]
        else:
            # Not evaluated yet: at the papers' sizes that takes longer than the first steps.
            self._save(finished=False)
        steps, every = self.config.steps, self.config.save_every
        while self.trainer.step < steps:
            if self.processes.any(stop()):
                self._save(finished=False)
                return
            if self._step():
                break
            if self.trainer.step % every == 0 and self.trainer.step < steps:
                self._save(finished=False)
        self.trainer.divergence.conclude()
        if not self._save(finished=True):
            raise DivergenceError(
                f"step {self.trainer.step}, the last, has ruined the weights: the run has "
                "diverged, lower the learning rate or clip the gradient."
            )

    def _step(self) -> bool:
        """One step and what is written about it; whether the target is reached."""
        taken = self.trainer.take_step()
        step, last = self.trainer.step, self.trainer.step == self.config.steps
        row: dict[str, Any] = {"step": step}
        if step % self.config.log_every == 0 or last:
            row |= self._measures(taken)
        if step % self.config.evaluate_every == 0 or last:
            self.error = row["error"] = self.trainer.error()
            require_finite("held-out error", self.error, step)
        if len(row) > 1:
            self.write(row)
            self._tell(taken)
        target = self.config.target
        return target is not None and row.get("error", target) < target

    def _measures(self, taken: Taken) -> dict[str, Any]:
        """What a line of metrics says of a step."""
        sizes = taken.sizes
        measures = {
            "loss": taken.loss,
            "smoothed": self.trainer.divergence.smoothed,
            "gradient": taken.gradient,
            "rate": self.config.optimizer.factor(self.trainer.step - 1, self.config.steps),
            "dims": sizes.dims,
            "points": sizes.points,
        }
        return measures if sizes.loops is None else {**measures, "loops": sizes.loops}

    def write(self, row: dict[str, Any]) -> None:
        """A line of metrics."""
        if self.metrics is None:
            return
        # A whole line at a time: a kill leaves at most one that has no end.
        line = (json.dumps(row, allow_nan=False) + "\n").encode()
        append_whole(self.metrics, line, self.run.path / METRICS)

    def conclude(self, row: dict[str, Any]) -> None:
        """The last line of metrics of a run that is given up: no checkpoint vouches for it."""
        if self.metrics is None:
            return
        append_whole(self.metrics, self.run.last_row(row), self.run.path / METRICS)

    def _tell(self, taken: Taken) -> None:
        speed, left = self.clock.look(self.trainer.step)
        self._time(self.clock.elapsed, speed)
        if self.report is None:
            return
        sizes = taken.sizes
        now = Report(
            self.trainer.step, self.config.steps, self.trainer.divergence.smoothed, self.error,
            sizes.loops, sizes.dims, sizes.points, steps_per_second=speed, seconds_left=left,
        )  # fmt: skip
        self.report(now)

    def _time(self, seconds: float, speed: float | None) -> None:
        """A line of timings: apart from metrics, which are the same whenever a run is stopped."""
        if self.metrics is None:
            return
        line = {"step": self.trainer.step, "seconds": seconds, "speed": speed}
        path = self.run.path / TIMINGS
        with open_own(path, "a") as file:
            # What a kill has cut off ends here, and does not spoil this line.
            cut = "\n" if speed is None and file.tell() > 0 else ""
            append_whole(file, f"{cut}{json.dumps(line)}\n".encode(), path)

    def _save(self, *, finished: bool) -> bool:
        """Write a checkpoint, and say so, unless the run seems to diverge."""
        if self.trainer.divergence.suspicious or not self.trainer.sound():
            return False
        self.processes.require_same_weights(self.trainer.model, self.trainer.step)
        if self.metrics is not None:
            self._write_checkpoint(self.metrics, finished=finished)
        self.processes.wait()  # or one may leave, and torchrun end this one, before it is written
        return True

    def _write_checkpoint(self, metrics: FileIO, *, finished: bool) -> None:
        with writing(self.run.path / METRICS):
            os.fsync(metrics.fileno())
        state = {
            **self.trainer.state(),
            "finished": finished,
            "metrics": metrics.tell(),
            "error": self.error,
            "threads": self.threads,
            "processes": self.processes.number,
            "torch": str(torch.__version__),
        }
        self.run.write_checkpoint(self.trainer.result, state)


class _Clock:
    """How long steps take, and how much time is left."""

    def __init__(self, config: RunConfig, step: int) -> None:
        self.cost, self.pace = RunCost(config), usual_pace(config)
        self.first = step
        self.began = time.perf_counter()
        self.last = (step, self.began)

    @property
    def elapsed(self) -> float:
        """Seconds since the stretch began."""
        return time.perf_counter() - self.began

    def look(self, step: int) -> tuple[float, float]:
        """Steps per second since the last look, and the seconds that are left."""
        now = time.perf_counter()
        speed = (step - self.last[0]) / max(now - self.last[1], 1e-9)
        self.last = (step, now)
        whole, done = self.cost.whole, self.cost.until(step)
        left = seconds_left(
            whole=whole, done=done, before=self.cost.until(self.first), elapsed=self.elapsed,
            expected=(whole - done) / self.pace,
        )  # fmt: skip
        return speed, left


def _stored(run: Run) -> dict[str, Any] | None:
    """The last checkpoint of a run that may go on; None before there is one."""
    if run.diverged is not None:
        raise DivergenceError(f"{run.name} was given up before: {run.diverged}")
    stored = run.read_state() if (run.path / STATE).is_file() else None
    if stored is None or not stored["finished"]:
        run.sweep()
    return stored


def _require_alike(config: RunConfig, processes: Processes) -> None:
    """Refuse processes that would not train the same run."""
    if processes.number == 1:
        return
    processes.require_same("the run", config.model_dump_json(), "give all the same command")
    processes.require_same("torch", str(torch.__version__), "install one version for all")
    processes.require_same("the data", config.task.data_digest(), "give all the same files")


def _restore(trainer: Trainer, stored: dict[str, Any], run: Run) -> None:
    """Put a trainer where the last checkpoint left it."""
    if stored["torch"] != torch.__version__:
        raise StartOverError(
            f"{run.name} was begun with torch {stored['torch']}, and would not go on bit for bit "
            f"with {torch.__version__}", run.path, other="install the other",
        )  # fmt: skip
    data = trainer.config.task.data_digest()
    if stored.get("data") != data:
        raise StartOverError(
            f"{run.name} was begun with other data ({stored.get('data')}) than are here ({data}), "
            "and would not go on bit for bit", run.path, other="put the others back",
        )  # fmt: skip
    try:
        trainer.load_state(stored)
    except (RuntimeError, ValueError, KeyError, TypeError) as error:
        raise StartOverError(
            f"{run.path / STATE} does not fit the model of {run.name}", run.path
        ) from error


@contextmanager
def _metrics(run: Run, stored: dict[str, Any] | None) -> Iterator[FileIO]:
    """The file of metrics, as it was at the last checkpoint; the configuration is beside it."""
    path = run.path / METRICS
    if stored is None:
        path.unlink(missing_ok=True)
    else:
        with open_own(path, "a") as file, writing(path):
            file.truncate(int(stored["metrics"]))
    run.write_config()
    with open_own(path, "a") as file:
        yield file


def _threads(config: RunConfig, stored: dict[str, Any] | None, processes: Processes) -> int:
    """The threads that a run began with, or begins with: their number changes the bits.

    So does the number of processes: where that has changed, so may the threads of each.
    """
    if stored is not None and stored.get("processes", 1) == processes.number:
        return int(stored["threads"])
    return torch.get_num_threads() if config.threads is None else config.threads


@contextmanager
def _using(threads: int, run: Run) -> Iterator[None]:
    """Let torch have so many threads, and as many as before in the end."""
    before = torch.get_num_threads()
    torch.set_num_threads(threads)
    try:
        if torch.get_num_threads() != threads:
            raise StartOverError(
                f"torch cannot have {threads} threads here, with which {run.name} began", run.path,
                other="allow them",
            )  # fmt: skip
        yield
    finally:
        torch.set_num_threads(before)
