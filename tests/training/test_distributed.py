"""Several processes train one run: real ones, which are killed, stopped and given other work."""

import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch

from innerloop.core.errors import ConfigurationError
from innerloop.core.tolerances import CONTRACT
from innerloop.training.config import RunConfig
from innerloop.training.distributed import Processes, joined
from innerloop.training.run import Run
from innerloop.training.store import Store
from tests.training import groups
from tests.training.configs import LOOP, tiny
from tests.training.test_resume import same_state

LOST = "another process of this training has ended"


def config(**changes: Any) -> RunConfig:
    """Every part of a run that has a state, or depends on the step; sixteen prompts per step."""
    values: dict[str, Any] = {
        "batch": 8, "accumulate": 2, "average": 0.2, "optimizer": {"kind": "adam"},
        "model": {"backbone": {**LOOP, "pre": 1}}, "loops": {"start": 2, "share": 0.6},
    }  # fmt: skip
    return tiny(**{**values, **changes})


def trained(number: int, root: Path, config: RunConfig) -> Run:
    """A run by so many processes, after it has ended well."""
    ended = groups.together(number, root, groups.train, root, config.model_dump_json())
    assert [each.code for each in ended] == [0] * number, ended
    assert "".join(each.said for each in ended) == ""
    return only_run(root)


def only_run(root: Path) -> Run:
    (run,) = Store(root).runs()
    return run


def apart(one: Run, other: Run) -> float:
    """The largest difference of weights, over the largest weight."""
    ours, theirs = one.model().state_dict(), other.model().state_dict()
    assert ours.keys() == theirs.keys()
    largest = max(float(weight.abs().max()) for weight in ours.values())
    return max(float((ours[name] - theirs[name]).abs().max()) for name in ours) / largest


def same_files(one: Run, other: Run) -> bool:
    names = ("weights.safetensors", "metrics.jsonl", "config.json")
    return same_state(one.path, other.path) and all(
        (one.path / name).read_bytes() == (other.path / name).read_bytes() for name in names
    )


def test_the_same_run_by_any_number_of_processes(tmp_path: Path) -> None:
    alone = Store(tmp_path / "1").train(config())
    four, again = (trained(4, tmp_path / name, config()) for name in ("4", "again"))
    assert alone.name == four.name
    assert same_files(four, again)
    assert 0 < apart(alone, four) < CONTRACT[torch.float32]
    columns = ["step", "loss", "gradient", "error"]
    ours, theirs = (run.metrics()[columns].to_numpy() for run in (alone, four))
    assert ours == pytest.approx(theirs, rel=1e-4, nan_ok=True)
    # The first alone has a folder; the others have written nothing at all.
    names = {path.name for path in four.path.iterdir()}
    assert names == {path.name for path in alone.path.iterdir()}
    assert not list((tmp_path / "4").glob("of-*"))
    # Two processes have a batch each, and add up what one has added up before.
    assert apart(alone, trained(2, tmp_path / "2", config())) == 0


@pytest.mark.parametrize("kernels", [True, False])
def test_unequal_numbers_of_questions_weigh_as_in_one_batch(tmp_path: Path, kernels: bool) -> None:
    # Half of the prompts ask for a quarter of all points: half of the loss would be too much.
    task = {"name": "tests.training.groups:Uneven", "dims": 2}
    uneven = config(task=task, kernels=kernels, batch=16, accumulate=1)
    alone = Store(tmp_path / "1").train(uneven)
    assert apart(alone, trained(2, tmp_path / "2", uneven)) < CONTRACT[torch.float32]


@pytest.mark.parametrize(("lost", "number"), [(0, 4), (1, 2), (1, 1)])
def test_a_killed_process_ends_all_and_the_run_goes_on_with_any_number(
    tmp_path: Path, lost: int, number: int
) -> None:
    whole = trained(2, tmp_path / "whole", config())
    root, text = tmp_path / "killed", config().model_dump_json()
    ended = groups.together(2, root, groups.train_and_lose, root, text, lost, 8)
    assert ended[lost].code == -signal.SIGKILL
    assert ended[1 - lost].code == 1
    assert ended[1 - lost].said.rstrip().splitlines()[-1].count(LOST) == 1
    assert only_run(root).step == 5
    assert not only_run(root).finished
    done = Store(root).train(config()) if number == 1 else trained(number, root, config())
    assert done.finished
    if number == 2:
        assert same_files(done, whole)
    assert apart(done, whole) < CONTRACT[torch.float32]


def test_asked_to_end_one_process_takes_the_others_along(tmp_path: Path) -> None:
    whole = trained(2, tmp_path / "whole", config())
    root, text = tmp_path / "stopped", config().model_dump_json()
    for rank, step in ((1, 3), (0, 4)):
        ended = groups.together(2, root, groups.train_and_terminate, root, text, rank, step)
        assert ended[rank].code == 128 + signal.SIGTERM
        assert ended[1 - rank].code == 0
    assert only_run(root).step == 7
    assert same_files(trained(2, root, config()), whole)


@pytest.mark.parametrize(
    ("number", "changes", "sentence"),
    [
        (3, [], "a step has 4 prompts (batch times accumulate), which 3 processes cannot share"),
        (2, ["optimizer.learning_rate=1e30", "optimizer.kind=adam"], "the run has diverged"),
        (2, ["stpes=3"], "stpes"),
        (2, ["device=cuda:1"], "2 processes take a GPU each: set device=cuda"),
    ],
)
def test_a_mistake_is_one_sentence_of_one_process(
    tmp_path: Path, number: int, changes: list[str], sentence: str
) -> None:
    words = [
        "train", "looped-linear", "--scale", "smoke", "batch=4", *changes, "--store", str(tmp_path)
    ]  # fmt: skip
    ended = groups.together(number, tmp_path / "said", groups.command, *words)
    assert [each.code for each in ended] == [2] * number
    said = [each.said for each in ended if "error:" in each.said]
    assert len(said) == 1
    assert sentence in " ".join(said[0].split())
    assert "Traceback" not in said[0]


def test_the_command_line_shows_one_bar_and_one_table(tmp_path: Path) -> None:
    words = ["train", "looped-linear", "--scale", "smoke", "steps=3", "--store", str(tmp_path)]
    first, other = groups.together(2, tmp_path / "said", groups.command, *words)
    assert (first.code, other.code) == (0, 0)
    assert first.said.count("3/3") == 1
    assert first.said.count("parameters") == 1
    assert other.said == ""
    # A finished run is there at once, for all of them.
    again, other = groups.together(2, tmp_path / "said", groups.command, *words)
    assert (again.code, other.code, other.said) == (0, 0, "")
    assert "3/3" not in again.said


def test_processes_that_train_other_runs_are_refused(tmp_path: Path) -> None:
    texts = [config(save_every=every).model_dump_json() for every in (5, 6)]
    ended = groups.together(2, tmp_path, groups.train_others, tmp_path, *texts)
    said = "".join(each.said for each in ended)
    assert sorted(each.code or 0 for each in ended) == [1, 2]
    assert said.count("the run is not the same in all 2 processes: give all the same command.") == 1


def test_weights_that_drift_apart_are_noticed_before_they_are_saved(tmp_path: Path) -> None:
    text = config().model_dump_json()
    ended = groups.together(2, tmp_path, groups.train_and_drift, tmp_path, text, 1, 7)
    assert "the model at step 10 is not the same in all" in "".join(each.said for each in ended)
    assert only_run(tmp_path).step == 5


def test_without_torchrun_a_process_is_alone() -> None:
    with joined({}) as processes:
        assert processes == Processes()
    with joined({"WORLD_SIZE": "1", "RANK": "0"}) as processes:
        assert processes.number == 1
    with pytest.raises(ConfigurationError, match="WORLD_SIZE is 4, but RANK is not set"):
        joined({"WORLD_SIZE": "4"}).__enter__()


def test_every_process_has_its_own_gpu() -> None:
    second = Processes(rank=5, number=8, local=1)
    assert second.device("cuda") == "cuda:1"
    assert second.device("cpu") == "cpu"
    assert Processes().device("cuda:3") == "cuda:3"


@pytest.mark.slow
def test_torchrun(tmp_path: Path) -> None:
    words = ["looped-linear", "--scale", "smoke", "steps=5", "threads=1"]
    command = [
        sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2",
        "-m", "innerloop", "train", *words, "--store", str(tmp_path / "torchrun"),
    ]  # fmt: skip
    subprocess.run(command, check=True, capture_output=True)
    groups.together(
        2, tmp_path / "said", groups.command, "train", *words, "--store", str(tmp_path / "2")
    )
    assert same_files(only_run(tmp_path / "torchrun"), only_run(tmp_path / "2"))
