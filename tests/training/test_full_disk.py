"""A disk that is full, at any moment: one sentence, and the last checkpoint is as it was."""

import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from innerloop.core.errors import InnerloopError
from innerloop.training.run import METRICS, Run
from innerloop.training.state_file import STATE
from innerloop.training.store import Store
from tests.training import children
from tests.training.configs import tiny
from tests.training.test_damage import same_result, use
from tests.training.test_run import after

pytest.importorskip("resource", reason="limits of files are those of Unix")


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Run:
    return Store(tmp_path_factory.mktemp("runs")).train(tiny())


@pytest.mark.parametrize("fails", [METRICS, "weights.safetensors", STATE, "config.json"])
def test_files_that_may_not_grow_end_a_run_in_one_sentence(
    tmp_path: Path, trained: Run, fails: str
) -> None:
    half = Store(tmp_path).train(tiny(), stop=after(6))
    before = (half.path / STATE).read_bytes()
    sizes = {
        name: (half.path / name).stat().st_size
        for name in (METRICS, "weights.safetensors", STATE, "config.json")
    }
    # The metrics grow by the next line; the others are written whole.
    most = sizes[fails] + (20 if fails == METRICS else -1)
    expected = min((name for name in sizes if sizes[name] > most), key=_ORDER.index, default=fails)
    sentence = children.ending_with_small_files(tmp_path, tiny().model_dump_json(), most)
    assert f"cannot write {half.path / expected}: File too large. Make room" in sentence
    assert "\n" not in sentence
    assert (half.path / STATE).read_bytes() == before
    use(half)
    assert same_result(Store(tmp_path).train(tiny()), trained)


_ORDER = ["config.json", METRICS, "weights.safetensors", STATE]
"""In which order a resumed run writes its files."""


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A disk of its own, as large as a test makes it."""
    disk = tmp_path / "disk"
    disk.mkdir()
    if not resized(disk, "48k", new=True):
        pytest.skip("this user may mount no disk")
    try:
        yield disk
    finally:
        subprocess.run(["umount", str(disk)], check=True)


def resized(disk: Path, size: str, *, new: bool = False) -> bool:
    words = ["mount", "-t", "tmpfs", "-o", f"{'' if new else 'remount,'}size={size}", "tmpfs"]
    return subprocess.run([*words, str(disk)], capture_output=True).returncode == 0


@pytest.mark.slow
def test_disks_of_all_sizes_are_full_in_one_sentence_and_lose_nothing(
    small_disk: Path, trained: Run
) -> None:
    store, ended = Store(small_disk / "runs"), list[str]()
    for size in ("8k", "16k", "24k", "32k", "48k", "64k", "80k", "96k", "128k", "160k"):
        assert resized(small_disk, size)
        try:
            store.train(tiny())
            sentence = "finished"
        except InnerloopError as error:
            sentence = str(error)
        assert sentence == "finished" or "No space left on device. Make room" in sentence
        assert "\n" not in sentence
        ended.append(sentence.split(":")[0].rpartition("/")[2])
        run = store.find(tiny())
        if run is not None and (run.path / STATE).is_file():
            use(run)
    assert len(set(ended)) > 2, ended  # full at different files
    assert ended[-1] == "finished"
    assert same_result(store.train(tiny()), trained)
