"""A run on disk: a folder with its configuration, metrics, weights and state."""

import json
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pydantic import ValidationError

from innerloop.core.errors import InnerloopError
from innerloop.core.explain import explain
from innerloop.core.files import parse_json, read_json, write_atomically
from innerloop.core.seal import (
    KEY,
    SEAL,
    DamagedError,
    checksum,
    require_intact,
    sealed,
    sealed_json,
)
from innerloop.core.task import Task
from innerloop.models.checkpoint import CONFIG, WEIGHTS, load, write_weights
from innerloop.models.model import AnyModel
from innerloop.training.config import RunConfig
from innerloop.training.state_file import (
    PREVIOUS,
    STATE,
    RunError,
    StartOverError,
    other_way,
    read_state,
    write_state,
)
from innerloop.training.task_field import not_imported

if TYPE_CHECKING:
    import pandas as pd

METRICS = "metrics.jsonl"
TIMINGS = "timings.jsonl"
"""How long steps took: apart from the metrics, which are the same whenever a run is repeated."""
TOKENIZER = "tokenizer.json"
"""The tokeniser of a run on texts, so that its model can be used where its data are not."""
_KEY = re.compile(r"-([0-9a-f]{16})$")


class NotImportedError(RunError):
    """A run of a task of one's own, whose class nobody has imported."""

    def __init__(self, task: str, problem: str, path: Path) -> None:
        """The task is `module:class`; the sentence says the problem and what to do."""
        self.task = task
        super().__init__(f"{path} cannot be used: {problem}.")


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
        for line in _whole_lines(self._bytes(TIMINGS)):
            try:
                seconds = float(parse_json(line)["seconds"])
            except (ValueError, KeyError, TypeError):
                continue  # cut off by a kill, or damaged: times are not worth a refusal
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
        try:
            return load(self.path).eval()
        except DamagedError as error:
            raise self._unusable(f"{error}".partition(":")[0]) from error

    def read_state(self) -> dict[str, Any]:
        """The last checkpoint; a RunError if it is damaged, or another run's."""
        return read_state(self.path, self.config.key())

    def _glance(self) -> dict[str, Any] | None:
        """The last checkpoint without a copy of its tensors; None before there is one."""
        if not (self.path / STATE).is_file():
            return None
        return read_state(self.path, self.config.key(), mapped=True)

    def _unusable(self, problem: str) -> StartOverError:
        """The error that says a problem, and how to go on."""
        return StartOverError(problem, self.path, other=other_way(self.path, self.config.key()))

    def _bytes(self, name: str) -> bytes:
        """The content of a file; nothing if it is not there."""
        path = self.path / name
        try:
            return path.read_bytes() if path.is_file() else b""
        except OSError as error:
            raise RunError(f"cannot read {path}: {error.strerror or error}.") from error

    def _rows(self) -> list[dict[str, Any]]:
        """The rows of the metrics, which are as they were at the last checkpoint, or longer."""
        # The state before the metrics: who trains the run at this moment makes them longer.
        state, path = self._glance(), self.path / METRICS
        content = self._bytes(METRICS)
        length = 0 if state is None else int(state["metrics"])
        if len(content) < length:
            raise self._unusable(f"{path} is shorter than at the last checkpoint")
        if state is not None:
            self._require_kept(METRICS, content[:length], state)
        try:
            require_intact(content, path)  # the last line of a run that has diverged is a seal
            rows = [parse_json(line) for line in _whole_lines(content)]
        except DamagedError as error:
            raise self._unusable(f"{path} is damaged") from error
        except ValueError as error:
            raise self._unusable(f"{path} holds a line that is not JSON") from error
        if not all(isinstance(row, dict) for row in rows):
            raise self._unusable(f"{path} holds a line that is no row of metrics")
        return rows

    def _require_kept(self, name: str, content: bytes, state: dict[str, Any]) -> None:
        """Refuse what a file holds if its checksum in the state is another; old ones have none."""
        expected = state.get("files", {}).get(name)
        if expected is not None and checksum(content) != expected:
            raise self._unusable(
                f"{self.path / name} is damaged: its content does not match its checksum"
            )

    def read_tokenizer(self) -> str:
        """The tokeniser that it was trained with, as JSON; a RunError if it has none."""
        path, state = self.path / TOKENIZER, self._glance()
        try:
            content = path.read_bytes()
            if state is not None:
                self._require_kept(TOKENIZER, content, state)
            return content.decode()
        except (OSError, UnicodeDecodeError) as error:
            raise RunError(
                f"cannot read {path}: give the whole folder of a run that was trained on texts."
            ) from error

    def write_config(self) -> None:
        """Write the configuration, and the tokeniser where there is one."""
        content = sealed_json(self.config.model_dump(mode="json"))
        write_atomically(self.path / CONFIG, lambda file: file.write_bytes(content))
        tokenizer = self.task.tokenizer_text()
        if tokenizer is not None:
            write_atomically(
                self.path / TOKENIZER, lambda file: file.write_text(tokenizer, "utf-8")
            )

    def write_checkpoint(self, model: AnyModel, state: dict[str, Any]) -> None:
        """Write weights, then the state, which counts: a kill between the two does no harm.

        The state keeps the checksums of the files that have no room for their own.
        """
        write_weights(model, self.path / WEIGHTS)
        files = {METRICS: checksum(self._bytes(METRICS)[: state["metrics"]])}
        if (self.path / TOKENIZER).is_file():
            files[TOKENIZER] = checksum(self._bytes(TOKENIZER))
        write_state(self.path, {"key": self.config.key(), "files": files, **state})

    def last_row(self, row: dict[str, Any]) -> bytes:
        """A line that ends the metrics for good, with a seal of all of them: of a diverged run."""
        line = (json.dumps({KEY: SEAL, **row}, allow_nan=False) + "\n").encode()
        before = self._bytes(METRICS)
        return sealed(before + line)[len(before) :]

    def sweep(self) -> None:
        """Remove the halves of files that killed processes have left; the lock must be held."""
        for name in (STATE, PREVIOUS, CONFIG, WEIGHTS, TOKENIZER):
            stem, suffix = name.split(".")
            for half in self.path.glob(f".{stem}-*.{suffix}"):
                half.unlink()

    def clear(self) -> None:
        """Remove all that was written, but for the lock."""
        for name in (STATE, PREVIOUS, CONFIG, METRICS, TIMINGS, WEIGHTS, TOKENIZER):
            (self.path / name).unlink(missing_ok=True)


def read_config(path: Path) -> RunConfig:
    """The configuration in a file; a RunError if there is none, or it has changed."""
    try:
        values = read_json(path, missing="give the folder of a run")
        _require_imported(values, path)
        return RunConfig.model_validate(values)
    except ValidationError as error:
        raise RunError(f"{path} is not a run's: {explain(error, RunConfig)}") from error
    except RunError:
        raise
    except InnerloopError as error:
        raise RunError(str(error)) from error


def _require_imported(values: Any, path: Path) -> None:
    """Refuse the configuration of a task whose class nobody has imported."""
    task = values.get("task") if isinstance(values, dict) else None
    name = task.get("name") if isinstance(task, dict) else None
    if isinstance(name, str) and (problem := not_imported(name)) is not None:
        raise NotImportedError(name, problem, path)


def _whole_lines(content: bytes) -> list[bytes]:
    """The lines of a file; one without an end was cut off by a kill."""
    return [line for line in content.splitlines(keepends=True) if line.endswith(b"\n")]
