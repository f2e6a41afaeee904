"""Tasks of other packages: the module of docs/task.md, in a folder of its own."""

import json
import re
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
from innerloop.cli.main import main
from innerloop.core.errors import ConfigurationError
from innerloop.core.named import import_class
from innerloop.core.task import Task
from innerloop.tasks.linear import LinearRegression
from innerloop.tasks.shifts import ScaledInputs
from innerloop.training.config import RunConfig
from innerloop.training.overrides import with_overrides
from innerloop.training.run import Run, RunError
from innerloop.training.store import Store
from tests.training.configs import tiny

PAGES = Path(__file__).parents[2] / "docs"
NAME = "mymodule:Sinusoid"


def blocks(page: str) -> list[str]:
    return re.findall(r"```python\n(.*?)```", (PAGES / page).read_text("utf-8"), flags=re.DOTALL)


def module_of_the_docs() -> str:
    return next(block for block in blocks("task.md") if "class Sinusoid" in block)


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A folder with mymodule.py, which is the current one; nothing of it is imported."""
    (tmp_path / "mymodule.py").write_text(module_of_the_docs())
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [*sys.path])
    yield tmp_path
    sys.modules.pop("mymodule", None)


@pytest.fixture
def sinusoid(folder: Path) -> type[Task]:
    return import_class(NAME, Task, "task")


def command(capsys: pytest.CaptureFixture[str], *words: str) -> tuple[int, str]:
    """Exit code and what was printed, in one line."""
    try:
        main([*words])
    except SystemExit as stop:
        code = int(stop.code or 0)
    else:
        code = 0
    both = capsys.readouterr()
    return code, " ".join((both.out + both.err).split())


def test_the_pages_run(folder: Path) -> None:
    sys.path.insert(0, str(folder))  # as Python does for a script
    for page in ("task.md", "prompt.md"):
        namespace: dict[str, Any] = {}
        for block in blocks(page):
            if block != module_of_the_docs():
                exec(compile(block, page, "exec"), namespace)
    assert "mymodule" in sys.modules
    assert namespace["answers"].shape == (64, 41, 100, 1)


def test_the_recipe_of_the_page_runs(folder: Path) -> None:
    namespace: dict[str, Any] = {}
    exec(compile(blocks("training.md")[1], "training.md", "exec"), namespace)
    assert namespace["run"].finished
    assert namespace["config"].task.noise == 0.1


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
    paths = [str(folder), str(PAGES.parent), *sys.path]
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
    assert config.task.dims == config.model.dims == 1
    kept = with_overrides(config, ["task.amplitude=3", f"task.name={NAME}", "task.dtype=float64"])
    assert kept.task.model_dump() == {"dims": 1, "dtype": "float64", "amplitude": 3.0}
