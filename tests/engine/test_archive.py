"""A run's files as bytes and back; what is no file of a run is refused."""

from io import BytesIO
from pathlib import Path
from zipfile import ZIP_DEFLATED, ZIP_STORED, ZipFile

import pytest

from innerloop.engine.archive import ArchiveError, pack_run, unpack_run
from innerloop.engine.trainings import Training
from innerloop.training import Store, recipe
from innerloop.training.lock import LOCK, LockedError, locked
from innerloop.training.run import Run


def test_a_run_is_the_same_elsewhere_and_goes_on_there(tmp_path: Path) -> None:
    config = recipe("looped-linear", scale="smoke", steps=6, save_every=1)
    asked: list[int] = []

    def stop() -> bool:
        asked.append(1)
        return len(asked) > 3

    here = Training(config, "a", Store(tmp_path / "here"))
    assert here.pack() == b""
    assert not here.do(lambda share, doing: None, stop)
    there = here.within(tmp_path / "there")
    there.unpack(here.pack())
    (moved,) = (tmp_path / "there").iterdir()
    assert Run.open(moved).step == 3
    assert there.do(lambda share, doing: None, lambda: False)
    here.unpack(there.pack())
    back = here.store.find(config)
    assert back is not None
    assert back.finished
    assert (moved / LOCK).exists()
    straight = Store(tmp_path / "straight").train(config)
    for name in ("weights.safetensors", "metrics.jsonl", "config.json"):
        assert (back.path / name).read_bytes() == (straight.path / name).read_bytes()


def test_locks_links_and_halves_of_files_stay_where_they_are(tmp_path: Path) -> None:
    folder = tmp_path / "run"
    folder.mkdir()
    for name in (LOCK, ".state-x1.pt", "state.pt"):
        (folder / name).write_text(name)
    (folder / "metrics.jsonl").symlink_to("/etc/passwd")
    with ZipFile(BytesIO(pack_run(folder))) as archive:
        assert archive.namelist() == ["state.pt"]


def archive_of(name: str, method: int = ZIP_STORED) -> bytes:
    packed = BytesIO()
    with ZipFile(packed, "w", method) as archive:
        archive.writestr(name, b"0" * 1000)
    return packed.getvalue()


def flipped(packed: bytes) -> bytes:
    return packed[:100] + bytes([packed[100] ^ 1]) + packed[101:]


@pytest.mark.parametrize(
    "packed",
    [
        archive_of("../state.pt"),
        archive_of("/tmp/state.pt"),
        archive_of("a/state.pt"),
        archive_of(".state.pt"),
        archive_of(LOCK),
        archive_of("state.pt", ZIP_DEFLATED),
        archive_of("state.pt")[:-10],
        flipped(archive_of("state.pt")),
        b"not an archive",
    ],
)
def test_what_is_no_file_of_a_run_is_refused_and_nothing_is_written(
    tmp_path: Path, packed: bytes
) -> None:
    with pytest.raises(ArchiveError, match="give the same command again"):
        unpack_run(packed, tmp_path / "run")
    assert list(tmp_path.iterdir()) == []


def test_a_run_that_is_being_trained_is_not_written_over(tmp_path: Path) -> None:
    with locked(tmp_path / "run"), pytest.raises(LockedError):
        unpack_run(archive_of("state.pt"), tmp_path / "run")
