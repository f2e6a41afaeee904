"""Files of a run that have changed since they were written, or are hostile: never used silently."""

import json
import os
import shutil
import zipfile
from collections.abc import Callable
from io import BytesIO
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file

from innerloop.core.errors import InnerloopError
from innerloop.core.seal import KEY, UncheckedWarning
from innerloop.models import torch_files
from innerloop.training.divergence import DivergenceError
from innerloop.training.lock import LOCK, locked
from innerloop.training.run import METRICS, TIMINGS, Run, RunError
from innerloop.training.state_file import PREVIOUS, STATE, StartOverError, write_state
from innerloop.training.store import Store
from tests.training.configs import LOOP, tiny
from tests.training.test_run import after

RESULT = ("weights.safetensors", METRICS, "config.json")


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


def flip(path: Path, bit: int) -> None:
    content = bytearray(path.read_bytes())
    content[bit // 8] ^= 1 << bit % 8
    path.write_bytes(content)


def same_result(one: Run, other: Run) -> bool:
    return all(
        (one.path / name).read_bytes() == (other.path / name).read_bytes() for name in RESULT
    )


def use(run: Run) -> None:
    """Read all of a run that a user can ask for."""
    again = Run.open(run.path)
    again.read_state()
    again.metrics()
    again.model()


@pytest.mark.parametrize("name", [STATE, METRICS, "weights.safetensors", "config.json"])
def test_a_flipped_bit_is_refused_in_one_sentence_wherever_it_is(run: Run, name: str) -> None:
    path = run.path / name
    bits = 8 * path.stat().st_size
    whole = path.read_bytes()
    use(run)
    # Some everywhere, and all of the last bytes: the end of an archive and its seal.
    for bit in [*range(0, bits, bits // 12), *range(bits - 8 * 30, bits, 29)]:
        flip(path, bit)
        with pytest.raises(InnerloopError) as raised:
            use(run)
        assert "\n" not in str(raised.value)
        path.write_bytes(whole)
    use(run)


@pytest.mark.parametrize("name", [STATE, METRICS, "weights.safetensors"])
def test_the_previous_checkpoint_is_offered_and_gives_the_same_bits(
    run: Run, trained: Run, name: str
) -> None:
    flip(run.path / name, 8 * (run.path / name).stat().st_size - 40)  # the last numbers
    with pytest.raises(StartOverError) as raised:
        use(run)
    assert "rename previous.pt to state.pt there to go on from step 10" in str(raised.value)
    (run.path / PREVIOUS).replace(run.path / STATE)
    done = Store(run.path.parent).train(tiny())
    assert done.finished
    assert same_result(done, trained)
    use(done)


def test_a_previous_checkpoint_that_is_damaged_too_is_not_offered(run: Run) -> None:
    for name in (STATE, PREVIOUS):
        flip(run.path / name, 4000)
    with pytest.raises(StartOverError, match=r"checksum: delete the folder"):
        use(run)


def test_a_line_that_says_why_a_run_was_given_up_is_checked_too(tmp_path: Path) -> None:
    config = tiny(
        optimizer={"kind": "adam", "learning_rate": 1e6}, steps=300, save_every=1,
        model={"backbone": {**LOOP, "norm": "none", "final_norm": False}},
    )  # fmt: skip
    store = Store(tmp_path)
    with pytest.raises(DivergenceError):
        store.train(config)
    run = store.find(config)
    assert run is not None
    assert run.diverged is not None
    path = run.path / METRICS
    flip(path, path.read_bytes().index(run.diverged.encode()) * 8)
    with pytest.raises(RunError, match=r"metrics\.jsonl is damaged"):
        _ = run.diverged


def as_before_seals(run: Run) -> None:
    """Write the files of a run as earlier versions did."""
    state = torch.load(run.path / STATE, weights_only=True)
    state.pop("files")
    torch.save(state, run.path / STATE)
    (run.path / PREVIOUS).unlink()
    weights = run.path / "weights.safetensors"
    save_file({name: value.clone() for name, value in load_file(weights).items()}, weights)
    values = json.loads((run.path / "config.json").read_text())
    values.pop(KEY)
    (run.path / "config.json").write_text(json.dumps(values, indent=1) + "\n")


def test_runs_of_earlier_versions_go_on_with_a_notice_and_get_checksums(
    half: Run, trained: Run
) -> None:
    as_before_seals(half)
    assert half.step == 6
    with pytest.warns(UncheckedWarning, match=r"weights\.safetensors holds no checksum"):
        half.model()
    with pytest.warns(UncheckedWarning, match=r"state\.pt holds no checksum"):
        done = Store(half.path.parent).train(tiny())
    assert same_result(done, trained)
    use(done)  # without a warning, which would be an error


@pytest.mark.slow
def test_a_write_that_ends_at_any_file_leaves_nothing_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As by a kill just before, and just after, each of the files appears."""
    config = tiny(steps=4, save_every=2, log_every=1, evaluate_every=2)
    whole = Store(tmp_path / "whole").train(config)
    replace = Path.replace
    moments = 0
    for late in (False, True):
        for moment in range(100):
            store, left = Store(tmp_path / f"{late}-{moment}"), [moment]

            def killed(self: Path, target: Path, left: list[int] = left, late: bool = late) -> Path:
                left[0] -= 1
                if left[0] < 0 and not late:
                    raise KeyboardInterrupt
                done = replace(self, target)
                if left[0] < 0:
                    raise KeyboardInterrupt
                return done

            with monkeypatch.context() as patch:
                patch.setattr(Path, "replace", killed)
                try:
                    store.train(config)
                    break  # it has fewer files than that
                except KeyboardInterrupt:
                    moments += 1
            run = store.find(config)
            if run is not None and (run.path / STATE).is_file():
                use(run)
            assert same_result(store.train(config), whole)
            use(store.train(config))
    assert moments >= 2 * 9  # config; weights and state three times; the previous twice


# Symbolic links.


@pytest.mark.parametrize("name", [LOCK, TIMINGS, METRICS])
def test_symbolic_links_in_a_run_are_not_followed(half: Run, tmp_path: Path, name: str) -> None:
    target = tmp_path / "somebody's file"
    target.write_bytes((half.path / name).read_bytes())
    before = target.read_bytes()
    (half.path / name).unlink()
    (half.path / name).symlink_to(target)
    with pytest.raises(InnerloopError, match="is a symbolic link"):
        Store(half.path.parent).train(tiny())
    assert target.read_bytes() == before


def test_a_lock_that_is_a_link_to_nothing_makes_no_file(tmp_path: Path) -> None:
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / LOCK).symlink_to(tmp_path / "made")
    with pytest.raises(InnerloopError, match="is a symbolic link"), locked(tmp_path / "run"):
        pass
    assert not (tmp_path / "made").exists()


# What a state declares is more than its file.


def packed(state: dict[str, Any]) -> bytes:
    """The state in an archive that is compressed, as torch never writes one."""
    plain, small = BytesIO(), BytesIO()
    torch.save(state, plain)
    with zipfile.ZipFile(plain) as old, zipfile.ZipFile(small, "w", zipfile.ZIP_DEFLATED) as new:
        for name in old.namelist():
            new.writestr(name, old.read(name))
    return small.getvalue()


def views(numbers: torch.Tensor, times: int) -> dict[str, torch.Tensor]:
    """Tensors that share all their numbers."""
    return {f"w{number}": numbers[:] for number in range(times)}


HOSTILE: dict[str, Callable[[dict[str, Any]], Any]] = {
    "stride 0": lambda state: state | {"weights": {"w": torch.zeros(1).expand(100_000, 128_000)}},
    "a little of stride 0": lambda state: state | {"weights": {"w": torch.zeros(1).expand(3)}},
    "many views of one": lambda state: state | {"weights": views(torch.zeros(100_000), 9)},
    "sparse": lambda state: state | {"weights": {"w": torch.eye(3).to_sparse()}},
    "on no device": lambda state: state | {"weights": {"w": torch.zeros(3, device="meta")}},
    "threads": lambda state: state | {"threads": 10**6},
    "a step that is no number": lambda state: state | {"step": "five"},
    "a length below zero": lambda state: state | {"metrics": -1},
}


@pytest.mark.parametrize("what", HOSTILE)
def test_a_state_that_declares_more_than_it_holds_is_refused(half: Run, what: str) -> None:
    """Sealed by whoever made it: a checksum says nothing about intentions."""
    write_state(half.path, HOSTILE[what](torch.load(half.path / STATE, weights_only=True)))
    with pytest.raises(StartOverError, match=r"state\.pt (is damaged|holds no state)"):
        Store(half.path.parent).train(tiny())


def test_an_archive_that_unpacks_to_more_is_refused_before_it_is_unpacked(
    half: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    state = torch.load(half.path / STATE, weights_only=True)
    (half.path / STATE).write_bytes(packed(state | {"more": torch.zeros(10**6)}))
    unpacked: list[Path] = []
    monkeypatch.setattr(torch_files.torch, "load", lambda path, **_: unpacked.append(path))
    with pytest.raises(StartOverError, match=r"state\.pt is damaged"):
        Store(half.path.parent).train(tiny())
    assert half.path / STATE not in unpacked  # the previous one, which may be offered, is


@pytest.mark.parametrize("name", [METRICS, "config.json"])
def test_brackets_beyond_all_reason_are_refused(half: Run, name: str) -> None:
    with (half.path / name).open("ab") as file:
        file.write(b"[" * 200_000 + b"\n")
    with pytest.raises(InnerloopError):
        Store(half.path.parent).train(tiny())


def test_times_that_are_damaged_are_not_worth_a_refusal(run: Run) -> None:
    seconds = run.seconds
    with (run.path / TIMINGS).open("ab") as file:
        file.write(b"\xff\xfe\n" + b"[" * 200_000 + b"\n[]\n")
    assert run.seconds == seconds


@pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() == 0, reason="root reads all files")
def test_metrics_that_cannot_be_read_are_refused(run: Run) -> None:
    (run.path / METRICS).chmod(0)
    with pytest.raises(RunError, match="cannot read"):
        run.metrics()
