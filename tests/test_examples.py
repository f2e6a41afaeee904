"""The tutorials run, and their notebooks are those of their scripts."""

import os
import subprocess
import sys
from pathlib import Path

import jupytext
import nbformat
import pytest

EXAMPLES = Path(__file__).parent.parent / "examples"
SCRIPTS = sorted(EXAMPLES.glob("[!_]*.py"))


def test_the_four_tutorials_are_there() -> None:
    assert {script.stem for script in SCRIPTS} == {
        "train_and_watch",
        "your_own_model",
        "compile_and_verify",
        "patch_a_loop",
    }


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda script: script.stem)
def test_notebook_has_the_cells_of_its_script(script: Path) -> None:
    expected = jupytext.read(script)
    notebook = nbformat.read(script.with_suffix(".ipynb"), as_version=4)
    pairs = [[(cell.cell_type, cell.source) for cell in one.cells] for one in (notebook, expected)]
    assert pairs[0] == pairs[1], "run `make notebooks`"


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda script: script.stem)
def test_notebook_was_run_whole_without_an_error(script: Path) -> None:
    notebook = nbformat.read(script.with_suffix(".ipynb"), as_version=4)
    cells = [cell for cell in notebook.cells if cell.cell_type == "code"]
    assert [cell.execution_count for cell in cells] == list(range(1, len(cells) + 1))
    outputs = [output for cell in cells for output in cell.outputs]
    assert all(output.output_type != "error" for output in outputs)
    assert all(output.get("name") != "stderr" for output in outputs)
    assert any("image/png" in output.get("data", {}) for output in outputs)


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda script: script.stem)
def test_notebook_says_nothing_of_the_machine_that_made_it(script: Path) -> None:
    text = script.with_suffix(".ipynb").read_text(encoding="utf-8")
    notebook = nbformat.reads(text, as_version=4)
    assert all(not cell.metadata for cell in notebook.cells)
    assert set(notebook.metadata) == {"kernelspec", "language_info"}
    for word in ("/home/", "/opt/", "/tmp/", "/Users/", "site-packages"):
        assert word not in text


def test_notebooks_are_small() -> None:
    assert sum(path.stat().st_size for path in EXAMPLES.glob("*.ipynb")) < 1_500_000


@pytest.mark.slow
@pytest.mark.parametrize("script", SCRIPTS, ids=lambda script: script.stem)
def test_tutorial_runs_as_a_script(script: Path, tmp_path: Path) -> None:
    # Their last cells assert what their text concludes.
    environment = {**os.environ, "MPLBACKEND": "Agg"}
    environment.pop("INNERLOOP_RUNS", None)  # runs are trained here, not found elsewhere
    subprocess.run(
        [sys.executable, "-W", "error", str(script)], cwd=tmp_path, env=environment, check=True
    )
