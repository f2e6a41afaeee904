"""Optional trackers: a run's reports in TensorBoard or Weights & Biases."""

import importlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Literal

from innerloop.core.errors import ConfigurationError
from innerloop.training.config import RunConfig
from innerloop.training.train import Listener, Report

Tracker = Literal["tensorboard", "wandb"]
_MODULES = {"tensorboard": "torch.utils.tensorboard", "wandb": "wandb"}


@contextmanager
def tracking(tracker: Tracker, folder: Path, config: RunConfig) -> Iterator[Listener]:
    """Open a tracker that writes into a folder; what it yields takes reports."""
    module = _imported(tracker)
    if tracker == "tensorboard":
        with module.SummaryWriter(log_dir=str(folder)) as writer:
            yield _listener(lambda name, value, step: writer.add_scalar(name, value, step))
        return
    folder.mkdir(parents=True, exist_ok=True)  # wandb does not make it
    run = module.init(
        project="innerloop",
        id=config.key(),
        name=folder.name,
        dir=str(folder),
        config=config.model_dump(mode="json"),
        resume="allow",
    )
    with run:
        yield _listener(lambda name, value, step: run.log({name: value}, step=step))


def _listener(log: Callable[[str, float, int], Any]) -> Listener:
    def listen(report: Report) -> None:
        values = {
            "loss": report.loss,
            "error": report.error,
            "loops": report.loops,
            "dims": report.dims,
            "points": report.points,
            "steps_per_second": report.steps_per_second,
        }
        for name, value in values.items():
            if value is not None:
                log(name, float(value), report.step)

    return listen


def _imported(tracker: Tracker) -> Any:
    try:
        return importlib.import_module(_MODULES[tracker])
    except ImportError as error:
        raise ConfigurationError(
            f"{tracker} is not installed: leave --track out, or install it with "
            "`pip install 'innerloop[track]'`."
        ) from error
