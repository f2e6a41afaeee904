"""Runs by the hash of their configuration."""

import os
from collections.abc import Callable
from pathlib import Path

from innerloop.core.errors import InnerloopError
from innerloop.core.files import slug
from innerloop.models.checkpoint import CONFIG
from innerloop.training.config import RunConfig
from innerloop.training.lock import locked
from innerloop.training.run import Run
from innerloop.training.train import Listener, train
from innerloop.training.trainer import available

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
        """All runs that can be read, by name."""
        runs: list[Run] = []
        for path in sorted(self.root.glob(f"*/{CONFIG}")):
            try:
                runs.append(Run.open(path.parent))
            except InnerloopError:
                continue  # one broken folder does not hide the others
        return runs

    def train(
        self,
        config: RunConfig,
        *,
        name: str | None = None,
        report: Listener | None = None,
        stop: Callable[[], bool] | None = None,
        fresh: bool = False,
    ) -> Run:
        """The finished run of a configuration: at once if it exists, resumed if it was interrupted.

        A new run's folder begins with `name`, or with the name of its task. Where `stop` returns
        True between two steps, the run is saved and returned unfinished. With `fresh` what there is
        of the run is thrown away first.
        """
        run = None if fresh else self.find(config)
        if run is None:
            run = Run(self.place(config, name), config)
        elif run.finished:
            return run
        available(config.device)  # before a folder is made for what cannot run
        with locked(run.path):
            if fresh:
                run.clear()
            # The settings that the key leaves out are those asked for now.
            run = Run(run.path, config)
            train(run, report=report, stop=stop or _never)
        return run

    def place(self, config: RunConfig, name: str | None = None) -> Path:
        """The folder of a configuration's run: where it is, or where it would be."""
        fresh = self.root / f"{slug(name or config.task_name)}-{config.key()}"
        return self._folder(config) or fresh

    def _folder(self, config: RunConfig) -> Path | None:
        """The folder of a configuration, whatever its name begins with; None if there is none."""
        return min(self.root.glob(f"*-{config.key()}"), default=None)


def _never() -> bool:
    return False
