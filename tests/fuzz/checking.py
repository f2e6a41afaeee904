"""What must hold of every command line, and of every verb that reads a configuration."""

from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

from hypothesis import HealthCheck, Phase, given, seed, settings
from hypothesis import strategies as st

from tests.fuzz.sandbox import Ending, copied, run_in
from tests.fuzz.template import RUN, template

Value = TypeVar("Value")

READERS = (
    ("runs",), ("runs", "--json", "-"), ("evaluate", "run", "ols", "--prompts", "2"),
    ("identify", "run", "--prompts", "2", "--battery", "none", "--candidates", "ols"),
    ("inspect", "run", "--prompts", "2"), ("classify", "run", "A text."),
    ("translate", "run", "Ein Satz."), ("verify", "./run"), ("runs", "export", "run", "out.zip"),
    ("runs", "ship", "run", "out"), ("runs", "rm", "run", "--yes"), ("runs", "rm", RUN, "--yes"),
    ("evaluate", RUN, "--prompts", "2"), ("compare-tables", "--splits", "1", "--regression", "run"),
    ("report", "--runs", "runs"), ("compile", "newton-relu", "-o", "run"),
)  # fmt: skip
"""Command lines that read the configuration of a run, in `run` or under its own name."""


def check_command_line(words: list[str]) -> Ending:
    """Run a command line in a folder of its own; an AssertionError says what is wrong with it."""
    with copied(template()) as folder:
        return _checked(run_in(folder, words))


def check_configuration(content: bytes, words: tuple[str, ...]) -> Ending:
    """Run a verb on a run whose configuration is this file."""
    with copied(template()) as folder:
        for place in ("run", RUN):
            Path(folder, place, "config.json").write_bytes(content)
        return _checked(run_in(folder, words))


def _checked(ending: Ending) -> Ending:
    complaint = ending.complaint()
    assert complaint is None, f"innerloop {list(ending.words)}: {complaint}"
    return ending


def try_many(
    values: st.SearchStrategy[Value], check: Callable[[Value], object], *, seeds: range
) -> None:
    """Check one value for each seed; what fails is made as small as it can be.

    One at a time, since hypothesis would try several neighbours of each value that it draws.
    """
    for number in seeds:
        _try_one(values, check, number)


def _try_one(
    values: st.SearchStrategy[Value], check: Callable[[Value], object], number: int
) -> None:
    tried = 0

    @seed(number)
    @settings(
        max_examples=2, database=None, deadline=None, derandomize=False,
        phases=[Phase.generate, Phase.shrink],
        suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
    )  # fmt: skip
    @given(values)
    def once(value: Value) -> None:
        nonlocal tried
        tried += 1
        if tried > 1:  # the first is the simplest value, whatever the seed
            check(value)

    once()
