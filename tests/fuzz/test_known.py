"""Command lines and configurations that have ended in a traceback, or in worse."""

import json
from typing import Any

import pytest

from tests.fuzz import sandbox
from tests.fuzz.checking import READERS, check_command_line, check_configuration
from tests.fuzz.values import LONG
from tests.training.configs import tiny

TRAIN = ("train", "looped-linear", "--scale", "smoke", "steps=2")
SMALL = ("dims=2", "--prompts", "2")

LINES: list[tuple[tuple[str, ...], str]] = [
    (("evaluate", LONG), "unknown learner"),
    (("evaluate", "ols", *SMALL, "-o", LONG), "File name too long"),
    (("evaluate", "ols", *SMALL, "--json", LONG), "File name too long"),
    (("evaluate", f"{LONG}/{LONG}"), "File name too long"),
    ((*TRAIN, "--store", LONG), "File name too long"),
    (("runs", "--store", LONG), "File name too long"),
    (("runs", "rm", LONG), "File name too long"),
    (("report", "--results", LONG), "File name too long"),
    (("import", LONG, "--from", "garg", "--heads", "1", "-o", "out"), "File name too long"),
    ((*TRAIN, "threads=1000000"), "less than or equal to 1024"),
    ((*TRAIN, "threads=1023"), "take as many as it has cores"),
    (("bench", "looped-linear", "--threads", "100000000"), "1024"),
    (("bench", "looped-linear", "--threads", "1023"), "take as many as it has cores"),
    ((*TRAIN, "model.backbone.width=1000000"), "numbers would take about"),
    ((*TRAIN, "points=1000000000"), "points=1000000000, in the 512 held-out prompts"),
    ((*TRAIN, "batch=100000000"), "batch=100000000 accumulate=1 would take about"),
    ((*TRAIN, f"task.dims={10**20}"), "dims is too large"),
    ((*TRAIN, "task.noise=1e300"), "not finite"),
    ((*TRAIN, "optimizer.learning_rate=1e300"), "a number that float32 has, up to 3e38"),
    (("evaluate", "ols", f"dims={10**400}"), "dims is too large"),
    (("evaluate", "ols", *SMALL, "--points", f"{10**30}"), "points is too large"),
    (("evaluate", "ols", *SMALL, "noise=1e300"), "not finite"),
    (("reproduce", "yang2024/fig2", "--seeds", f"3-{10**20}"), "seeds are"),
    (("reproduce", "yang2024/fig2", "--seeds", "999999999"), "expected at most 1000"),
    (("identify", "ols", "--task", "tabular-prior", *SMALL), "after the last example"),
    (("evaluate", "ols", "--task", "representation-ar", f"order={2**62}", *SMALL), "10000"),
    (("compile", "sherman-morrison", "scale=5e-324"), "from 1e-30 to 1e30"),
    (("compile", "newton-softmax", "largest_input=1e30"), "beyond the range of float64"),
    (("compile", "newton-relu", "start=1e300"), "from 1e-30 to 1e30"),
    (("compile", "autoregression", "layers=1000000000"), "less than or equal to 1000"),
    (("compile", "representation", f"outputs={10**18}"), "less than or equal to 1000"),
    ((*TRAIN, "model.backbone.loops=1000000000"), "less than or equal to 1000000"),
    (("verify", "\x1b[31mred"), "control character"),
    (("runs", "ship", "run", "\udcff"), "not UTF-8"),
]


@pytest.fixture(autouse=True)
def _patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without the Ctrl-C of the fuzzer: what is said of these must not depend on their time."""
    monkeypatch.setattr(sandbox, "SECONDS", 90.0)


@pytest.mark.parametrize(("words", "piece"), LINES, ids=[str(i) for i in range(len(LINES))])
def test_a_wrong_command_line_is_one_sentence(words: tuple[str, ...], piece: str) -> None:
    ending = check_command_line(list(words))
    assert ending.code == 2
    assert piece in " ".join(ending.errors.replace("│", " ").split())


@pytest.mark.parametrize("verb", ["inspect", "evaluate"])
def test_brackets_in_the_name_of_a_folder_are_no_markup(verb: str) -> None:
    ending = check_command_line([verb, "circuit", "--prompts", "4", "-o", "[/]"])
    assert ending.code == 0
    assert "figure [/]/circuit" in ending.output


CONFIGURATIONS: list[tuple[Any, str]] = [
    ({**tiny().model_dump(mode="json"), "model": {"kind": ["lstm"]}}, "'kind'"),
    ({**tiny().model_dump(mode="json"), "seed": 10**30}, "seed is too large"),
    ({**tiny().model_dump(mode="json"), "threads": 10**6}, "less than or equal to 1024"),
    ([], "RunConfig"),
]


@pytest.mark.parametrize("words", READERS[:3], ids=" ".join)
@pytest.mark.parametrize(
    ("values", "piece"), CONFIGURATIONS, ids=["kind", "seed", "threads", "list"]
)
def test_a_wrong_configuration_is_one_sentence(
    words: tuple[str, ...], values: Any, piece: str
) -> None:
    ending = check_configuration(json.dumps(values).encode(), words)
    assert ending.code == (0 if words[0] == "runs" else 2)  # one broken run hides no others
    said = " ".join((ending.output + ending.errors).replace("│", " ").split())
    assert words == ("runs",) or piece in said


def test_brackets_that_never_close_are_one_sentence() -> None:
    ending = check_configuration(b"[" * 200_000, ("evaluate", "run"))
    assert "nested too deeply" in ending.errors
