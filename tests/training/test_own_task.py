"""Tasks of other packages: the module of docs/task.md, in a folder of its own."""

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import torch
from pydantic import ValidationError

import innerloop as il
from innerloop.core.errors import ConfigurationError
from innerloop.core.named import import_class
from innerloop.core.task import Task
from innerloop.tasks.linear import LinearRegression
from innerloop.tasks.shifts import ScaledInputs
from innerloop.training.config import RunConfig
from innerloop.training.overrides import with_overrides
from innerloop.training.run import Run, RunError
from innerloop.training.store import Store
from tests.cli.command import run_flat
from tests.snippets import ROOT, folder_of
from tests.training.configs import tiny

NAME = "mymodule:Sinusoid"


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[Path]:
    """A folder with mymodule.py, which is the current one; nothing of it is imported."""
    with folder_of(["task.md"], tmp_path):
        yield tmp_path


@pytest.fixture
def sinusoid(folder: Path) -> type[Task]:
    return import_class(NAME, Task, "task")


def command(capsys: pytest.CaptureFixture[str], *words: str) -> tuple[int, str]:
    """Exit code and what was printed, in one line."""
    code, out, err = run_flat(capsys, *words)
    return code, f"{out} {err}".strip()


def test_its_scale_is_right(sinusoid: type[Task], generator: torch.Generator) -> None:
    task = sinusoid(amplitude=2.0)  # pyright: ignore[reportCallIssue]
    ys = task.sample(20_000, 4, generator=generator).ys
    assert float(ys.square().mean() / task.scale()) == pytest.approx(1, abs=0.05)


def test_trained_and_evaluated_and_identified_by_its_name(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ("train", "looped-linear", f"task={NAME}", "task.amplitude=2", "--scale", "smoke")
    assert command(capsys, *words)[0] == 0
    (run,) = (folder / "runs").iterdir()
    stored = json.loads((run / "config.json").read_text())["task"]
    assert stored == {"name": NAME, "dims": 1, "dtype": "float32", "amplitude": 2.0}
    for verb, *rest in (
        ("evaluate", f"task={NAME}", "ols"),
        ("evaluate", "--task", NAME),
        ("identify", "--task", NAME),
    ):
        del sys.modules["mymodule"]
        code, out = command(capsys, verb, str(run), *rest, "--prompts", "8")
        assert code == 0, out
        assert "(dims=1, amplitude=2)" in out  # the run's settings, not the class's


def test_a_file_imports_nothing(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = ("train", "looped-linear", f"task={NAME}", "--scale", "smoke")
    assert command(capsys, *words)[0] == 0
    (run,) = (folder / "runs").iterdir()
    del sys.modules["mymodule"]
    (folder / "mymodule.py").write_text("raise AssertionError('imported')\n")
    with pytest.raises(RunError, match=rf"import mymodule first, or give task={NAME} on the comm"):
        Run.open(run)
    code, out = command(capsys, "evaluate", str(run))
    assert code == 2
    assert f"give task={NAME} on the command line." in out
    with pytest.raises(ValidationError, match="import mymodule first"):
        tiny(task={"name": NAME})
    assert "mymodule" not in sys.modules


def test_runs_of_it_are_listed_without_importing_it(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ("train", "looped-linear", f"task={NAME}", "--scale", "smoke")
    assert command(capsys, *words)[0] == 0
    (run,) = (folder / "runs").iterdir()
    del sys.modules["mymodule"]
    code, _ = command(capsys, "runs", "--json", "rows.json")
    (row,) = json.loads(Path("rows.json").read_text())
    assert (code, row["run"], row["state"], row["error"]) == (0, run.name, "not imported", None)
    assert row["note"] == f"task {NAME} is not imported; add --task {NAME}"
    shown = command(capsys, "runs")[1]
    assert run.name in shown
    assert f"task {NAME} is not imported" in shown
    assert f"--task {NAME}" in shown
    for verb in (["rm", run.name, "--yes"], ["export", run.name, "run.zip"]):
        code, out = command(capsys, "runs", *verb)
        assert (code, "mymodule" in sys.modules) == (2, False)
        assert "import mymodule first" in out
    code, _ = command(capsys, "runs", "--task", NAME, "--json", "rows.json")
    (row,) = json.loads(Path("rows.json").read_text())
    assert (code, row["state"], row["note"]) == (0, "finished", None)
    del sys.modules["mymodule"]
    assert command(capsys, "runs", "rm", run.name, "--yes", "--task", NAME)[0] == 0
    assert not run.exists()


@pytest.mark.parametrize("name", ["os:system", "subprocess:Popen", "innerloop.core.task:Task"])
def test_what_is_no_task_is_not_called(name: str) -> None:
    with pytest.raises(ValidationError, match="the task"):
        tiny(task={"name": name, "dims": 2})


def test_a_run_is_resumed_bit_for_bit(sinusoid: type[Task], tmp_path: Path) -> None:
    config = tiny(task=sinusoid())  # pyright: ignore[reportCallIssue]
    whole = Store(tmp_path / "whole").train(config)
    asked = iter(range(7))
    parts = Store(tmp_path / "parts")
    halfway = parts.train(config, stop=lambda: next(asked, None) is None)
    assert not halfway.finished
    finished = il.train(config, store=parts)
    assert finished.finished
    assert finished.path == halfway.path
    weights = [run.model().state_dict() for run in (whole, finished)]
    assert all(torch.equal(weights[0][key], weights[1][key]) for key in weights[0])


def test_a_configuration_survives_json_and_has_one_key(sinusoid: type[Task], folder: Path) -> None:
    config = tiny(task=sinusoid(amplitude=0.5))  # pyright: ignore[reportCallIssue]
    assert RunConfig.model_validate_json(config.model_dump_json()) == config
    words = ["window=2", f"task={NAME}", "task.amplitude=0.5"]
    assert with_overrides(tiny(), words).key() == config.key()
    assert tiny(task=sinusoid()).key() != config.key()  # pyright: ignore[reportCallIssue]
    script = "import mymodule; from tests.training.configs import tiny; " + (
        "print(tiny(task=mymodule.Sinusoid(amplitude=0.5)).key())"
    )
    paths = [str(folder), str(ROOT), *sys.path]
    child = subprocess.run(
        [sys.executable, "-c", f"import sys; sys.path[:0] = {paths!r}; {script}"],
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    assert child.stdout.strip() == config.key()


def test_a_shifted_task_is_stored_with_the_task_inside() -> None:
    config = tiny(task=ScaledInputs(task=LinearRegression(dims=2, noise=0.5), factor=2.0))
    again = RunConfig.model_validate_json(config.model_dump_json())
    assert again == config
    assert again.task == config.task
    assert again.key() == config.key() != tiny().key()


class Named(LinearRegression):
    name: str = "a name"


class Calls(LinearRegression):
    calls: Any = None


class Forgets(LinearRegression):
    words: Any = ()


def local_class() -> type[Task]:
    class Local(LinearRegression):
        pass

    return Local


@pytest.mark.parametrize(
    ("task", "sentence"),
    [
        (Named(dims=2), "Named has a setting 'name'"),
        (Calls(dims=2, calls=print), "settings of Calls cannot be written as JSON"),
        (Forgets(dims=2, words=(1, 2)), "Forgets is another task when it is written as JSON"),
        (local_class()(dims=2), "Local cannot be imported from"),
    ],
)
def test_a_task_that_could_not_be_read_again_is_refused(task: Task, sentence: str) -> None:
    with pytest.raises(ValidationError, match=sentence):
        tiny(task=task)
    with pytest.raises(ConfigurationError, match=sentence):
        il.training.recipe("looped-linear", scale="smoke", task=task)


def test_a_class_of_a_notebook_is_known_where_it_is_defined(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    main_module = ModuleType("__main__")
    monkeypatch.setitem(sys.modules, "__main__", main_module)
    kind = type("Mine", (LinearRegression,), {"__module__": "__main__"})
    main_module.__dict__["Mine"] = kind
    stored = tiny(task=kind(dims=2)).model_dump(mode="json")
    assert stored["task"]["name"] == "__main__:Mine"
    assert isinstance(RunConfig.model_validate(stored).task, kind)
    del main_module.__dict__["Mine"]
    with pytest.raises(ValidationError, match="was defined in a script or notebook"):
        RunConfig.model_validate(stored)


def test_own_dimensions_come_before_those_of_the_former_task(folder: Path) -> None:
    config = with_overrides(il.training.recipe("looped-linear"), [f"task={NAME}"])
    assert config.task.dims == dict(config.model)["dims"] == 1
    kept = with_overrides(config, ["task.amplitude=3", f"task.name={NAME}", "task.dtype=float64"])
    assert kept.task.model_dump() == {"dims": 1, "dtype": "float64", "amplitude": 3.0}
