"""Quick to start: what is imported, and when; and that all names are there all the same."""

import importlib
import importlib.util
import inspect
import json
import pkgutil
import subprocess
import sys
from types import FunctionType, ModuleType

import pytest
import typer

import innerloop
from innerloop.cli.main import app
from innerloop.cli.verbs import VERBS

COMMAND_LINE = {
    "innerloop", "typer", "rich", "markdown_it", "mdurl", "pygments", "shellingham",
    "annotated_doc", "click", "colorama", "typing_extensions", "pydantic", "pydantic_core",
    "annotated_types", "typing_inspection", "attr",
}  # fmt: skip
"""What `--help` and `--version` may import: typer, and what typer and rich need or take."""


def imported_by(program: str) -> set[str]:
    """The packages, without those of Python, that a program has imported at its end."""
    ending = (
        "\nimport atexit, json, sys"
        "\ndef tell(): print('\\nIMPORTED', json.dumps(sorted({m.split('.')[0] for m in sys.modules"
        " if getattr(sys.modules[m], '__file__', None)} - set(sys.stdlib_module_names))))"
        "\natexit.register(tell)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", ending + program], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    found = set(json.loads(done.stdout.rpartition("IMPORTED")[2]))
    # Test tools and editable installs put modules of their own into every process.
    return {name for name in found if not name.startswith(("_", "sitecustomize"))}


def test_importing_the_library_imports_nothing_else() -> None:
    assert imported_by("import innerloop") == {"innerloop"}


def test_the_names_of_the_library_need_torch_and_pydantic_alone() -> None:
    # Estimators are scikit-learn's own classes, and so is their import.
    ours = imported_by(
        "import innerloop as il\n"
        "for n in il.__all__:\n if not n.startswith('InContext'): getattr(il, n)"
    )
    both = imported_by("import torch, pydantic.dataclasses; from pydantic import BaseModel, Field")
    assert {"torch", "pydantic"} <= ours
    # annotated_types is pydantic's; the others are what `il.train` locks and writes with.
    few = {"innerloop", "annotated_types", "filelock", "safetensors", "humanize"}
    assert ours - both <= few


@pytest.mark.parametrize("words", [["--version"], ["--help"], []])
def test_the_command_line_starts_with_typer_alone(words: list[str]) -> None:
    packages = imported_by(f"from innerloop.cli.main import main\nmain({words})")
    assert "typer" in packages
    assert packages <= COMMAND_LINE


def test_a_learner_needs_no_tables_and_figures() -> None:
    packages = imported_by("import innerloop as il\nil.learners.Ridge(0.1); il.tasks.TASKS")
    assert packages.isdisjoint({"pandas", "matplotlib", "scipy", "sklearn", "xgboost", "rich"})


def packages_of_the_library() -> list[str]:
    found = pkgutil.walk_packages(innerloop.__path__, "innerloop.")
    return ["innerloop", *(each.name for each in found if each.ispkg)]


@pytest.mark.parametrize("name", packages_of_the_library())
def test_every_name_is_there(name: str) -> None:
    package = importlib.import_module(name)
    for each in getattr(package, "__all__", []):
        module, called = package._sources[each]
        if module != name and importlib.util.find_spec(f"{name}.{each}") is not None:
            importlib.import_module(f"{name}.{each}")  # a module of the name of something else
        assert getattr(package, each) is getattr(importlib.import_module(module), called)
        assert each in dir(package)


@pytest.mark.parametrize("first", ["the module", "the name"])
def test_a_function_is_not_hidden_by_the_module_of_its_name(first: str) -> None:
    imports = ["import innerloop.analysis.error", "il.analysis.error"]
    if first == "the name":
        imports.reverse()
    program = "\n".join(["import innerloop as il", *imports, "assert callable(il.analysis.error)"])
    imported_by(program)
    assert isinstance(innerloop.analysis.error, FunctionType)
    assert isinstance(innerloop.analysis.drawing, ModuleType)


def test_modules_can_be_reached_without_an_import() -> None:
    imported_by("import innerloop as il\nassert il.training.recipes.RECIPES")


def test_a_name_that_is_not_there_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match=r"'innerloop\.learners' has no attribute 'Rigde'"):
        innerloop.learners.Rigde  # noqa: B018  # pyright: ignore[reportAttributeAccessIssue]


@pytest.mark.parametrize("name", VERBS)
def test_the_list_of_verbs_says_what_each_says_of_itself(name: str) -> None:
    verb = VERBS[name]
    command = verb.load(name)
    assert command.name == name
    paragraph = inspect.cleandoc(command.help or "").split("\n\n")[0]
    assert " ".join(paragraph.split()) == verb.summary


def test_all_verbs_are_listed() -> None:
    assert list(typer.main.get_group(app).commands) == list(VERBS)
