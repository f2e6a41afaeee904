"""A run on disk: a folder with its configuration, metrics, weights and state."""

import json
import re
from pathlib import Path
from typing import Any

import pandas as pd
import torch
from pydantic import ValidationError

from innerloop.core.errors import InnerloopError
from innerloop.core.explain import explain
from innerloop.core.files import write_atomically
from innerloop.core.task import Task
from innerloop.models.checkpoint import CONFIG, WEIGHTS, load, write_weights
from innerloop.models.model import AnyModel
from innerloop.training.config import RunConfig

METRICS, STATE = "metrics.jsonl", "state.pt"
TIMINGS = "timings.jsonl"
"""How long steps took: apart from the metrics, which are the same whenever a run is repeated."""
FORMAT = 1
_NEEDED = {
    "format", "key", "step", "finished", "metrics", "error", "threads", "torch",
    "weights", "optimizers", "divergence",
}  # fmt: skip
_KEY = re.compile(r"-([0-9a-f]{16})$")


class RunError(InnerloopError):
    """A run's folder that cannot be used as it is."""


class Run:
    """A trained model, or one in training, in its folder.

    `state.pt` says how far it is and is what it resumes from; `weights.safetensors` with
    `config.json` is what everything else loads.
    """

    def __init__(self, path: Path, config: RunConfig) -> None:
        """Use `Run.open`, or a `Store`."""
        self.path = path
        self.config = config

    @classmethod
    def open(cls, path: Path | str) -> "Run":
        """The run in a folder; a RunError if there is none, or its configuration is another's."""
        path = Path(path)
        config = read_config(path / CONFIG)
        named = _KEY.search(path.name)
        if named is not None and named[1] != config.key():
            raise RunError(
                f"{path / CONFIG} is not the configuration that {path.name} was made with (its key "
                f"is {config.key()}): put the right one back, or delete the folder."
            )
        return cls(path, config)

    @property
    def name(self) -> str:
        """That of its folder."""
        return self.path.name

    @property
    def task(self) -> Task:
        """What it learns."""
        return self.config.task

    @property
    def step(self) -> int:
        """Updates in its last checkpoint; 0 before there is one."""
        return int(self.read_state()["step"]) if self._has_state else 0

    @property
    def finished(self) -> bool:
        """Whether nothing is left to train."""
        return self._has_state and bool(self.read_state()["finished"])

    @property
    def diverged(self) -> str | None:
        """Why training was given up, if it was."""
        rows = self._rows()
        return rows[-1].get("diverged") if rows else None

    def metrics(self) -> pd.DataFrame:
        """One row a line of metrics.jsonl: step, loss, error, ..; NaN where nothing is known."""
        return pd.DataFrame([row for row in self._rows() if "diverged" not in row])

    def model(self) -> AnyModel:
        """The model with the weights of the last checkpoint, ready to predict."""
        return load(self.path).eval()

    def read_state(self) -> dict[str, Any]:
        """The last checkpoint; a RunError if it is damaged, or another run's."""
        return read_state(self.path / STATE, self.config.key())

    @property
    def _has_state(self) -> bool:
        return (self.path / STATE).is_file()

    def _rows(self) -> list[dict[str, Any]]:
        path = self.path / METRICS
        if not path.is_file():
            return []
        # A line without an end was cut off by a kill, and is written again on resuming.
        lines = path.read_text().splitlines(keepends=True)
        try:
            return [json.loads(line) for line in lines if line.endswith("\n")]
        except json.JSONDecodeError as error:
            raise RunError(
                f"{path} holds a line that is not JSON: {_start_over(self.path)}."
            ) from error

    def write_config(self) -> None:
        """Write the configuration."""
        text = json.dumps(self.config.model_dump(mode="json"), indent=1) + "\n"
        write_atomically(self.path / CONFIG, lambda file: file.write_text(text))

    def write_checkpoint(self, model: AnyModel, state: dict[str, Any]) -> None:
        """Write weights, then the state, which counts: a kill between the two does no harm."""
        write_weights(model, self.path / WEIGHTS)
        whole = {"format": FORMAT, "key": self.config.key(), **state}
        write_atomically(self.path / STATE, lambda file: torch.save(whole, file))

    def sweep(self) -> None:
        """Remove the halves of files that killed processes have left; the lock must be held."""
        for name in (STATE, CONFIG, WEIGHTS):
            stem, suffix = name.split(".")
            for half in self.path.glob(f".{stem}-*.{suffix}"):
                half.unlink()

    def clear(self) -> None:
        """Remove all that was written, but for the lock."""
        for name in (STATE, CONFIG, METRICS, TIMINGS, WEIGHTS):
            (self.path / name).unlink(missing_ok=True)


def read_config(path: Path) -> RunConfig:
    """The configuration in a file; a RunError if there is none."""
    try:
        return RunConfig.model_validate(json.loads(path.read_text()))
    except OSError as error:
        raise RunError(
            f"cannot read {path}: {error.strerror or error}. Give the folder of a run."
        ) from error
    except ValidationError as error:
        raise RunError(f"{path} is not a run's: {explain(error, RunConfig)}") from error
    except ValueError as error:
        raise RunError(f"{path} is not JSON: give the folder of a run.") from error


def read_state(path: Path, key: str) -> dict[str, Any]:
    """The state in a file, of the run with this key; nothing in the file is ever executed."""
    try:
        state = torch.load(path, map_location="cpu", weights_only=True)
    except (FileNotFoundError, PermissionError) as error:
        raise RunError(f"cannot read {path}: {error.strerror}.") from error
    # What a damaged or foreign file raises is not documented: anything but an interrupt.
    except Exception as error:
        raise RunError(
            f"{path} is damaged, or no state of a run: {_start_over(path.parent)}."
        ) from error
    if not isinstance(state, dict) or not _NEEDED <= set(state) or state["format"] != FORMAT:
        raise RunError(f"{path} holds no state of a run: {_start_over(path.parent)}.")
    if state["key"] != key:
        raise RunError(
            f"{path} is the state of another run, {state['key']}: {_start_over(path.parent)}."
        )
    return state


def _start_over(folder: Path) -> str:
    return f"delete the folder {folder.name}, or train with --fresh, to start over"
