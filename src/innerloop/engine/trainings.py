"""Runs as jobs: each trained to its end in a store, or carried there from another machine."""

from dataclasses import dataclass, replace
from pathlib import Path
from typing import ClassVar

from innerloop.core.errors import InnerloopError
from innerloop.engine.archive import pack_run, unpack_run
from innerloop.engine.job import Job, PortableWork, Stop, Tell
from innerloop.training.config import RunConfig
from innerloop.training.divergence import DivergenceError
from innerloop.training.estimate import training_seconds
from innerloop.training.run import StartOverError
from innerloop.training.store import Store
from innerloop.training.train import Report

_BEGINNING = 0.02
"""Minutes that a run takes beside its steps."""


@dataclass(frozen=True, slots=True)
class Training(PortableWork):
    """A run, trained to its end."""

    verb: ClassVar[str] = "training"
    saves: ClassVar[bool] = True

    config: RunConfig
    name: str
    """What the folder of a new run begins with."""
    store: Store
    fresh: bool = False
    """Whether to throw away what there is of it."""
    may_diverge: bool = False
    """Whether a run that diverges is done, as others look at how it ended, or has failed."""

    def do(self, tell: Tell, stop: Stop) -> bool:
        """Train it from its last checkpoint."""

        def report(now: Report) -> None:
            tell(now.step / now.steps, f"{now.step / now.steps:.0%}, loss {now.loss:.3g}")

        try:
            run = self.store.train(
                self.config, name=self.name, report=report, stop=stop, fresh=self.fresh
            )
            return run.finished
        except DivergenceError:
            if self.may_diverge:
                return True
            raise
        except StartOverError as error:  # it names an option that only `innerloop train` has
            folder = self.store.place(self.config)
            ways = " or ".join([*([error.other] if error.other else []), f"remove {folder}"])
            raise InnerloopError(
                f"{error.problem}: {ways}, and give the same command again."
            ) from error

    @property
    def home(self) -> Path:
        """The store."""
        return self.store.root

    def within(self, home: Path) -> "Training":
        """The same run in another store."""
        return replace(self, store=Store(home))

    def pack(self) -> bytes:
        """The files of the run so far."""
        return pack_run(self.store.place(self.config, self.name))

    def unpack(self, archive: bytes) -> None:
        """Put the files of a run in the place of those that are here."""
        unpack_run(archive, self.store.place(self.config, self.name))


def training_job(
    config: RunConfig,
    *,
    label: str,
    name: str,
    store: Store,
    may_diverge: bool = False,
    retry: bool = False,
) -> Job | None:
    """The job of what is left of a run; None where it is finished, or was given up.

    With `retry`, one that was given up or is damaged starts over.
    """
    spoiled, share = False, 0.0
    try:
        run = store.find(config)
        if run is not None:
            spoiled = run.diverged is not None
            if run.finished or (spoiled and not retry):
                return None
            share = 0.0 if spoiled else run.step / config.steps
    except InnerloopError:
        spoiled = True  # its training will say so, and the other jobs are done
    work = Training(config, name, store, fresh=spoiled and retry, may_diverge=may_diverge)
    minutes = training_seconds(config) / 60 + _BEGINNING
    return Job(label, work, minutes, share=share, before=share)
