"""Fingerprints: what results rest on changes them, words do not, nor does the version of Python."""

import ast
import hashlib
import sys
from collections.abc import Callable
from importlib import import_module, invalidate_caches
from pathlib import Path
from typing import Any

import pytest

from innerloop.studies import code
from innerloop.studies.code import code_of, written_out
from innerloop.studies.table import find_studies

SOURCE = '''"""A module with one of everything."""
from __future__ import annotations
import math as m

LIMIT: float = 1e-3
"""What is small."""


@decorated(1)
class One(Two, metaclass=Three):
    """A class."""

    def method(self, x, /, y=2, *rest, key: "int" = 3, **others) -> str:
        # A comment.
        with open(x) as file, other:
            *first, last = [i async for i in y if i > 0 or not i]
        try:
            return f"{x!r:>{y}} {last=} ü" if x is not None else b"\\x00" + rest[1:-1]
        except* (ValueError, KeyError) as error:
            raise TypeError("words") from error
        finally:
            del x
        match y:
            case {"a": [1, *_]} | None:
                x = lambda z: (yield z) ** 0.1 + 1j
'''


def test_a_syntax_tree_is_written_as_ever() -> None:
    # Of Python 3.11, 3.12, 3.13 and 3.14: another value means that all results are measured again.
    text = written_out(ast.parse(SOURCE))
    assert hashlib.sha256(text.encode()).hexdigest()[:16] == "8e76d501c1f46415"


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ('"""A module with one of everything."""', '"""Other words."""'),
        ("        # A comment.\n", ""),
        ('"""What is small."""', ""),
        ('raise TypeError("words")', 'raise TypeError("other words")'),
        ("@decorated(1)", "@decorated( 1 )"),
    ],
)
def test_words_change_nothing(old: str, new: str) -> None:
    assert old in SOURCE
    assert written_out(ast.parse(SOURCE.replace(old, new))) == written_out(ast.parse(SOURCE))


@pytest.mark.parametrize(
    ("old", "new"),
    [("1e-3", "1e-4"), ("i > 0", "i >= 0"), ("y=2", "y=None"), ("ü", "u"), ("x is not", "x is")],
)
def test_numbers_and_signs_do(old: str, new: str) -> None:
    assert old in SOURCE
    assert written_out(ast.parse(SOURCE.replace(old, new))) != written_out(ast.parse(SOURCE))


def test_what_a_study_says_of_itself_changes_nothing_and_its_claims_do() -> None:
    source = '@declare(id="fig", title="A", smaller={"laptop": "b"}, claims=(1,))\ndef f(): ...'
    known = written_out(ast.parse(source))
    assert written_out(ast.parse(source.replace('"A"', '"B"').replace('"b"', '"c"'))) == known
    assert written_out(ast.parse(source.replace("(1,)", "(2,)"))) != known


@pytest.mark.parametrize(
    ("head", "counts"),
    [
        ("def _draw_fig(tables: Tables) -> Figure:", False),
        ("def draw_line(axes: Axes, table: Frame) -> None:", False),
        ("def draw_all(tables: Tables, *, axes: Sequence[Axes]) -> list[int]:", False),
        ("def draw(task: Task, points: int) -> Prompt:", True),
        ("def steps(figure: int, axes: int):", True),
    ],
)
def test_how_a_study_draws_changes_nothing_and_what_it_draws_from_does(
    head: str, counts: bool
) -> None:
    source = f"LIMIT = 1\n{head}\n    return one()\n"
    known = written_out(ast.parse(source))
    assert (written_out(ast.parse(source.replace("one", "two"))) != known) == counts
    assert written_out(ast.parse(source.replace("LIMIT = 1", "LIMIT = 2"))) != known


def test_a_study_rests_on_models_learners_tasks_and_measures() -> None:
    (study,) = find_studies("yang2024/fig2")
    runs = study.runs("laptop")
    kinds = {config.model_type for config in runs.values()}
    modules = code_of(study.measure, *kinds, *(type(config.task) for config in runs.values()))
    for module in (
        "analysis.intervals", "core.iterate", "learners.nested", "models.attention",
        "studies.yang2024.fixed_points", "tasks.linear",
    ):  # fmt: skip
        assert f"innerloop.{module}" in modules
    for module in ("learners.lasso", "models.lstm", "studies.chen2025.training", "tasks.tree"):
        assert f"innerloop.{module}" not in modules, "it takes nothing from there"


def test_a_theorem_rests_on_its_circuits() -> None:
    (study,) = find_studies("gao2025/thm4.1")
    modules = code_of(study.measure)
    assert "innerloop.circuits.newton_softmax" in modules
    assert "innerloop.studies.theorems" in modules
    assert "innerloop.studies.reproduce" not in modules


def test_the_fingerprint_changes_with_the_code_of_a_model(monkeypatch: pytest.MonkeyPatch) -> None:
    (study,) = find_studies("yang2024/fig2")
    before = study.fingerprint("smoke", (0,))
    original: Callable[..., Any] = code._read

    def altered(module: str, path: Path, changed: int) -> tuple[str, tuple[str, ...]]:
        text, imported = original(module, path, changed)
        return (f"{text} altered" if module == "innerloop.models.attention" else text), imported

    monkeypatch.setattr(code, "_read", altered)
    assert study.fingerprint("smoke", (0,)) != before


def package(folder: Path, solver: str, *, other: str = "ONE = 1\n") -> None:
    files = {
        "__init__.py": "from .solvers import solve\n",
        "solvers.py": solver,
        "other.py": other,
        "studies.py": "import ownstudies\n\n\ndef measure(lab):\n    ownstudies.solve(lab)\n",
    }
    folder.mkdir(exist_ok=True)
    for name, text in files.items():
        (folder / name).write_text(text)


def test_a_package_of_ones_own_is_followed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = tmp_path / "ownstudies"
    monkeypatch.syspath_prepend(tmp_path)
    package(folder, "def solve(lab):\n    return 1\n")
    invalidate_caches()
    measure = import_module("ownstudies.studies").measure
    plain = code_of(measure)
    assert list(plain) == ["ownstudies.solvers", "ownstudies.studies"]
    package(folder, 'def solve(lab):\n    """One."""\n    return 1  # !\n', other="ONE = 2\n")
    assert code_of(measure) == plain
    package(folder, "def solve(lab):\n    return 2\n")
    assert code_of(measure) != plain
    for name in [name for name in sys.modules if name.startswith("ownstudies")]:
        del sys.modules[name]


def test_a_study_from_a_shell_is_known_by_its_numbers() -> None:
    codes: list[dict[str, str]] = []
    for number in (10, 20):
        scope: dict[str, Any] = {}
        exec(f"def measure(lab):\n    return {number}\n", scope)
        codes.append(code_of(scope["measure"]))
    assert codes[0] != codes[1]
