"""A sample of what `python -m tests.fuzz` tries by the thousand, and that it would find faults."""

import os
import signal
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import strategies as st

from tests.fuzz import sandbox
from tests.fuzz.checking import READERS, check_command_line, check_configuration, try_many
from tests.fuzz.command_lines import command_lines, commands
from tests.fuzz.configurations import files
from tests.fuzz.sandbox import run_in

# A Ctrl-C may fall into a destructor, or into a callback of the garbage collector, which Python
# cannot raise it from; the next one comes a second later.
pytestmark = pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")


@pytest.mark.parametrize(
    "seeds", [range(15), pytest.param(range(15, 115), marks=pytest.mark.slow)], ids=["few", "many"]
)
def test_command_lines_end_in_a_sentence(seeds: range) -> None:
    try_many(command_lines(), check_command_line, seeds=seeds)


@pytest.mark.parametrize(
    "seeds", [range(25), pytest.param(range(25, 225), marks=pytest.mark.slow)], ids=["few", "many"]
)
def test_configurations_end_in_a_sentence(seeds: range) -> None:
    pairs = st.tuples(files(), st.sampled_from(READERS))
    try_many(pairs, lambda pair: check_configuration(*pair), seeds=seeds)


def test_every_verb_is_in_the_grammar() -> None:
    assert {("evaluate",), ("runs", "rm"), ("data", "get"), ("compare-tables",)} <= set(commands())


def _raise() -> None:
    raise TypeError("a bug")


def _write_outside() -> None:
    Path(__file__).with_name("never").write_text("written")


def _compute_for_ever() -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    while True:
        sum(range(1000))


def _say_two_things() -> None:
    print("error: one thing.\nand another", file=sys.stderr)
    sys.exit(2)


def _take_memory() -> None:
    bytearray(2**31)


FAULTS: dict[str, tuple[Callable[[], object], str]] = {
    "a bug": (_raise, "TypeError: a bug"),
    "a file elsewhere": (_write_outside, "writes outside its folder"),
    "no end": (_compute_for_ever, "it goes on after"),
    "no sentence": (_say_two_things, "no sentence at its end"),
    "another exit code": (lambda: sys.exit(3), "the exit code 3"),
    "an escape sequence": (lambda: print("\x1b[31m"), "control character"),
    "much memory": (_take_memory, "MemoryError"),
    "a process": (lambda: os.system("true"), "Resource temporarily unavailable"),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_a_fault_is_found(fault: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    act, piece = FAULTS[fault]
    monkeypatch.setattr(sandbox, "main", lambda words: act())
    monkeypatch.setattr(sandbox, "SECONDS", 0.05)
    monkeypatch.setattr(sandbox, "AGAIN", 0.02)
    complaint = run_in(tmp_path, []).complaint()
    assert complaint is not None
    assert piece in complaint


def test_what_is_right_is_not_complained_about(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sandbox, "main", lambda words: (tmp_path / "out").write_text("a file"))
    assert run_in(tmp_path, []).complaint() is None


def test_a_mistake_is_no_fault(tmp_path: Path) -> None:
    ending = run_in(tmp_path, ["evaluate", "olz"])
    assert ending.code == 2
    assert ending.complaint() is None
