"""One process at a time trains a run, on any system."""

import ast
import os
import signal
from pathlib import Path

import pytest

import innerloop
from innerloop.core.errors import InnerloopError
from innerloop.training.lock import LOCK, LockedError, locked
from tests.training import children

UNIX_ONLY = {
    "fcntl", "grp", "posix", "pty", "pwd", "resource", "syslog", "termios", "tty",
}  # fmt: skip


def refusal(folder: Path) -> str:
    with pytest.raises(LockedError) as raised, locked(folder):
        pass
    return str(raised.value)


def test_a_process_that_holds_the_lock_is_named_and_frees_it_when_it_is_killed(
    tmp_path: Path,
) -> None:
    child, holds = children.hold_lock(tmp_path)
    assert holds.poll(60)
    assert refusal(tmp_path) == (
        f"{tmp_path.name} is being trained by another process (id {child.pid}): wait for it, or "
        "stop it first."
    )
    assert child.pid is not None
    os.kill(child.pid, signal.SIGKILL)
    child.join()
    with locked(tmp_path):
        assert f"(id {os.getpid()})" in refusal(tmp_path)


def test_the_file_stays_behind_and_names_nobody(tmp_path: Path) -> None:
    for _ in range(2):
        with locked(tmp_path / "new"):
            file = tmp_path / "new" / LOCK
            inode = file.stat().st_ino
        assert file.read_bytes() == b""
        assert file.stat().st_ino == inode


def test_an_owner_that_left_no_name_is_unknown(tmp_path: Path) -> None:
    with locked(tmp_path):
        (tmp_path / LOCK).write_text("")
        assert "(id unknown)" in refusal(tmp_path)


def test_what_fails_under_the_lock_frees_it(tmp_path: Path) -> None:
    with pytest.raises(KeyError), locked(tmp_path):
        raise KeyError
    with locked(tmp_path):
        pass


def test_a_place_without_a_folder_is_one_sentence(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(InnerloopError, match="cannot write"), locked(tmp_path / "file" / "run"):
        pass


def test_no_module_imports_what_only_unix_has() -> None:
    for path in Path(innerloop.__file__).parent.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
            if isinstance(node, ast.ImportFrom) and not node.level:
                names = [node.module or ""]
            assert not UNIX_ONLY & {name.split(".")[0] for name in names}, path
