"""Files appear whole or not at all."""

import errno
import os
import stat
from pathlib import Path

import pytest

from innerloop.core.errors import InnerloopError
from innerloop.core.files import (
    open_own,
    require_file_place,
    require_folder,
    slug,
    write_atomically,
)


def test_the_file_is_written_with_its_folders(tmp_path: Path) -> None:
    path = tmp_path / "a" / "b" / "table.csv"
    assert write_atomically(path, lambda temporary: temporary.write_text("1,2")) == path
    assert path.read_text() == "1,2"
    assert [found.name for found in path.parent.iterdir()] == ["table.csv"]


def test_the_writer_sees_the_suffix(tmp_path: Path) -> None:
    seen: list[Path] = []

    def write(temporary: Path) -> None:
        seen.append(temporary)
        temporary.touch()

    write_atomically(tmp_path / "figure.png", write)
    assert seen[0].suffix == ".png"
    assert seen[0] != tmp_path / "figure.png"
    assert seen[0].parent == tmp_path


def test_an_interrupted_write_leaves_the_old_file(tmp_path: Path) -> None:
    path = tmp_path / "table.csv"
    path.write_text("old")

    def break_off(temporary: Path) -> None:
        temporary.write_text("half")
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        write_atomically(path, break_off)
    assert path.read_text() == "old"
    assert list(tmp_path.iterdir()) == [path]


def test_an_old_file_is_replaced(tmp_path: Path) -> None:
    path = tmp_path / "table.csv"
    path.write_text("old")
    write_atomically(path, lambda temporary: temporary.write_text("new"))
    assert path.read_text() == "new"


def test_the_file_is_as_public_as_any_other(tmp_path: Path) -> None:
    before = os.umask(0o027)
    try:
        path = write_atomically(tmp_path / "table.csv", lambda temporary: temporary.touch())
        now = os.umask(0o027)
    finally:
        os.umask(before)
    assert path.stat().st_mode & 0o777 == 0o640
    assert now == 0o027


def test_a_place_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    path = tmp_path / "file" / "table.csv"
    with pytest.raises(InnerloopError, match=r"cannot write .*table\.csv: .* Choose another place"):
        write_atomically(path, lambda temporary: temporary.touch())


def test_a_folder_in_the_place_of_the_file_is_named(tmp_path: Path) -> None:
    (tmp_path / "table.csv").mkdir()
    with pytest.raises(InnerloopError, match=r"cannot write .*table\.csv"):
        write_atomically(tmp_path / "table.csv", lambda temporary: temporary.touch())


def test_a_folder_is_required_before_the_work(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    require_folder(tmp_path)
    require_folder(tmp_path / "new" / "deeper")
    assert not (tmp_path / "new").exists()
    with pytest.raises(InnerloopError, match="is a file, not a folder"):
        require_folder(tmp_path / "file" / "deeper")


def test_content_and_name_are_on_disk_in_this_order(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path, seen = tmp_path / "table.csv", list[tuple[bool, bool]]()

    def note(handle: int) -> None:
        seen.append((stat.S_ISDIR(os.fstat(handle).st_mode), path.exists()))

    monkeypatch.setattr(os, "fsync", note)
    write_atomically(path, lambda temporary: temporary.write_text("new"))
    assert seen == [(False, False), (True, True)]


def test_folders_that_cannot_be_put_on_disk_are_forgiven_but_files_are_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    refused: set[bool] = {True}

    def refuse(handle: int) -> None:
        if stat.S_ISDIR(os.fstat(handle).st_mode) in refused:
            raise OSError(errno.EIO, "broken disk")

    monkeypatch.setattr(os, "fsync", refuse)
    path = write_atomically(tmp_path / "table.csv", lambda temporary: temporary.write_text("1"))
    assert path.read_text() == "1"
    refused.add(False)
    with pytest.raises(InnerloopError, match="broken disk"):
        write_atomically(path, lambda temporary: temporary.write_text("2"))
    assert path.read_text() == "1"
    assert list(tmp_path.iterdir()) == [path]


def test_a_place_for_a_file_is_required_before_the_work(tmp_path: Path) -> None:
    require_file_place(tmp_path / "new" / "table.csv")
    assert not (tmp_path / "new").exists()
    with pytest.raises(InnerloopError, match="is a folder: give a file"):
        require_file_place(tmp_path)


def test_a_slug_is_a_name_of_a_file() -> None:
    assert slug("A Name!") == "a-name"
    assert slug("../runs/x:noise=0.5") == "runs-x-noise-0.5"


@pytest.mark.skipif(not hasattr(os, "O_NOFOLLOW"), reason="the system cannot refuse links itself")
def test_a_link_that_appears_at_the_last_moment_is_not_followed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").write_text("somebody's")
    (tmp_path / "link").symlink_to(tmp_path / "file")
    monkeypatch.setattr(Path, "is_symlink", lambda self: False)  # as if it came after the look
    with pytest.raises(InnerloopError, match="cannot write"):
        open_own(tmp_path / "link", "w")
    assert (tmp_path / "file").read_text() == "somebody's"
