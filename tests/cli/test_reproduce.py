"""`innerloop reproduce`, `studies` and `report` as a user meets them."""

import json
import os
import shutil
import signal
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest
from matplotlib.figure import Figure

from innerloop.cli import report_
from innerloop.cli import reproduce as verb
from innerloop.cli import studies as listing
from innerloop.cli.console import Console
from innerloop.cli.jobs_progress import QUIET, headline, progress_lines, shown_progress
from innerloop.engine.board import Progress
from innerloop.report import markdown, words
from innerloop.studies import table
from innerloop.studies.lab import Lab
from innerloop.studies.study import Measures, Study, Tables
from tests.cli.command import run_flat
from tests.report.made import a_result, a_study
from tests.studies.small import measure, small_study

Command = Callable[..., tuple[int, str, str]]


@pytest.fixture
def command(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> Command:
    """Run the command line in folders of the test: exit code, output without breaks, errors."""

    return partial(run_flat, capsys)


@pytest.fixture
def with_studies(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Callable[..., None]:
    """Let these be all studies there are, and the test's folder be where all is kept."""
    monkeypatch.setenv("INNERLOOP_RUNS", str(tmp_path / "runs"))
    monkeypatch.setenv("INNERLOOP_RESULTS", str(tmp_path / "results"))
    monkeypatch.setitem(table.PAPERS, "test2024", "Small Studies")

    def use(*studies: Study) -> None:
        for module in (table, verb, listing, markdown):
            monkeypatch.setattr(module, "STUDIES", studies)

    return use


SMOKE = ("--scale", "smoke", "--workers", "1")


def test_help_shows_the_verbs(command: Command) -> None:
    out = command("--help")[1]
    for name in ("studies", "reproduce", "report"):
        assert f" {name} " in out
    assert "innerloop reproduce --all --scale smoke" in command("reproduce", "--help")[1]


def test_a_study_from_nothing_and_again(
    command: Command, with_studies: Callable[..., None], tmp_path: Path
) -> None:
    with_studies(small_study(), a_study("test2024", "fig2"))
    numbers = tmp_path / "all.json"
    code, out, err = command("reproduce", "--all", *SMOKE, "--json", str(numbers))
    assert code == 0
    assert "2 studies at smoke scale, 1 seed: 0 measured already, 2 to measure" in out
    assert "1 run to train, 0 trained already" in out
    assert "jobs done" in err
    assert "✓ confirmed It <holds>." in out
    assert "the number of against: 20, criterion at most 10 (models" in out
    assert (
        "2 studies, 6 claims. Exact: 1 confirmed. Trained: 4 exploratory, 1 not at this size" in out
    )
    assert "│ test2024/fig2 │ 1 confirmed" in out  # a row of the summary, on one line of 80 columns
    assert "A note." in out
    for id in ("small", "fig2"):
        assert (tmp_path / "results" / "smoke" / "test2024" / id / "index.html").is_file()
    told = {row["study"]: row for row in json.loads(numbers.read_text())}
    assert told["test2024/small"]["claims"][0]["verdict"] == "exploratory"
    code, out, _ = command("reproduce", "test2024/small", *SMOKE)
    assert code == 0
    assert "1 measured already, 0 to measure" in out
    assert "(measured already)" in out
    code, out, _ = command("reproduce", "test2024/small", "--again", *SMOKE)
    assert "0 runs to train, 1 trained already" in out


def test_a_study_that_fails_is_one_sentence_and_leaves_the_others(
    command: Command, with_studies: Callable[..., None]
) -> None:
    def broken(lab: Lab) -> Measures:
        raise ZeroDivisionError("by [nothing]")

    with_studies(small_study("broken", measure=broken), small_study("whole"))
    code, out, _ = command("reproduce", "test2024", *SMOKE)
    assert code == 1
    assert "failed ZeroDivisionError: by [nothing]" in out
    assert "test2024/broken: ZeroDivisionError" in out
    assert "1 study, 1 claim. Trained: 1 exploratory; 1 failed" in out


def test_an_interruption_saves_and_the_same_command_goes_on(
    command: Command, with_studies: Callable[..., None]
) -> None:
    asked: list[str] = []

    def interrupted(lab: Lab) -> Measures:
        if not asked:
            asked.append(lab.study)
            os.kill(os.getpid(), signal.SIGINT)
            lab.tell("the first part")
        return measure(lab)

    with_studies(small_study("one"), small_study("two", measure=interrupted))
    code, out, err = command("reproduce", "--all", *SMOKE)
    assert code == 130
    assert "stopped after 1 of 2 studies" in err
    assert "give the same command again" in err
    code, out, _ = command("reproduce", "--all", *SMOKE)
    assert code == 0
    assert "1 measured already, 1 to measure" in out
    assert "0 runs to train, 1 trained already" in out


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["reproduce"], "or give --all"),
        (["reproduce", "yang2024", "--all"], "or give --all"),
        (["reproduce", "test2025"], "did you mean 'test2024'?"),
        (["reproduce", "test2024/smal"], "did you mean 'small'?"),
        (["reproduce", "--all", "--scale", "huge"], "unknown scale 'huge'"),
        (["reproduce", "--all", "--scale", "desk"], "cannot be done at desk scale: take smoke or"),
        (["reproduce", "--all", "--seeds", "3,4"], "or the first and the last, as 3-5"),
        (["reproduce", "--all", "--json", "."], "which is a folder"),
        (["studies", "test2025"], "did you mean 'test2024'?"),
        (["report"], "holds no results: write some with `innerloop reproduce`"),
        (["report", "--scale", "laptop"], "holds no results at laptop scale"),
        (["report", "--readme", "README.md"], "give both"),
    ],
)
def test_mistakes_are_one_sentence_and_write_nothing(
    command: Command,
    with_studies: Callable[..., None],
    tmp_path: Path,
    words: list[str],
    sentence: str,
) -> None:
    with_studies(small_study())
    code, _, err = command(*words)
    assert code == 2
    assert sentence in err
    assert "Traceback" not in err
    assert list(tmp_path.iterdir()) == []


def test_studies_are_listed_with_what_was_found_here(
    command: Command, with_studies: Callable[..., None], tmp_path: Path
) -> None:
    study = a_study("test2024", "fig2", also=("fig9",))
    with_studies(study, small_study())
    a_result(tmp_path / "results", study, scale="smoke")
    a_result(tmp_path / "results", study, scale="laptop")
    numbers = tmp_path / "studies.json"
    code, out, _ = command("studies", "--json", str(numbers))
    assert code == 0
    assert "test2024/fig2 (fig9)" in out
    assert "2 minutes" in out
    first, second = json.loads(numbers.read_text())
    assert first["found"]["scale"] == "laptop"
    assert first["found"]["verdicts"]["against"] == "contradicted"
    assert second["found"] is None
    assert set(second["runs"]) == {"smoke", "laptop", "paper"}


def test_one_study_is_told_with_its_criteria_and_runs(
    command: Command, with_studies: Callable[..., None], tmp_path: Path
) -> None:
    with_studies(small_study(), a_study("test2024", "fig2", also=("fig9",)))
    code, out, _ = command("studies", "test2024/small")
    assert code == 0
    assert "criterion: at most 10 (ten times that of predicting zero)" in out
    assert "run model: linear dims=3" in out
    assert "steps=4" in out
    assert "smoke, about 6 seconds: All of it." in out
    a_result(tmp_path / "results", a_study("test2024", "fig2"))
    out = command("studies", "test2024/fig9")[1]
    assert "here: 20.1 (19.9 to 20.3), ✗ contradicted" in out
    assert "measured (exact): the number of fact; the paper has 1/12" in out
    assert "premise: the error of against: at most 100 (a round number as well)" in out
    assert "must not hold of: a <null>" in out


def test_a_report_joins_all_that_was_found(
    command: Command, with_studies: Callable[..., None], tmp_path: Path
) -> None:
    study = a_study("test2024", "fig2")
    with_studies(study)
    a_result(tmp_path / "results", study)
    broken = a_result(tmp_path / "results", a_study("test2024", "fig3"))
    broken.figure.unlink()
    page, readme = tmp_path / "report.html", tmp_path / "README.md"
    readme.write_text("<!-- results -->\n<!-- end of results -->\n")
    docs = tmp_path / "docs"
    code, out, _ = command("report", "-o", str(page), "--docs", str(docs), "--readme", str(readme))
    assert code == 0
    assert "left out" in out
    assert "1 study, 5 claims" in out
    assert "What fig2 | says" in page.read_text("utf-8")
    assert "1 study, claim by claim: [docs](docs/README.md)" in readme.read_text("utf-8")
    assert (docs / "test2024" / "fig2.png").is_file()
    first = {path: path.read_bytes() for path in docs.rglob("*") if path.is_file()}
    shutil.rmtree(tmp_path / "results")
    page.unlink()
    (docs / "README.md").unlink()
    words = ("report", "-o", str(page), "--docs", str(docs), "--readme", str(readme))
    assert command(*words)[0] == 0  # from the results that the pages hold
    assert {path: path.read_bytes() for path in docs.rglob("*") if path.is_file()} == first
    assert not page.exists()


def test_training_is_counted_once_for_runs_that_studies_share(
    command: Command, with_studies: Callable[..., None], tmp_path: Path
) -> None:
    with_studies(small_study("one"), small_study("two"))
    assert command("reproduce", "--all", *SMOKE)[0] == 0
    (timings,) = (tmp_path / "runs").glob("*/timings.jsonl")
    timings.write_text('{"step": 1, "seconds": 7200.0}\n')
    docs = tmp_path / "docs"
    page = str(tmp_path / "report.html")
    assert command("report", "-o", page, "--docs", str(docs))[0] == 0
    assert "training 2 hours, each run counted once" in (docs / "README.md").read_text("utf-8")


def test_a_report_draws_figures_anew_where_it_is_asked_to(
    command: Command,
    with_studies: Callable[..., None],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    study = small_study("one")
    with_studies(study)
    assert command("reproduce", "--all", *SMOKE)[0] == 0
    (picture,) = (tmp_path / "results").rglob("figure.png")
    before = picture.read_bytes()

    def draw(tables: Tables) -> Figure:
        figure = study.draw(tables)
        figure.suptitle("another drawing")
        return figure

    for module in (report_, words):
        monkeypatch.setattr(module, "STUDIES", (replace(study, draw=draw),))
    page = str(tmp_path / "report.html")
    assert command("report", "-o", page)[0] == 0
    assert picture.read_bytes() == before
    assert command("report", "-o", page, "--redraw")[0] == 0
    assert picture.read_bytes() != before
    assert "left out" not in command("report", "-o", page)[1], "its files agree"


def test_progress_is_a_line_per_job_without_a_terminal_and_a_bar_with_one(
    capsys: pytest.CaptureFixture[str],
) -> None:
    begun = Progress(0.1, None, 3, 0, ("training model 10%",))
    later = Progress(0.5, 600.0, 3, 1, ("measuring x: OLS()",))
    assert headline(later) == "1 of 3 jobs done, about 10 minutes left"
    with shown_progress(Console(force_terminal=False)) as listener:
        for progress in (begun, later, later):
            listener(progress)
    lines = capsys.readouterr().err.splitlines()
    assert lines == ["1 of 3 jobs done, about 10 minutes left (now measuring x: OLS())"]
    with shown_progress(Console(force_terminal=True, width=100)) as listener:
        listener(later)
    out = capsys.readouterr().out
    assert "about 10 minutes left" in out
    assert "measuring x: OLS()" in out


def test_a_long_job_is_heard_of_in_a_log(capsys: pytest.CaptureFixture[str]) -> None:
    now = 0.0
    listener = progress_lines(lambda: now)
    for now in (1.0, QUIET - 1, QUIET, QUIET + 1, 2 * QUIET):
        listener(Progress(now / 1000, None, 3, 0, ("training model",)))
    assert capsys.readouterr().err.splitlines() == 2 * ["0 of 3 jobs done (now training model)"]
