"""The code of README.md and docs/ does what it says; links lead somewhere."""

import re
import sys
import tomllib
from collections.abc import Callable
from importlib import metadata
from pathlib import Path
from typing import Any

import pytest
import typer
import yaml
from typer.core import TyperGroup
from typer.testing import CliRunner

from innerloop.cli.evaluate import shifted_tasks
from innerloop.cli.main import app
from innerloop.cli.subjects import read_subjects
from innerloop.core.settings import is_setting
from innerloop.engine.sweep import make_sweep
from innerloop.learners import LEARNERS
from innerloop.models.pretrained import SHIPPED, is_shipped
from innerloop.studies.seeds import read_seeds
from innerloop.studies.table import find_studies
from innerloop.training.overrides import with_overrides
from innerloop.training.recipes import find_recipe
from innerloop.training.store import Store
from tests.language.made import write_ag_news
from tests.language.made_language import write_language
from tests.snippets import PAGES, ROOT, all_blocks, blocks, commands, folder_of

WITH_PYTHON = [page for page in PAGES if blocks(page)]
SLOW = [page for page in WITH_PYTHON if any(block.kind == "slow" for block in blocks(page))]
NOT_RUN = {
    "inside.md": "gpt2 stands for a model of yours",
    "distributed.md": "torchrun starts it",
}
"""All that is not run, and why."""

Names = dict[str, Any]


def check_readme(names: Names, folder: Path) -> None:
    assert (folder / "errors.png").stat().st_size > 10_000
    assert names["answer"].family == "Newton"
    assert names["answer"].parameters["steps"] == 6
    known = {"OLS", "Ridge(penalty=0.25)", "GradientDescent(steps=5)"}
    assert set(names["table"]["learner"]) == known


def check_fixed_point(names: Names, folder: Path) -> None:
    assert bool(names["result"].converged.any())
    assert names["result"].predictions.shape == (64, 21, 1)


def check_inside(names: Names, folder: Path) -> None:
    assert {path.name for path in folder.iterdir()} == {"attention.png", "patching.png"}


def check_own_model(names: Names, folder: Path) -> None:
    assert names["by_layer"]["step"].tolist() == [0, 1, 2, 3, 4]
    assert names["matches"].values.shape == (32, 5, 21)
    few = names["few"]
    means = few.ys.cumsum(dim=1)[:, -2] / (few.points - 1)  # (B, 1)
    last = names["il"].predict(names["mean"], few)[:, -1]  # (B, 1)
    names["torch"].testing.assert_close(last, means)
    assert names["model"].training, "the model's own flag is left as it was"


def check_prompt(names: Names, folder: Path) -> None:
    assert names["answers"].shape == (64, 41, 100, 1)


def check_runs(names: Names, folder: Path) -> None:
    assert names["run"].finished
    assert [path.parent for path in folder.glob("runs/*/state.pt")] == [folder / names["run"].path]


def check_sweep(names: Names, folder: Path) -> None:
    assert list(names["table"]["state"]) == 8 * ["finished"]
    assert len(names["averages"]) == 4
    assert (folder / "sweep.png").stat().st_size > 5000


def check_task(names: Names, folder: Path) -> None:
    assert names["run"].finished
    assert type(names["run"].task).__name__ == "Sinusoid"


def check_training(names: Names, folder: Path) -> None:
    assert names["run"].finished
    assert names["config"].task.noise == 0.1


CHECKS: dict[str, Callable[[Names, Path], None]] = {
    "README.md": check_readme,
    "fixed-point.md": check_fixed_point,
    "inside.md": check_inside,
    "own-model.md": check_own_model,
    "prompt.md": check_prompt,
    "runs.md": check_runs,
    "sweep.md": check_sweep,
    "task.md": check_task,
    "training.md": check_training,
}
"""What must have come of a page's code."""
PRINTED = {
    "README.md": "Newton(",
    "diagnostics.md": "nearest to ridge at a penalty of 0.25",
    "identify.md": "Newton",
    "own-model.md": "unexplained",
    "study.md": "1 exploratory",
}
"""What it must have printed."""


DATA: dict[str, Callable[[Path], object]] = {
    "text.md": write_ag_news,
    "translation.md": write_language,
}
"""Data sets that a page reads, made up."""


def run_page(page: str, folder: Path, *, left_out: set[str]) -> None:
    """Run the Python of a page in order, in one namespace and in a folder of its own."""
    if page in DATA:
        DATA[page](folder)
    with folder_of([page], folder), pytest.MonkeyPatch.context() as patch:
        patch.setenv("INNERLOOP_DATA", str(folder))
        patch.setenv("XDG_CACHE_HOME", str(folder / "cache"))
        sys.path.insert(0, str(folder))  # as Python does for a script
        names: Names = {}
        code = [block for block in blocks(page) if block.kind not in {"file", "not run", *left_out}]
        for block in sorted(code, key=lambda block: block.kind == "last"):
            block.run(names)
        if page in CHECKS:
            CHECKS[page](names, folder)


@pytest.mark.parametrize("page", WITH_PYTHON)
def test_python_runs(page: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    if page == "estimator.md" and not all(map(is_shipped, SHIPPED)):
        pytest.skip("the trained weights are not in the package yet")
    run_page(page, tmp_path, left_out={"slow"})
    assert PRINTED.get(page, "") in capsys.readouterr().out


@pytest.mark.slow
@pytest.mark.parametrize("page", SLOW)
def test_slow_python_runs(page: str, tmp_path: Path) -> None:
    run_page(page, tmp_path, left_out=set())


def test_what_is_not_run_is_listed() -> None:
    marked = {
        (page, block.why) for page in PAGES for block in blocks(page) if block.kind == "not run"
    }
    assert marked == set(NOT_RUN.items())


@pytest.mark.parametrize("page", PAGES)
def test_code_is_in_a_language_that_is_tested(page: str) -> None:
    """Else it would be passed over: `py`, or commands in a block without a language."""
    for block in all_blocks(page):
        assert block.language in {"", "python", "sh"}, f"{page}:{block.line}"
        looks = re.search(r"^(innerloop |import |>>> )", block.text, flags=re.MULTILINE)
        assert block.language or not looks, f"{page}:{block.line} has code without a language"
    fences = re.findall(r"^ *```", PAGES[page].read_text("utf-8"), flags=re.MULTILINE)
    assert len(fences) == 2 * len(list(all_blocks(page)))


def is_place(word: str) -> bool:
    """Whether a word stands for a folder that a reader has: runs/.., models/.., RUN, newton."""
    return "/" in word or word.isupper()


def parsed(words: list[str]) -> tuple[str, dict[str, Any]]:
    """The verb of a command and its parameters, by the command line's own parser."""
    command: Any = typer.main.get_command(app)
    context = command.make_context("innerloop", list(words))
    rest = words
    while isinstance(command, TyperGroup) and rest:  # `runs` has verbs itself
        name, command, rest = command.resolve_command(context, rest)
        context = command.make_context(name, list(rest), parent=context)
    return words[0], context.params


def require_names(verb: str, given: dict[str, Any], words: list[str]) -> None:
    """All names and settings in a command exist; what takes no time is run."""
    match verb:
        case "train":
            recipe = find_recipe(given["recipe"], given["scale"])
            assert not given["overrides"] or with_overrides(recipe, given["overrides"]) != recipe
        case "sweep":
            recipe = find_recipe(given["recipe"], given["scale"])
            seeds = None if given["seeds"] is None else read_seeds(given["seeds"])
            words = given["settings"]
            grid = make_sweep("any", recipe, words, seeds=seeds, store=Store(Path("runs")))
            assert len(grid.points) > 1
        case "evaluate" | "identify" | "inspect":
            known = [word for word in given["words"] if not is_place(word)]
            learners = [word for word in known if not is_setting(word)]
            subjects = read_subjects(known if learners else [*known, "ols"], given.get("task"))
            shifted_tasks(subjects.task, given.get("shift") or [])
            named = [name for text in given.get("candidates") or [] for name in text.split(",")]
            assert set(named) <= LEARNERS.keys()
        case "reproduce":
            for name in given["names"] or []:
                find_studies(name)
        case "tasks" | "learners" | "recipes" | "studies" | "compile":
            answer = CliRunner().invoke(app, words)
            assert answer.exit_code == 0, answer.output
        case _:
            pass  # its options were understood


@pytest.mark.parametrize("page", [page for page in PAGES if commands(page)])
def test_commands_are_understood(page: str, tmp_path: Path) -> None:
    with folder_of(["task.md", "study.md"], tmp_path):
        for words in commands(page):
            verb, given = parsed(words)
            require_names(verb, given, words)


def test_links_lead_somewhere() -> None:
    """In the repository; `make docs` holds those of the site, and all anchors."""
    pages = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", ROOT / "CHANGELOG.md"]
    for page in [*pages, *(ROOT / "docs").glob("*.md")]:
        for link in re.findall(r"\]\(([^)#]+)", page.read_text("utf-8")):
            assert (page.parent / link).exists(), f"{page.name} links to {link}"


def test_the_citation_is_of_this_version() -> None:
    citation = yaml.safe_load((ROOT / "CITATION.cff").read_text("utf-8"))
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    assert citation["version"] == project["version"] == metadata.version("innerloop")
    assert citation["license"] == project["license"]
    assert {"cff-version", "message", "title", "authors"} <= citation.keys()
    first = {paper["authors"][0]["family-names"].lower() for paper in citation["references"]}
    assert first == {"akyürek", "fu", "yang", "gao", "chen"}


def test_the_changes_begin_with_what_is_new() -> None:
    changes = (ROOT / "CHANGELOG.md").read_text("utf-8")
    versions = re.findall(r"^## (\S+)", changes, flags=re.MULTILINE)
    assert versions[:2] == ["Unreleased", metadata.version("innerloop")]
