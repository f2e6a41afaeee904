"""Runs by the hash of their configuration."""

import os
from collections.abc import Callable
from contextlib import nullcontext
from pathlib import Path

from innerloop.core.errors import ConfigurationError, InnerloopError
from innerloop.core.files import slug
from innerloop.models.checkpoint import CONFIG
from innerloop.training.config import RunConfig
from innerloop.training.distributed import ALONE, Processes
from innerloop.training.feasible import require_feasible
from innerloop.training.lock import locked
from innerloop.training.progress import shown_progress
from innerloop.training.run import Run
from innerloop.training.train import Listener
from innerloop.training.train import train as train_in_folder

VARIABLE = "INNERLOOP_RUNS"
"""The environment variable that says where runs are kept."""


class Store:
    """A folder of runs; asking for a run that exists returns it."""

    def __init__(self, root: Path | str | None = None) -> None:
        """Runs are kept in `root`; by default where INNERLOOP_RUNS says, else in ./runs."""
        self.root = Path(root if root is not None else os.environ.get(VARIABLE) or "runs")

    def find(self, config: RunConfig) -> Run | None:
        """The run of a configuration, finished or not."""
        folder = self._folder(config)
        return Run.open(folder) if folder is not None and (folder / CONFIG).is_file() else None

    def runs(self) -> list[Run]:
        """All runs that can be read, by name: one broken folder does not hide the others."""
        return [run for run in self._opened().values() if isinstance(run, Run)]

    def unread(self) -> dict[Path, InnerloopError]:
        """The folders of all other runs, and why each cannot be read."""
        opened = self._opened().items()
        return {path: error for path, error in opened if isinstance(error, InnerloopError)}

    def _opened(self) -> dict[Path, Run | InnerloopError]:
        """By folder, its run, or why there is none."""
        opened: dict[Path, Run | InnerloopError] = {}
        for path in sorted(self.root.glob(f"*/{CONFIG}")):
            try:
                opened[path.parent] = Run.open(path.parent)
            except InnerloopError as error:
                opened[path.parent] = error
        return opened

    def train(
        self,
        config: RunConfig,
        *,
        name: str | None = None,
        report: Listener | None = None,
        stop: Callable[[], bool] | None = None,
        fresh: bool = False,
        processes: Processes = ALONE,
    ) -> Run:
        """The finished run of a configuration: at once if it exists, resumed if it was interrupted.

        A new run's folder begins with `name`, or with the name of its task. Where `stop` returns
        True between two steps, the run is saved and returned unfinished. With `fresh` what there is
        of the run is thrown away first. Where several `processes` train it, all of them call this,
        and the first alone opens the folder.
        """
        run = Run(self.place(config, name), config)
        if not fresh and processes.from_first(lambda: self._finished(config)):
            return run
        # Before a folder is made for what cannot run.
        processes.require_shareable(config.batch * config.accumulate, config.device)
        require_feasible(config)
        with locked(run.path) if processes.first else nullcontext():
            if fresh and processes.first:
                run.clear()
            train_in_folder(run, report=report, stop=stop or _never, processes=processes)
        return run

    def _finished(self, config: RunConfig) -> bool:
        """Whether there is a finished run of a configuration."""
        run = self.find(config)
        return run is not None and run.finished

    def place(self, config: RunConfig, name: str | None = None) -> Path:
        """The folder of a configuration's run: where it is, or where it would be."""
        fresh = self.root / f"{slug(name or config.task_name)}-{config.key()}"
        return self._folder(config) or fresh

    def _folder(self, config: RunConfig) -> Path | None:
        """The folder of a configuration, whatever its name begins with; None if there is none."""
        return min(self.root.glob(f"*-{config.key()}"), default=None)


def train(
    config: RunConfig,
    *,
    store: Store | Path | str | None = None,
    name: str | None = None,
    progress: bool = False,
    fresh: bool = False,
) -> Run:
    """The finished run of a configuration: at once if it exists, resumed if it was interrupted.

    Runs are kept in a `store`, or in the folder that it names: by default where INNERLOOP_RUNS
    says, else in ./runs. A new run's folder begins with `name`, or with the name of its task. A
    bar shows how it goes with `progress`; `fresh` starts over.
    """
    if not isinstance(config, RunConfig):
        raise ConfigurationError(
            f"config is {config!r}, expected a RunConfig: training.recipe('looped-linear') is one."
        )
    runs = store if isinstance(store, Store) else Store(store)
    with shown_progress(name or config.task_name) if progress else nullcontext() as listener:
        return runs.train(config, name=name, report=listener, fresh=fresh)


def _never() -> bool:
    return False
