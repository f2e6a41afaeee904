"""A run on disk: a folder with its configuration, metrics, weights and state."""

import json
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from pydantic import ValidationError

from innerloop.core.errors import InnerloopError
from innerloop.core.explain import explain
from innerloop.core.files import write_atomically
from innerloop.core.task import Task
from innerloop.models.checkpoint import CONFIG, WEIGHTS, load, write_weights
from innerloop.models.model import AnyModel
from innerloop.training.config import RunConfig
from innerloop.training.task_field import not_imported

if TYPE_CHECKING:
    import pandas as pd

METRICS, STATE = "metrics.jsonl", "state.pt"
TIMINGS = "timings.jsonl"
"""How long steps took: apart from the metrics, which are the same whenever a run is repeated."""
TOKENIZER = "tokenizer.json"
"""The tokeniser of a run on texts, so that its model can be used where its data are not."""
FORMAT = 1
_NEEDED = {
    "format", "key", "step", "finished", "metrics", "error", "threads", "torch",
    "weights", "optimizers", "divergence",
}  # fmt: skip
_KEY = re.compile(r"-([0-9a-f]{16})$")


class RunError(InnerloopError):
    """A run's folder that cannot be used as it is."""


class NotImportedError(RunError):
    """A run of a task of one's own, whose class nobody has imported."""

    def __init__(self, task: str, problem: str, path: Path) -> None:
        """The task is `module:class`; the sentence says the problem and what to do."""
        self.task = task
        super().__init__(f"{path} cannot be used: {problem}.")


class StartOverError(RunError):
    """A run that can neither be used nor resumed: what there is of it must go."""

    def __init__(self, problem: str, folder: Path, other: str = "") -> None:
        """The sentence says the problem, and what to do: `other`, if there is another way out.

        Whoever trains by another command than `innerloop train` writes the second half anew.
        """
        self.problem = problem
        ways = ", ".join([*([other] if other else []), f"delete the folder {folder.name}"])
        super().__init__(f"{problem}: {ways}, or train with --fresh, to start over.")


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
        state = self._glance()
        return 0 if state is None else int(state["step"])

    @property
    def finished(self) -> bool:
        """Whether nothing is left to train."""
        state = self._glance()
        return state is not None and bool(state["finished"])

    @property
    def seconds(self) -> float:
        """How long it was trained, over all its stretches."""
        total = last = 0.0
        for line in self._lines(TIMINGS):
            try:
                seconds = float(json.loads(line)["seconds"])
            except (ValueError, KeyError, TypeError):
                continue  # cut off by a kill
            if seconds < last:  # a new stretch: each counts its seconds from zero
                total += last
            last = seconds
        return total + last

    @property
    def diverged(self) -> str | None:
        """Why training was given up, if it was."""
        rows = self._rows()
        return rows[-1].get("diverged") if rows else None

    def metrics(self) -> "pd.DataFrame":
        """One row per line of metrics.jsonl: step, loss, error, ..; NaN where nothing is known."""
        import pandas as pd  # which nothing else here needs

        return pd.DataFrame([row for row in self._rows() if "diverged" not in row])

    def model(self) -> AnyModel:
        """The model with the weights of the last checkpoint, ready to predict."""
        return load(self.path).eval()

    def read_state(self) -> dict[str, Any]:
        """The last checkpoint; a RunError if it is damaged, or another run's."""
        return read_state(self.path / STATE, self.config.key())

    def _glance(self) -> dict[str, Any] | None:
        """The last checkpoint without reading its tensors; None before there is one."""
        path = self.path / STATE
        return read_state(path, self.config.key(), mapped=True) if path.is_file() else None

    def _lines(self, name: str) -> list[str]:
        """The whole lines of a file; one without an end was cut off by a kill."""
        path = self.path / name
        if not path.is_file():
            return []
        try:
            lines = path.read_text("utf-8").splitlines(keepends=True)
        except (OSError, UnicodeDecodeError) as error:
            raise StartOverError(f"{path} cannot be read as text", self.path) from error
        return [line for line in lines if line.endswith("\n")]

    def _rows(self) -> list[dict[str, Any]]:
        try:
            rows = [json.loads(line) for line in self._lines(METRICS)]
        except json.JSONDecodeError as error:
            raise StartOverError(
                f"{self.path / METRICS} holds a line that is not JSON", self.path
            ) from error
        if not all(isinstance(row, dict) for row in rows):
            raise StartOverError(
                f"{self.path / METRICS} holds a line that is no row of metrics", self.path
            )
        return rows

    def read_tokenizer(self) -> str:
        """The tokeniser that it was trained with, as JSON; a RunError if it has none."""
        path = self.path / TOKENIZER
        try:
            return path.read_text("utf-8")
        except (OSError, UnicodeDecodeError) as error:
            raise RunError(
                f"cannot read {path}: give the whole folder of a run that was trained on texts."
            ) from error

    def write_config(self) -> None:
        """Write the configuration, and the tokeniser where there is one."""
        text = json.dumps(self.config.model_dump(mode="json"), indent=1) + "\n"
        write_atomically(self.path / CONFIG, lambda file: file.write_text(text))
        tokenizer = self.task.tokenizer_text()
        if tokenizer is not None:
            write_atomically(
                self.path / TOKENIZER, lambda file: file.write_text(tokenizer, "utf-8")
            )

    def write_checkpoint(self, model: AnyModel, state: dict[str, Any]) -> None:
        """Write weights, then the state, which counts: a kill between the two does no harm."""
        write_weights(model, self.path / WEIGHTS)
        whole = {"format": FORMAT, "key": self.config.key(), **state}
        write_atomically(self.path / STATE, lambda file: torch.save(whole, file))

    def sweep(self) -> None:
        """Remove the halves of files that killed processes have left; the lock must be held."""
        for name in (STATE, CONFIG, WEIGHTS, TOKENIZER):
            stem, suffix = name.split(".")
            for half in self.path.glob(f".{stem}-*.{suffix}"):
                half.unlink()

    def clear(self) -> None:
        """Remove all that was written, but for the lock."""
        for name in (STATE, CONFIG, METRICS, TIMINGS, WEIGHTS, TOKENIZER):
            (self.path / name).unlink(missing_ok=True)


def read_config(path: Path) -> RunConfig:
    """The configuration in a file; a RunError if there is none."""
    try:
        values = json.loads(path.read_text())
        _require_imported(values, path)
        return RunConfig.model_validate(values)
    except RunError:
        raise
    except OSError as error:
        raise RunError(
            f"cannot read {path}: {error.strerror or error}. Give the folder of a run."
        ) from error
    except ValidationError as error:
        raise RunError(f"{path} is not a run's: {explain(error, RunConfig)}") from error
    except (ValueError, RecursionError) as error:  # RecursionError: brackets nested too deeply
        raise RunError(f"{path} is not JSON: give the folder of a run.") from error


def _require_imported(values: Any, path: Path) -> None:
    """Refuse the configuration of a task whose class nobody has imported."""
    task = values.get("task") if isinstance(values, dict) else None
    name = task.get("name") if isinstance(task, dict) else None
    if isinstance(name, str) and (problem := not_imported(name)) is not None:
        raise NotImportedError(name, problem, path)


def read_state(path: Path, key: str, *, mapped: bool = False) -> dict[str, Any]:
    """The state in a file, of the run with this key; nothing in the file is ever executed.

    Where it is mapped into memory, a tensor is read when somebody looks at it, and not before: the
    file itself says at once how far a run is, and needs no second one that could disagree with it.
    """
    try:
        state = torch.load(path, map_location="cpu", weights_only=True, mmap=mapped)
    except (FileNotFoundError, PermissionError) as error:
        raise RunError(f"cannot read {path}: {error.strerror}.") from error
    # What a damaged or foreign file raises is not documented: anything but an interrupt.
    except Exception as error:
        raise StartOverError(f"{path} is damaged, or no state of a run", path.parent) from error
    if not isinstance(state, dict) or not _NEEDED <= set(state) or state["format"] != FORMAT:
        raise StartOverError(f"{path} holds no state of a run", path.parent)
    if state["key"] != key:
        raise StartOverError(f"{path} is the state of another run, {state['key']}", path.parent)
    return state
