"""Studies as jobs of the engine: their runs, each once, then each study."""

import sys
import traceback
from collections.abc import Iterable
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any, ClassVar

from innerloop.core.errors import ConfigurationError, InnerloopError
from innerloop.core.files import write_atomically
from innerloop.engine.job import Job, Stop, Tell, Work, in_words
from innerloop.engine.trainings import training_job
from innerloop.studies.lab import StoppedError
from innerloop.studies.measuring import measure
from innerloop.studies.result import ERROR, place
from innerloop.studies.seeds import Seeds
from innerloop.studies.study import Study
from innerloop.training.families import Scale
from innerloop.training.store import Store

_MINUTES = {"smoke": 0.05, "laptop": 3.0, "desk": 10.0, "paper": 60.0}
"""Minutes that a study takes beside its runs, about."""


@dataclass(frozen=True, slots=True)
class Measuring(Work):
    """A study, measured on its finished runs, with its results written."""

    verb: ClassVar[str] = "measuring"

    study: Study
    scale: Scale
    seeds: Seeds
    store: Store
    results: Path

    def do(self, tell: Tell, stop: Stop) -> bool:
        """Measure it; a study is a user's own code: where it raises something is written down."""
        try:
            measure(
                self.study, scale=self.scale, seeds=self.seeds, store=self.store,
                results=self.results, tell=lambda what: tell(0.5, what), stop=stop,
            )  # fmt: skip
        except StoppedError:
            return False
        except InnerloopError:
            raise
        except Exception as error:
            text, file = traceback.format_exc(), place(self.results, self.study, self.scale) / ERROR
            try:
                write_atomically(file, lambda path: path.write_text(text))
            except Exception:  # perhaps it is the folder that the study has failed on
                raise error from None
            raise InnerloopError(f"{in_words(error)} (see {file})") from error
        return True

    def __reduce__(self) -> tuple[Any, ...]:
        """How it is sent: a study has functions without a name, and goes by its own."""
        return _read, (*address(self.study), self.scale, self.seeds, self.store, self.results)


def _read(module: str, name: str, *settings: Any) -> Measuring:
    return Measuring(getattr(import_module(module), name), *settings)


def address(study: Study) -> tuple[str, str]:
    """The module and the name under which another process finds a study, or an error."""
    module = sys.modules.get(study.measure.__module__)
    # What was typed into a shell or a notebook is in no file that could be imported there.
    if module is not None and hasattr(module, "__file__"):
        for name, value in vars(module).items():
            if value is study:
                return module.__name__, name
    raise ConfigurationError(
        f"{study.name} cannot be measured in another process, as it is no variable of the module "
        "of its function: use workers=1, or define it at the top of a file."
    )


@dataclass(frozen=True, slots=True)
class StudyJobs:
    """The jobs of some studies."""

    runs: dict[str, Job]
    """By the key of the configuration: a run that several studies need is one job."""
    measures: dict[Job, Study]
    """What is measured on them."""

    @property
    def all(self) -> tuple[Job, ...]:
        """All of them, runs first."""
        return (*self.runs.values(), *self.measures)


def study_jobs(
    studies: Iterable[Study], *, scale: Scale, seeds: Seeds, store: Store, results: Path
) -> StudyJobs:
    """The jobs of studies; runs that are finished in the store are none."""
    runs: dict[str, Job | None] = {}
    measures: dict[Job, Study] = {}
    for study in studies:
        needs: dict[str, Job] = {}
        for (label, _), config in study.seeded_runs(scale, seeds).items():
            key = config.key()
            if key not in runs:
                runs[key] = training_job(
                    config, label=label, name=label, store=store, may_diverge=True
                )
            if (run := runs[key]) is not None:
                needs[key] = run
        work = Measuring(study, scale, seeds, store, results)
        needed = tuple(needs.values())
        measures[Job(study.name, work, _MINUTES[scale], needs=needed, early=True)] = study
    return StudyJobs({key: job for key, job in runs.items() if job is not None}, measures)
