"""A grid of settings: which runs it has, what is skipped, what has failed and is tried again."""

from pathlib import Path

import pytest

from innerloop.core.errors import ConfigurationError
from innerloop.engine.board import Progress
from innerloop.engine.sweep import Sweep, make_sweep
from innerloop.training import Store, recipe
from innerloop.training.overrides import with_overrides
from innerloop.training.run import STATE
from tests.engine.works import hold

BASE = recipe("looped-linear", scale="smoke")
QUICK = ("steps=3", "batch=4", "log_every=1")
MANY = ",".join(map(str, range(1, 102)))
WILD = "optimizer.learning_rate=1e-3,1e20"


def sweep_of(
    root: Path, *words: str, seeds: tuple[int, ...] | None = None, retry: bool = False
) -> Sweep:
    return make_sweep("looped-linear", BASE, words, seeds=seeds, store=Store(root), retry=retry)


def test_the_runs_are_those_that_train_would_make(tmp_path: Path) -> None:
    sweep = sweep_of(tmp_path, "task.noise=0,0.5", *QUICK, "points=5,7", seeds=(3, 4))
    assert sweep.keys == ("task.noise", "points")
    assert len(sweep.points) == 8
    point = sweep.points[-1]
    assert point.label == "task.noise=0.5 points=7 seed=4"
    same = with_overrides(BASE, [*QUICK, "task.noise=0.5", "points=7", "seed=4"])
    assert point.config == same


@pytest.mark.parametrize(
    ("words", "keys"),
    [
        (["task=linear,sparse"], ("task",)),
        (["optimizer.betas=[0.9,0.99],[0.8,0.9]"], ("optimizer.betas",)),
        (["optimizer.betas=[0.9,0.99]"], ()),
        (["seed=0,1"], ()),
    ],
)
def test_values_end_at_commas_outside_brackets(
    tmp_path: Path, words: list[str], keys: tuple[str, ...]
) -> None:
    assert sweep_of(tmp_path, *words).keys == keys


@pytest.mark.parametrize(
    ("words", "seeds", "problem"),
    [
        (["steps=3,3"], None, "'steps=3' and 'steps=3' are the same run"),
        (["task.noise=0.1,1e-1"], None, "are the same run"),
        (["steps=3,,4"], None, "empty value"),
        (["seed=0,1"], (0,), "seeds are given twice"),
        (["stepz=3,4"], None, "did you mean 'steps'"),
        (["steps"], None, "is not a setting"),
        ([f"steps={MANY}"], tuple(range(100)), "10100 runs"),
    ],
)  # fmt: skip
def test_mistakes_are_one_sentence(
    tmp_path: Path, words: list[str], seeds: tuple[int, ...] | None, problem: str
) -> None:
    with pytest.raises(ConfigurationError, match=problem):
        sweep_of(tmp_path, *words, seeds=seeds)
    assert list(tmp_path.iterdir()) == []


def test_finished_runs_are_skipped_and_the_table_has_all(tmp_path: Path) -> None:
    first = sweep_of(tmp_path, *QUICK, "task.noise=0,0.5").run()
    assert list(first["state"]) == ["finished", "finished"]
    more = sweep_of(tmp_path, *QUICK, "task.noise=0,0.5,1")
    assert [job.name for job in more.jobs()] == ["task.noise=1"]
    table = more.run()
    assert list(table["state"]) == 3 * ["finished"]
    assert list(table["error"][:2]) == list(first["error"])
    assert list(table["task.noise"]) == ["0", "0.5", "1"]
    run = more.store.find(more.points[0].config)
    assert run is not None
    first_row = table.to_dict(orient="records")[0]
    assert first_row["run"] == run.name
    assert first_row["error"] == list(run.metrics()["error"])[-1]


def test_a_run_that_diverges_is_told_and_tried_again_on_request_only(tmp_path: Path) -> None:
    words = ("steps=60", "batch=4", "optimizer=paper", WILD)
    table = sweep_of(tmp_path, *words).run()
    assert list(table["state"]) == ["finished", "failed"]
    assert "diverged" in table["reason"][1]
    known = sweep_of(tmp_path, *words)
    assert known.jobs() == []
    assert list(known.table()["reason"]) == list(table["reason"])
    heard: list[Progress] = []
    again = sweep_of(tmp_path, *words, retry=True)
    assert len(again.jobs()) == 1
    assert list(again.run(listener=heard.append)["state"]) == ["finished", "failed"]
    assert heard[0].done < 1, "it was trained anew"
    assert "diverged" in heard[-1].failed[0]


def test_a_damaged_run_says_so_and_starts_over_on_request(tmp_path: Path) -> None:
    words = (*QUICK, "task.noise=0,0.5")
    whole = sweep_of(tmp_path, *words).run()
    (tmp_path / whole["run"][0] / STATE).write_bytes(b"damaged")
    table = sweep_of(tmp_path, *words).run()
    assert list(table["state"]) == ["failed", "finished"]
    assert "is damaged" in table["reason"][0]
    table = sweep_of(tmp_path, *words, retry=True).run()
    assert list(table["state"]) == ["finished", "finished"]
    assert list(table["error"]) == list(whole["error"])


@pytest.mark.slow
def test_runs_of_several_processes_are_bit_equal_and_an_interruption_saves_them(
    tmp_path: Path,
) -> None:
    words = (*QUICK, "task.noise=0,0.5")
    alone = sweep_of(tmp_path / "alone", *words).run()
    sweep = sweep_of(tmp_path / "both", *words)
    jobs = [hold(job, tmp_path / "word") for job in sweep.jobs()]

    def both_train() -> bool:
        return sum("%" in job.doing for job in jobs) == 2

    table = sweep.run(jobs, workers=2, stop=both_train)
    assert list(table["state"]) == ["stopped", "stopped"]
    assert list(table["steps"]) == [1, 1]
    table = sweep_of(tmp_path / "both", *words).run(workers=2)
    assert list(table["state"]) == ["finished", "finished"]
    for name in alone["run"]:
        for file in ("weights.safetensors", "metrics.jsonl"):
            ours, theirs = (tmp_path / root / name / file for root in ("alone", "both"))
            assert ours.read_bytes() == theirs.read_bytes()
