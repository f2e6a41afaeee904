"""Ctrl-C while the command line is still importing, and readers that leave early."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from innerloop.cli.main import main
from innerloop.training.store import Store

TRAIN = (
    "train", "looped-linear", "--scale", "smoke", "threads=1", "log_every=1", "steps=40",
)  # fmt: skip

SWALLOWING = """
import signal
import innerloop as il

class Swallowing(il.learners.OLS):
    def init(self, prompt):
        try:
            signal.raise_signal(signal.SIGINT)
        except KeyboardInterrupt:
            raise ValueError("Invalid affine transformation matrix") from None

learner = Swallowing()
"""


def started(*words: str, python: tuple[str, ...] = ()) -> subprocess.Popen[str]:
    """The command in a process of its own, without a terminal."""
    return subprocess.Popen(
        [sys.executable, *python, "-m", "innerloop", *words],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env={**os.environ},
    )  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize("imported", ["innerloop.core.errors", "typer", "torch.nn"])
def test_ctrl_c_while_it_is_importing_is_no_traceback(tmp_path: Path, imported: str) -> None:
    # Python says what it has imported, module by module.
    child = started(*TRAIN, "--store", str(tmp_path), python=("-X", "importtime"))
    assert child.stderr is not None
    for line in child.stderr:
        if line.rpartition("|")[2].strip() == imported:
            break
    else:
        pytest.fail(f"{imported} is never imported")
    child.send_signal(signal.SIGINT)
    _, rest = child.communicate()
    said = [line for line in rest.splitlines() if not line.startswith("import time:")]
    assert said == []
    assert child.returncode == -signal.SIGINT
    assert not any(tmp_path.iterdir())


@pytest.mark.slow
def test_readers_that_leave_do_not_end_training(tmp_path: Path) -> None:
    child = started(*TRAIN, "--store", str(tmp_path))
    assert child.stderr is not None
    assert child.stdout is not None
    assert "loss" in child.stderr.readline()
    child.stderr.close()
    child.stdout.close()
    assert child.wait() == 0
    (run,) = Store(tmp_path).runs()
    assert run.finished


def test_ctrl_c_that_other_code_turns_into_an_error_is_no_traceback(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    # As matplotlib does, where Ctrl-C comes while its C code asks for a matrix.
    tmp_path.joinpath("swallowing.py").write_text(SWALLOWING)
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    before = signal.getsignal(signal.SIGINT)
    with pytest.raises(SystemExit) as end:
        main(["evaluate", "swallowing:learner", "--prompts", "2"])
    assert end.value.code == 130
    assert capsys.readouterr().err.endswith("Aborted.\n")
    assert signal.getsignal(signal.SIGINT) is before
