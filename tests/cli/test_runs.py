"""The verbs that need a trained model: evaluate a run, the demo, recipes, bench."""

import json
import re
from collections.abc import Callable
from functools import partial
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import torch

from innerloop.models.checkpoint import save
from innerloop.tasks.linear import LinearRegression
from innerloop.tasks.shifts import papers_shifts
from innerloop.training.estimate import step_cost
from innerloop.training.recipes import RECIPES, find_recipe
from innerloop.training.run import Run
from innerloop.training.store import Store
from tests.cli.command import run as run_command

Command = Callable[..., tuple[int, str, str]]


@pytest.fixture
def command(capsys: pytest.CaptureFixture[str]) -> Command:
    """Run the command line: exit code, output, errors."""

    return partial(run_command, capsys)


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Run:
    """A run that has taken its steps and learned nothing."""
    store = Store(tmp_path_factory.mktemp("runs"))
    return store.train(find_recipe("looped-linear", "smoke"), name="looped-linear")


def test_a_run_is_evaluated_on_its_own_task(command: Command, run: Run, tmp_path: Path) -> None:
    words = ("evaluate", str(run.path), "ols", "--prompts", "8", "-o", str(tmp_path))
    code, out, _ = command(*words)
    assert code == 0
    table = pd.read_csv(next(tmp_path.glob("*-by-prefix.csv")))
    assert set(table["learner"]) == {"looped transformer (1 layer)", "OLS"}
    assert int(table["prefix"].to_numpy().max()) == run.config.points - 1
    assert "dims=3" in out


def test_a_run_goes_beyond_its_trained_loops(command: Command, run: Run, tmp_path: Path) -> None:
    words = ("evaluate", str(run.path), "--by", "step", "--steps", "9", "--prompts", "8")
    code, _, _ = command(*words, "-o", str(tmp_path))
    assert code == 0
    table = pd.read_csv(next(tmp_path.glob("*-steps-9-*-by-step.csv")))
    assert list(table["step"]) == list(range(10))


def test_every_shift_of_the_papers_in_one_command(
    command: Command, run: Run, tmp_path: Path
) -> None:
    words = ("evaluate", str(run.path), "ols", "--shift", "all", "--prompts", "4")
    numbers = tmp_path / "all.json"
    code, _, _ = command(*words, "-o", str(tmp_path), "--json", str(numbers))
    assert code == 0
    shifts = set(papers_shifts(LinearRegression(dims=3)))
    assert len(shifts) == 15
    assert len(list(tmp_path.glob("*.png"))) == len(shifts)
    rows = json.loads(numbers.read_text())
    assert {row["shift"] for row in rows} == shifts
    assert np.isfinite([row["mean"] for row in rows]).all()


def test_two_runs_of_one_recipe_are_told_apart(command: Command, run: Run, tmp_path: Path) -> None:
    config = run.config.model_copy(update={"seed": 1})
    other = Store(tmp_path / "runs").train(config, name="other", stop=lambda: True)
    words = ("evaluate", str(run.path), str(other.path), "ols", "--prompts", "4")
    code, _, err = command(*words, "-o", str(tmp_path))
    assert code == 0
    table = pd.read_csv(next(tmp_path.glob("*-by-prefix.csv")))
    assert set(table["learner"]) == {run.path.name, other.path.name, "OLS"}
    assert "is not finished: step 0 of 20" in " ".join(err.split())


def test_another_task_keeps_the_runs_points(command: Command, run: Run, tmp_path: Path) -> None:
    words = ("evaluate", str(run.path), "--task", "tree", "depth=2", "--prompts", "4")
    assert command(*words, "-o", str(tmp_path))[0] == 0
    table = pd.read_csv(next(tmp_path.glob("*-by-prefix.csv")))
    assert int(table["prefix"].to_numpy().max()) == run.config.points - 1


def test_a_model_without_its_run_is_evaluated_too(
    command: Command, run: Run, tmp_path: Path
) -> None:
    save(run.model(), tmp_path / "model")
    words = ("evaluate", str(tmp_path / "model"), "--prompts", "4", "-o", str(tmp_path))
    code, _, _ = command(*words)
    assert code == 0
    table = pd.read_csv(next(tmp_path.glob("*-by-prefix.csv")))
    assert int(table["prefix"].to_numpy().max()) == run.config.points - 1


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["evaluate", "no/such/folder"], "no/such/folder"),
        (["recipes", "looped-liner"], "did you mean 'looped-linear'?"),
        (["recipes", "--scale", "huge"], "unknown scale 'huge'"),
        (["bench", "looped-liner"], "did you mean 'looped-linear'?"),
        (["bench", "looped-linear", "--scale", "smoke", "--device", "cuda:7"], "is not here"),
        (["demo", "--scale", "huge"], "unknown scale 'huge'"),
    ],
)
def test_mistakes_are_one_sentence(command: Command, words: list[str], told: str) -> None:
    code, _, err = command(*words)
    assert code == 2
    assert told in err.replace("\n", " ")
    assert "Traceback" not in err


def test_a_run_of_other_dimensions_is_refused(command: Command, run: Run, tmp_path: Path) -> None:
    code, _, err = command("evaluate", str(run.path), "dims=5", "-o", str(tmp_path))
    assert code == 2
    assert "the model was made for 3" in " ".join(err.split())


def test_recipes_are_listed_with_all_that_one_wants_to_know(
    command: Command, tmp_path: Path
) -> None:
    numbers = tmp_path / "recipes.json"
    code, out, _ = command("recipes", "--json", str(numbers))
    assert code == 0
    assert all(name in out for name in RECIPES)
    rows = json.loads(numbers.read_text())
    assert {row["name"] for row in rows} == set(RECIPES)
    assert all(row["parameters"] > 0 and row["paper"] for row in rows)
    time = re.compile(r"(\d+ hours? and )?\d+ (second|minute|hour)s?")
    assert all(time.fullmatch(row["time"]) for row in rows)


def test_a_recipe_is_printed_as_overrides(command: Command) -> None:
    code, out, _ = command("recipes", "looped-linear", "--scale", "paper")
    assert code == 0
    for line in ("task.dims=20", "model.backbone.loops=20", "window=15", "points=41"):
        assert line in out


def test_every_setting_of_a_recipe_is_printed_with_what_it_is(command: Command) -> None:
    code, out, _ = command("recipes", "looped-linear", "--json", "-")
    assert code == 0
    rows = {row["key"]: row for row in json.loads(out)}
    assert rows["task.noise"]["description"] == "standard deviation of the noise on y"
    assert rows["model.backbone.loops"]["value"] == "20"
    assert all(row["description"] for row in rows.values())


def test_bench_times_a_recipe(command: Command, tmp_path: Path) -> None:
    numbers = tmp_path / "bench.json"
    words = ("bench", "looped-linear", "lstm-linear", "--scale", "smoke", "--repeats", "1")
    code, out, _ = command(*words, "--json", str(numbers))
    assert code == 0
    assert "looped-linear" in out
    rows = json.loads(numbers.read_text())
    assert all(row["seconds"] > 0 and row["share"] > 0 for row in rows)
    assert all(f"torch {torch.__version__}" in row["machine"] for row in rows)
    assert " ".join(rows[0]["machine"].split()) in " ".join(out.split())
    # One loop's products forward, as the block has them: 24 D^2 and the scores, for each token.
    tokens, width, loops, window = 13, 16, 4, 3
    forward = 64 * tokens * (24 * width**2 + 4 * tokens * width)
    expected = (loops + 2 * window) * forward / 1e9
    assert rows[0]["gigaflops"] == pytest.approx(expected, rel=0.15)
    config = find_recipe("looped-linear", "smoke")
    assert step_cost(config, config.steps - 1) == pytest.approx(1e9 * expected, rel=0.1)
    assert all(row["minutes"] > 0 for row in rows)


def test_the_demo_trains_draws_and_writes_a_page(command: Command, tmp_path: Path) -> None:
    words = ("demo", "--scale", "smoke", "--prompts", "16", "-o", str(tmp_path))
    code, out, _ = command(*words)
    assert code == 0
    assert "After 6 examples" in out
    page = (tmp_path / "index.html").read_text()
    assert page.count("<svg") == 4
    assert "`" not in re.sub(r"<script.*?</script>", "", page, flags=re.DOTALL)
    assert (tmp_path / "explore" / "index.html").is_file()
    last = page.rpartition("<h2>")[2]
    assert last.startswith("Which algorithm it has learned</h2>")
    assert "unexplained" in last.partition("<svg")[0]
    assert "Which algorithm is it?" in out
    for name in ("by-example", "by-loop", "training", "algorithm"):
        assert (tmp_path / f"{name}.png").is_file()
        assert (tmp_path / f"{name}.csv").is_file()
    # A second time it finds the run and goes on from there.
    assert command(*words)[0] == 0
    assert len(list((tmp_path / "runs").glob("looped-linear-*"))) == 1


@pytest.mark.slow
def test_the_demo_comes_within_two_hundredths_of_least_squares(
    command: Command, tmp_path: Path
) -> None:
    numbers = tmp_path / "demo.json"
    assert command("demo", "-o", str(tmp_path), "--json", str(numbers))[0] == 0
    rows = json.loads(numbers.read_text())
    last = {row["learner"]: row["mean"] for row in rows if row["by"] == "prefix"}
    model = last["looped transformer (1 layer)"]
    assert model < last["OLS"] + 0.02
    # It stays there, loops beyond those of training.
    loops = [row["mean"] for row in rows if row["by"] == "step" and "looped" in row["learner"]]
    assert len(loops) == 101
    assert loops[-1] < last["OLS"] + 0.02
