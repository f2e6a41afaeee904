"""Runs once, studies after; failures stay where they are, and an interruption loses nothing."""

import json
import shutil
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch

from innerloop.analysis import Measured
from innerloop.core.errors import ConfigurationError, InnerloopError
from innerloop.engine import board as board_module
from innerloop.engine.board import Board, Progress
from innerloop.engine.job import End
from innerloop.learners import OLS
from innerloop.studies import nulls
from innerloop.studies import reproduce as reproduce_module
from innerloop.studies.claim import Claim, at_most
from innerloop.studies.jobs import StudyJobs, study_jobs
from innerloop.studies.lab import Lab, StoppedError
from innerloop.studies.measuring import MissingRunError, measure
from innerloop.studies.reproduce import Outcome, make_plan, reproduce
from innerloop.studies.result import CLAIMS, FIGURE, find_result, read_result, read_results
from innerloop.studies.study import Measures, Study
from innerloop.studies.table import find_studies
from innerloop.training.families import Scale
from innerloop.training.run import METRICS, STATE, TIMINGS
from innerloop.training.store import Store
from tests.studies import own
from tests.studies.small import SMALL, small_study


def outcomes(root: Path, *studies: object, **settings: object) -> list[Outcome]:
    return list(
        reproduce(
            studies, scale="smoke", store=Store(root / "runs"), results=root / "results", **settings  # pyright: ignore
        )
    )  # fmt: skip


def jobs_of(store: Store, *studies: Study) -> StudyJobs:
    return study_jobs(studies, scale="smoke", seeds=(0,), store=store, results=store.root)


def test_a_study_is_trained_measured_judged_and_written(tmp_path: Path) -> None:
    (outcome,) = outcomes(tmp_path, small_study(), seeds=(3, 4))
    result = outcome.result
    assert result is not None
    assert not outcome.known
    assert result == read_result(tmp_path / "results" / "smoke" / "test2024" / "small")
    (judged,) = result.claims
    assert judged.claim == SMALL.statement
    assert (judged.verdict, len(judged.seeds)) == ("exploratory", 2)
    assert judged.low < judged.value < judged.high
    assert len(result.runs) == 2
    assert result.notes == ("A note.",)
    assert result.smaller == "All of it."
    words = "innerloop reproduce tests.studies.small:measure --scale smoke --seeds 3-4"
    assert result.command == words
    assert result.training_seconds > 0
    assert (result.folder / FIGURE).stat().st_size > 1000
    columns = ["label", "examples", "mean", "median", "low", "high", "seed low", "seed high"]
    assert list(result.table("by-examples").columns) == columns


def test_results_of_the_same_code_runs_and_seeds_are_not_made_again(tmp_path: Path) -> None:
    study = small_study()
    outcomes(tmp_path, study)
    path = tmp_path / "results" / "smoke" / "test2024" / "small" / CLAIMS
    before = path.stat().st_mtime_ns
    (second,) = outcomes(tmp_path, study)
    assert second.known
    assert path.stat().st_mtime_ns == before
    (third,) = outcomes(tmp_path, study, again=True)
    assert not third.known
    assert path.stat().st_mtime_ns > before
    (more,) = outcomes(tmp_path, study, seeds=(0, 1))
    assert not more.known
    (other,) = outcomes(tmp_path, small_study("small", "batch=8"), seeds=(0, 1))
    assert not other.known, "other runs are other results"


def test_studies_share_their_runs(tmp_path: Path) -> None:
    several = [small_study(id) for id in ("one", "two", "three")]
    jobs = jobs_of(Store(tmp_path / "runs"), *several)
    assert (len(jobs.runs), len(jobs.measures)) == (1, 3)
    found = outcomes(tmp_path, *several)
    assert [outcome.study.id for outcome in found] == ["one", "two", "three"]
    assert len(list((tmp_path / "runs").iterdir())) == 1
    assert jobs_of(Store(tmp_path / "runs"), *several).runs == {}


def test_a_training_that_diverges_ends_its_studies_and_no_others(tmp_path: Path) -> None:
    wild = ("optimizer=paper", "optimizer.learning_rate=1e20", "steps=60")
    bad, fine = small_study("bad", *wild), small_study("fine")
    found = {outcome.study.id: outcome for outcome in outcomes(tmp_path, bad, fine)}
    assert found["fine"].result is not None
    assert found["bad"].result is None
    assert "no seed of test2024/bad could be trained" in found["bad"].error
    assert "diverged" in found["bad"].error
    assert not (tmp_path / "results" / "smoke" / "test2024" / "bad").exists()
    # It has ended: asked again, nothing is trained.
    assert jobs_of(Store(tmp_path / "runs"), bad).runs == {}


def test_results_of_other_seeds_are_not_replaced(tmp_path: Path) -> None:
    study = small_study()
    outcomes(tmp_path, study, seeds=(0, 1))
    path = tmp_path / "results" / "smoke" / "test2024" / "small" / CLAIMS
    before = path.read_text()
    changed = small_study("small", "batch=8")
    for other, seeds in ((study, (2, 3)), (study, (1, 2)), (changed, (0,))):
        (refused,) = outcomes(tmp_path, other, seeds=seeds)
        assert refused.result is None
        assert "holds results of --seeds 2, and --seeds" in refused.error
        assert refused.error.endswith("replace them with --again.")
        assert path.read_text() == before
    (fewer,) = outcomes(tmp_path, changed, seeds=(0,), again=True)
    assert fewer.result is not None
    assert fewer.result.seeds == (0,)


def test_a_seed_whose_training_failed_is_shown_with_the_others(tmp_path: Path) -> None:
    study, store = small_study(), Store(tmp_path / "runs")
    outcomes(tmp_path, study, seeds=(0, 1, 2))
    failed = store.find(study.seeded_runs("smoke", (1,))["model", 1])
    assert failed is not None
    with (failed.path / METRICS).open("a") as metrics:  # as training writes it
        metrics.write(json.dumps({"step": 3, "diverged": "the loss is no number"}) + "\n")
    (outcome,) = outcomes(tmp_path, study, seeds=(0, 1, 2), again=True)
    assert outcome.result is not None
    assert outcome.result.failed == {1: "'model', the loss is no number"}
    (judged,) = outcome.result.claims
    assert len(judged.seeds) == 2


def test_nulls_are_measured_by_the_same_function_and_kept_with_the_claim(tmp_path: Path) -> None:
    least = {"least squares": lambda lab: {"model": OLS()}}
    others = {"another seed": nulls.of_another_seed({"model": "model"})}
    claim = replace(SMALL, excludes=("least squares", "another seed"))
    study = small_study(claims=(claim,), nulls={**least, **others})
    (outcome,) = outcomes(tmp_path, study, seeds=(0, 1))
    assert outcome.result is not None
    (judged,) = outcome.result.claims
    squares, other = judged.controls
    assert (squares.null, other.null) == ("least squares", "another seed")
    assert squares.value < 1e-6 < judged.value
    assert squares.passes
    # Each seed's place is taken by the other's model, on its own prompts.
    assert other.seeds != judged.seeds
    assert outcome.result == read_result(outcome.result.folder)
    (alone,) = outcomes(tmp_path, study, again=True)
    assert alone.result is not None
    assert [each.null for each in alone.result.claims[0].controls] == ["least squares"]


def test_a_null_that_names_a_run_which_is_not_there_is_no_control_that_is_missing(
    tmp_path: Path,
) -> None:
    claim = replace(SMALL, excludes=("another seed",))
    others = {"another seed": nulls.of_another_seed({"model": "modle"})}
    (outcome,) = outcomes(tmp_path, small_study(claims=(claim,), nulls=others), seeds=(0, 1))
    assert outcome.result is None
    assert "modle" in outcome.error


def test_a_null_that_is_not_declared_is_refused() -> None:
    with pytest.raises(ConfigurationError, match="ridge"):
        small_study(claims=(replace(SMALL, excludes=("ridge",)),))


def test_a_study_with_a_mistake_says_so_and_leaves_the_others_alone(tmp_path: Path) -> None:
    def broken(lab: Lab) -> Measures:
        return {"errors": Measured.exact(1 / lab.seed)}

    bad, fine = small_study("bad", measure=broken), small_study("fine")
    found = {outcome.study.id: outcome for outcome in outcomes(tmp_path, bad, fine)}
    assert found["fine"].result is not None
    assert found["bad"].error.startswith("ZeroDivisionError: division by zero (see ")
    note = tmp_path / "results" / "smoke" / "test2024" / "bad" / "error.txt"
    assert "in broken" in note.read_text()


def test_missing_data_is_one_sentence(tmp_path: Path) -> None:
    def missing(lab: Lab) -> Measures:
        raise InnerloopError("the data are not in data/: fetch them first.")

    (outcome,) = outcomes(tmp_path, small_study(measure=missing))
    assert outcome.error == "the data are not in data/: fetch them first."


def test_an_interruption_saves_and_the_next_call_goes_on(tmp_path: Path) -> None:
    asked: list[int] = []

    def stop() -> bool:
        asked.append(1)
        return len(asked) > 3

    study = small_study()
    assert outcomes(tmp_path, study, stop=stop) == []
    (run,) = Store(tmp_path / "runs").runs()
    begun = run.step
    assert 0 < begun < 4
    (outcome,) = outcomes(tmp_path, study)
    assert outcome.result is not None
    assert run.step == 4


def test_a_study_stops_where_it_tells_what_it_measures() -> None:
    lab = Lab(study="a/b", scale="smoke", stop=lambda: True)
    with pytest.raises(StoppedError, match="goes on"):
        lab.tell("anything")


def test_progress_ends_at_one(tmp_path: Path) -> None:
    heard: list[Progress] = []
    jobs = jobs_of(Store(tmp_path), small_study())
    board = Board(jobs.all)
    assert board.progress(1).done == 0
    job = board.next()
    assert job is not None
    assert job in jobs.runs.values(), "the run comes first"
    assert board.finish(job, End("done")) == [job]
    job = board.next()
    assert job in jobs.measures
    assert job is not None
    board.finish(job, End("done"))
    heard.append(board.progress(1))
    assert heard[-1].done == 1
    assert (heard[-1].jobs, heard[-1].jobs_done) == (2, 2)
    assert board.next() is None


def test_progress_is_told_at_its_end_however_soon_that_is(tmp_path: Path) -> None:
    heard: list[Progress] = []
    outcomes(tmp_path, own.plain, listener=heard.append)
    assert (heard[0].jobs_done, heard[-1].jobs_done, heard[-1].jobs) == (0, 1, 1)


def test_the_time_that_is_left_goes_by_what_was_done_since(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store, study = Store(tmp_path), small_study("small", "steps=10", "log_every=1")
    asked: list[int] = []

    def stop() -> bool:
        asked.append(1)
        return len(asked) > 8

    store.train(study.runs("smoke")["model"], stop=stop)
    jobs = jobs_of(store, study)
    board = Board(jobs.all)
    (run,) = jobs.runs.values()
    assert (run.before, run.share) == (0.8, 0.8)
    (measuring,) = jobs.measures
    run.minutes, measuring.minutes = 10.0, 0.0
    board.began = 0.0
    monkeypatch.setattr(board_module, "time", SimpleNamespace(perf_counter=lambda: 100.0))
    run.share = 0.9
    # A tenth of it took 100 seconds, and a tenth is left; not 100 / 9 seconds.
    assert board.progress(1).seconds_left == pytest.approx(100, rel=1e-9)
    assert board.progress(1).done == pytest.approx(0.9)


def test_a_damaged_run_fails_its_own_studies_and_no_others(tmp_path: Path) -> None:
    bad = small_study("bad")
    run = Store(tmp_path / "runs").train(bad.runs("smoke")["model"])
    (run.path / STATE).write_bytes(b"damaged")
    found = {outcome.study.id: outcome for outcome in outcomes(tmp_path, bad, own.plain)}
    assert found["plain"].result is not None
    assert "is damaged" in found["bad"].error
    assert f"remove {run.path}," in found["bad"].error
    shutil.rmtree(run.path)
    assert outcomes(tmp_path, bad)[0].result is not None, "what it says helps"


def test_a_folder_that_cannot_be_written_to_fails_its_own_study(tmp_path: Path) -> None:
    place = tmp_path / "results" / "smoke" / "own" / "slow"
    place.parent.mkdir(parents=True)
    place.write_text("a file where the folder should be")
    bad = replace(own.plain, id="slow")
    found = {outcome.study.id: outcome for outcome in outcomes(tmp_path, bad, own.plain)}
    assert found["plain"].result is not None
    assert "NotADirectoryError" in found["slow"].error
    assert "see" not in found["slow"].error


def test_whatever_a_training_raises_fails_its_own_studies(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def wrong(store: Store, config: object, **settings: object) -> None:
        raise KeyError("layers")

    monkeypatch.setattr(Store, "train", wrong)
    found = {outcome.study.id: outcome for outcome in outcomes(tmp_path, small_study(), own.plain)}
    assert found["plain"].result is not None
    assert "KeyError: 'layers'" in found["small"].error


def test_a_plan_is_made_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    outcomes(tmp_path, own.plain)
    store, results = Store(tmp_path / "runs"), tmp_path / "results"
    several = [small_study("one"), own.plain, small_study("two")]
    plan = make_plan(several, scale="smoke", store=store, results=results)
    assert [outcome.study.id for outcome in plan.known] == ["plain"]
    assert [study.id for study in plan.left] == ["one", "two"]
    assert (len(plan.jobs.runs), len(plan.jobs.measures)) == (1, 2)
    monkeypatch.setattr(reproduce_module, "study_jobs", None)
    found = outcomes(tmp_path, *several, plan=plan)
    assert [outcome.study.id for outcome in found] == ["plain", "one", "two"]
    assert all(outcome.result is not None for outcome in found)


def test_a_study_without_its_runs_says_which(tmp_path: Path) -> None:
    with pytest.raises(MissingRunError, match="'model' with seed 0"):
        measure(
            small_study(), scale="smoke", seeds=(0,), store=Store(tmp_path), results=tmp_path / "r"
        )


def test_a_claim_that_was_not_measured_is_a_mistake(tmp_path: Path) -> None:
    other = Claim(
        name="other", sentence="", quantity="", exact=True,
        statistic=lambda m: m["another"], criterion=at_most(1.0, ""),
    )  # fmt: skip
    (outcome,) = outcomes(tmp_path, small_study(claims=(SMALL, other)))
    assert "'other' needs the measure 'another', and the study has measured" in outcome.error


def test_two_claims_of_one_name_are_a_mistake(tmp_path: Path) -> None:
    (outcome,) = outcomes(tmp_path, small_study(claims=(SMALL, SMALL)))
    assert "two claims of one name" in outcome.error


def test_a_damaged_result_is_made_again_and_hides_no_other(tmp_path: Path) -> None:
    one, two = small_study("one"), small_study("two")
    outcomes(tmp_path, one, two)
    path = tmp_path / "results" / "smoke" / "test2024" / "one" / CLAIMS
    path.write_text(path.read_text()[:100])
    results = tmp_path / "results"
    assert [result.id for result in read_results(results)[0]] == ["two"]
    assert find_result(results, one, scale="smoke", seeds=(0,)) is None
    assert find_result(results, two, scale="smoke", seeds=(0,)) is not None


def test_infinities_survive_the_file(tmp_path: Path) -> None:
    def infinite(lab: Lab) -> Measures:
        values = torch.tensor([[1.0], [torch.inf]]).expand(2, 3)  # (P, n)
        return {"errors": Measured(values=values, axes=("examples",))}

    (outcome,) = outcomes(tmp_path, small_study(measure=infinite))
    assert outcome.result is not None
    text = (outcome.result.folder / CLAIMS).read_text()
    assert json.loads(text)["claims"][0]["value"] == "inf"
    assert outcome.result.claims[0].value == float("inf")


def test_the_time_of_a_run_is_that_of_all_its_stretches(tmp_path: Path) -> None:
    store = Store(tmp_path)
    run = store.train(small_study().runs("smoke")["model"])
    rows = [{"step": 1, "seconds": 3.0}, {"step": 2, "seconds": 5.0}, {"step": 3, "seconds": 1.0}]
    (run.path / TIMINGS).write_text("".join(json.dumps(row) + "\n" for row in rows))
    assert run.seconds == 6.0


@pytest.mark.parametrize(("name", "known"), [("yang2025", "yang2024"), ("yang2024/fgi2", "fig2")])
def test_a_misspelt_study_is_answered_with_the_nearest(name: str, known: str) -> None:
    with pytest.raises(ConfigurationError, match=known):
        find_studies(name)


def test_a_lab_knows_the_runs_that_were_declared() -> None:
    with pytest.raises(ConfigurationError, match="unknown run of a/b 'model'"):
        Lab(study="a/b", scale="smoke").run("model")


def test_another_learner_takes_the_place_of_a_trained_one(tmp_path: Path) -> None:
    run = Store(tmp_path).train(small_study().runs("smoke")["model"])
    lab = Lab(study="a/b", scale="smoke", runs={"model": run})
    assert lab.learner("model") is lab.model("model"), "loaded once"
    null = Lab(study="a/b", scale="smoke", runs={"model": run}, learners={"model": OLS()})
    assert null.learner("model") == OLS()
    assert null.config("model") == run.config


def test_a_slash_without_a_study_is_not_a_whole_paper() -> None:
    assert len(find_studies("yang2024")) > 1
    with pytest.raises(ConfigurationError, match="study of yang2024"):
        find_studies("yang2024/")


@pytest.mark.parametrize("scale", ["smoke", "laptop", "paper"])
def test_a_lab_chooses_by_its_scale(scale: Scale) -> None:
    assert (
        Lab(study="a/b", scale=scale).choose(smoke="smoke", laptop="laptop", paper="paper") == scale
    )
