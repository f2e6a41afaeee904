"""Runs on disk: what is written, what is found again, what is refused."""

import json
import os
import pickle
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

from innerloop.core.errors import ConfigurationError, InnerloopError
from innerloop.core.iterate import predict
from innerloop.core.prompt import Prompt
from innerloop.training.config import RunConfig
from innerloop.training.divergence import FAR, DivergenceError
from innerloop.training.lock import LockedError, locked
from innerloop.training.optimizer import Optimizers
from innerloop.training.run import Run, RunError, StartOverError
from innerloop.training.state_file import write_state
from innerloop.training.store import Store
from innerloop.training.train import Report
from innerloop.training.trainer import Trainer
from tests.training.configs import LOOP, tiny


def after(steps: int) -> Callable[[], bool]:
    """Stop after so many steps."""
    asked = iter(range(steps))
    return lambda: next(asked, None) is None


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Run:
    return Store(tmp_path_factory.mktemp("runs")).train(tiny())


@pytest.fixture
def run(trained: Run, tmp_path: Path) -> Run:
    """A finished run that a test may damage."""
    return Run.open(shutil.copytree(trained.path, tmp_path / trained.name))


@pytest.fixture
def half(tmp_path: Path) -> Run:
    """A run that was stopped after six of its twelve steps."""
    return Store(tmp_path).train(tiny(), stop=after(6))


def test_a_run_is_files_in_a_folder_named_by_its_key(trained: Run) -> None:
    assert trained.path.name == f"linear-{tiny().key()}"
    names = {path.name for path in trained.path.iterdir()}
    files = {"config.json", "metrics.jsonl", "weights.safetensors", "state.pt", "timings.jsonl"}
    assert names == files | {"lock", "previous.pt"}
    assert trained.finished
    assert trained.step == 12


@pytest.mark.skipif(not Path("/proc/self/io").is_file(), reason="counts bytes as Linux does")
def test_how_far_a_run_is_is_known_without_its_tensors(half: Run) -> None:
    path, size = half.path / "state.pt", 2**24
    state = torch.load(path, weights_only=True)
    write_state(half.path, {**state, "more": torch.ones(size, dtype=torch.uint8)})

    def bytes_read() -> int:
        return int(Path("/proc/self/io").read_text().split()[1])

    before = bytes_read()
    assert (half.step, half.finished) == (6, False)
    middle = bytes_read()
    assert half.read_state()["step"] == 6
    assert bytes_read() - middle >= size
    assert middle - before < size // 16


def test_metrics_say_how_it_went(trained: Run) -> None:
    table = trained.metrics()
    assert table["step"].tolist() == [2, 4, 6, 8, 10, 12]
    assert table.dropna(subset=["error"])["step"].tolist() == [6, 12]
    assert table.dropna(subset=["loss"])["step"].tolist() == [2, 4, 6, 8, 10, 12]
    assert set(table["loops"].dropna()) == {4}
    assert "seconds" not in table


def test_the_model_is_that_of_the_last_step(
    trained: Run, random_prompt: Callable[..., Prompt]
) -> None:
    trainer = Trainer(tiny())
    for _ in range(12):
        trainer.take_step()
    prompt = random_prompt(points=5, dtype=torch.float32)
    model = trained.model()
    assert not model.training
    assert torch.equal(predict(model, prompt), predict(trainer.model, prompt))
    assert trained.metrics()["error"].iloc[-1] == trainer.error()


def test_a_run_is_found_again(trained: Run, tmp_path: Path) -> None:
    store = Store(trained.path.parent)
    written = {path: path.stat().st_mtime_ns for path in trained.path.iterdir()}
    found = store.find(tiny())
    assert found is not None
    assert found.path == trained.path
    assert found.config == tiny()
    assert store.train(tiny(), name="another name").path == trained.path
    assert {path: path.stat().st_mtime_ns for path in trained.path.iterdir()} == written
    assert [one.path for one in store.runs()] == [trained.path]
    assert store.find(tiny(seed=1)) is None
    assert Store(tmp_path / "nothing here").runs() == []


def test_the_place_of_runs_is_said_by_the_environment(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("INNERLOOP_RUNS", str(tmp_path))
    assert Store().root == tmp_path
    monkeypatch.delenv("INNERLOOP_RUNS")
    assert Store().root == Path("runs")


def test_reports_tell_of_every_line_of_metrics(tmp_path: Path) -> None:
    told: list[Report] = []
    config = tiny(loops={"start": 2, "share": 0.5}, curriculum={"dims": {"start": 1, "every": 6}})
    Store(tmp_path).train(config, name="A Name!", report=told.append)
    assert [report.step for report in told] == [2, 4, 6, 8, 10, 12]
    assert [report.loops for report in told] == [2, 3, 3, 4, 4, 4]
    assert [report.dims for report in told] == [1, 1, 1, 2, 2, 2]
    assert all(report.steps == 12 and report.steps_per_second > 0 for report in told)
    assert told[-1].seconds_left == 0
    assert (tmp_path / f"a-name-{config.key()}").is_dir()


def test_a_stopped_run_goes_on(half: Run, trained: Run) -> None:
    assert not half.finished
    assert half.step == 6
    done = Store(half.path.parent).train(tiny())
    assert done.finished
    for name in ("weights.safetensors", "metrics.jsonl"):
        assert (done.path / name).read_bytes() == (trained.path / name).read_bytes()


def test_a_run_may_be_saved_more_often_than_it_was(half: Run, trained: Run) -> None:
    done = Store(half.path.parent).train(tiny(save_every=1))
    assert (done.path / "weights.safetensors").read_bytes() == (
        trained.path / "weights.safetensors"
    ).read_bytes()


def test_the_threads_of_the_start_are_taken_up_again(tmp_path: Path) -> None:
    config = tiny(threads=None)
    before = torch.get_num_threads()
    seen: list[int] = []

    def stop() -> bool:
        seen.append(torch.get_num_threads())
        return len(seen) == 3

    store = Store(tmp_path)
    torch.set_num_threads(2)
    try:
        store.train(config, stop=stop)
    finally:
        torch.set_num_threads(before)
    store.train(config, stop=stop)
    assert set(seen) == {2}
    assert torch.get_num_threads() == before


def test_a_target_ends_a_run_early(tmp_path: Path) -> None:
    run = Store(tmp_path).train(tiny(target=1e9))
    assert run.finished
    assert run.step == 6  # the first evaluation after the start


def test_fresh_starts_over(run: Run, trained: Run) -> None:
    (run.path / "state.pt").write_bytes(b"damaged")
    (run.path / "config.json").write_text("damaged")
    again = Store(run.path.parent).train(tiny(), fresh=True)
    assert again.finished
    for name in ("weights.safetensors", "metrics.jsonl", "config.json"):
        assert (again.path / name).read_bytes() == (trained.path / name).read_bytes()


def test_what_cannot_run_leaves_no_folder(tmp_path: Path) -> None:
    if torch.cuda.is_available():
        pytest.skip("there is a GPU")
    with pytest.raises(ConfigurationError, match="which is not here"):
        Store(tmp_path / "runs").train(tiny(device="cuda"))
    assert not (tmp_path / "runs").exists()


def test_two_processes_do_not_train_one_run(half: Run) -> None:
    with (
        locked(half.path),
        pytest.raises(LockedError, match=rf"another process \(id {os.getpid()}\)"),
    ):
        Store(half.path.parent).train(tiny())
    assert Store(half.path.parent).train(tiny()).finished


# What cannot be used is refused in one sentence, and left as it is.


def contents(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir() if path.name != "lock"}


def refused(run: Run, message: str, config: RunConfig | None = None) -> None:
    before = contents(run.path)
    with pytest.raises(RunError, match=message) as raised:
        Store(run.path.parent).train(config or tiny())
    assert "\n" not in str(raised.value)
    assert contents(run.path) == before


@pytest.mark.parametrize("length", [0, 10, 1000, -10])
def test_a_truncated_state_is_refused(half: Run, length: int) -> None:
    path = half.path / "state.pt"
    path.write_bytes(path.read_bytes()[:length])
    refused(half, "state.pt is damaged")


class Evil:
    """Writes a file when it is unpickled."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self) -> tuple[Any, ...]:
        return (os.mkdir, (str(self.path),))


@pytest.mark.parametrize("zipped", [False, True])
def test_a_pickle_that_would_run_code_is_refused(half: Run, tmp_path: Path, zipped: bool) -> None:
    evil = Evil(tmp_path / "executed")
    if zipped:
        torch.save({"step": evil}, half.path / "state.pt")
    else:
        (half.path / "state.pt").write_bytes(pickle.dumps(evil))
    refused(half, "damaged, or no state of a run")
    assert not (tmp_path / "executed").exists()


def test_the_state_of_another_run_is_refused(half: Run, tmp_path: Path) -> None:
    other = Store(tmp_path / "others").train(tiny(seed=1), stop=after(1))
    shutil.copy(other.path / "state.pt", half.path / "state.pt")
    refused(half, f"the state of another run, {other.config.key()}")


def test_something_else_in_place_of_a_state_is_refused(half: Run) -> None:
    torch.save({"weights": torch.zeros(3)}, half.path / "state.pt")
    refused(half, "holds no state of a run")


def test_a_state_that_does_not_fit_the_model_is_refused(half: Run) -> None:
    state = torch.load(half.path / "state.pt", weights_only=True)
    state["weights"].popitem()
    write_state(half.path, state)
    refused(half, "does not fit the model")


def test_the_configuration_of_another_run_is_refused(half: Run, tmp_path: Path) -> None:
    other = Store(tmp_path / "others").train(tiny(seed=1), stop=after(1))
    shutil.copy(other.path / "config.json", half.path / "config.json")
    refused(half, "is not the configuration that")


@pytest.mark.parametrize("text", ["{", "[]", "{}", '{"task": {"name": "liner"}}'])
def test_a_damaged_configuration_is_refused(half: Run, text: str) -> None:
    (half.path / "config.json").write_text(text)
    refused(half, "config.json (is not|cannot be read as JSON)")


def test_metrics_that_were_shortened_are_refused(half: Run) -> None:
    (half.path / "metrics.jsonl").write_text("")
    refused(half, "shorter than at the last checkpoint")


@pytest.mark.parametrize("line", [b"[1, 2]", b"{", b"\xff\xfe", b"null"])
def test_damaged_metrics_are_refused(half: Run, line: bytes) -> None:
    with (half.path / "metrics.jsonl").open("ab") as file:
        file.write(line + b"\n")
    refused(half, "metrics.jsonl")


def test_what_only_a_new_start_helps_says_its_problem_apart(half: Run) -> None:
    (half.path / "state.pt").write_bytes(b"damaged")
    with pytest.raises(StartOverError) as raised:
        Store(half.path.parent).train(tiny())
    problem = f"{half.path / 'state.pt'} is damaged, or no state of a run"
    assert raised.value.problem == problem
    assert str(raised.value) == (
        f"{problem}: rename previous.pt to state.pt there to go on from step 5, delete the folder "
        f"{half.name}, or train with --fresh, to start over."
    )


def test_another_version_of_torch_is_refused(half: Run) -> None:
    state = torch.load(half.path / "state.pt", weights_only=True)
    write_state(half.path, {**state, "torch": "1.0"})
    refused(half, "was begun with torch 1.0")


def test_a_folder_without_a_run_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InnerloopError, match="give the folder of a run"):
        Run.open(tmp_path)


def test_a_broken_run_does_not_hide_the_others(run: Run) -> None:
    broken = run.path.parent / "broken-0123456789abcdef"
    broken.mkdir()
    (broken / "config.json").write_text("{")
    assert [one.path for one in Store(run.path.parent).runs()] == [run.path]


# Divergence.


def wild(rate: float = 1e6, **changes: Any) -> RunConfig:
    return tiny(
        optimizer={"kind": "adam", "learning_rate": rate},
        model={"backbone": {**LOOP, "norm": "none", "final_norm": False}},
        **changes,
    )


def test_a_run_that_diverges_keeps_its_last_good_weights(tmp_path: Path) -> None:
    config = wild(steps=300, save_every=1)
    store = Store(tmp_path)
    with pytest.raises(DivergenceError, match="has diverged") as raised:
        store.train(config)
    run = store.find(config)
    assert run is not None
    assert run.diverged == str(raised.value)
    assert not run.finished
    last = json.loads((run.path / "metrics.jsonl").read_text().splitlines()[-1])
    assert last["diverged"] == str(raised.value)
    assert "diverged" not in run.metrics()
    trainer = Trainer(config)
    for _ in range(run.step):
        trainer.take_step()
    assert not trainer.divergence.suspicious
    assert trainer.error() < FAR
    for name, value in run.model().state_dict().items():
        assert torch.equal(trainer.model.state_dict()[name], value)
    before = contents(run.path)
    with pytest.raises(DivergenceError, match="was given up before"):
        store.train(config)
    assert contents(run.path) == before


def ruin_at(step: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let a step (from 0) multiply the weights by a thousand."""
    move = Optimizers.step

    def ruined(self: Optimizers, now: int, steps: int) -> None:
        move(self, now, steps)
        if now == step:
            with torch.no_grad():
                for parameter in self.parameters:
                    parameter.mul_(1e3)

    monkeypatch.setattr(Optimizers, "step", ruined)


@pytest.mark.parametrize(("step", "message"), [(8, "at the end"), (11, "step 12, the last")])
def test_weights_that_a_step_has_ruined_are_not_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, step: int, message: str
) -> None:
    ruin_at(step, monkeypatch)
    config = tiny(save_every=1)
    with pytest.raises(DivergenceError, match=message):
        Store(tmp_path).train(config)
    run = Store(tmp_path).find(config)
    assert run is not None
    assert not run.finished
    assert run.step == step  # the last before it
    trainer = Trainer(config)
    trainer.load_state(run.read_state())
    assert trainer.error() < FAR


@pytest.mark.parametrize("rate", [1e6, 1e20])
def test_a_last_step_that_ruins_the_weights_is_no_end(tmp_path: Path, rate: float) -> None:
    config = wild(steps=1, rate=rate)
    with pytest.raises(DivergenceError, match="has diverged"):
        Store(tmp_path).train(config)
    run = Store(tmp_path).find(config)
    assert run is not None
    assert not run.finished
    assert run.step == 0
    assert "NaN" not in (run.path / "metrics.jsonl").read_text()
    assert all(bool(value.isfinite().all()) for value in run.model().state_dict().values())


def test_one_hard_prompt_does_not_make_weights_bad() -> None:
    """The check is of many prompts, however small a batch is."""
    slow = {"kind": "adam", "learning_rate": 1e-6}
    trainer = Trainer(tiny(batch=1, task={"name": "linear", "dims": 1}, optimizer=slow, steps=50))
    hard = 0
    for _ in range(50):
        taken = trainer.take_step()
        hard += not trainer.divergence.accepts(taken.loss)
        assert trainer.sound()
    assert hard > 0


def test_a_loss_that_is_no_number_keeps_the_last_checkpoint(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    loss = Trainer._loss

    def injected(self: Trainer, *arguments: Any) -> torch.Tensor:
        found = loss(self, *arguments)
        return found * torch.nan if self.step == 8 else found

    monkeypatch.setattr(Trainer, "_loss", injected)
    store = Store(tmp_path)
    with pytest.raises(DivergenceError, match="loss is nan at step 9"):
        store.train(tiny())
    run = store.find(tiny())
    assert run is not None
    assert run.step == 5
    trainer = Trainer(tiny())
    for _ in range(5):
        trainer.take_step()
    for name, value in run.model().state_dict().items():
        assert torch.equal(trainer.model.state_dict()[name], value)
    monkeypatch.undo()
    assert store.train(tiny(), fresh=True).finished
