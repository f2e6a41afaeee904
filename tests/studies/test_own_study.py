"""The study of docs/study.md, as a file outside the package."""

import re
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from typer.testing import CliRunner

from innerloop.cli.main import app
from innerloop.core.errors import ConfigurationError
from innerloop.core.named import import_named
from innerloop.studies.result import read_result
from innerloop.studies.study import Study
from innerloop.studies.table import find_studies

PAGE = Path(__file__).parents[2] / "docs" / "study.md"


def blocks() -> list[str]:
    return re.findall(r"```python\n(.*?)```", PAGE.read_text("utf-8"), flags=re.DOTALL)


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A folder with mystudies.py, which is the current one."""
    (tmp_path / "mystudies.py").write_text(blocks()[0])
    (tmp_path / "broken.py").write_text("import no_such_module\n")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [*sys.path])
    yield tmp_path
    for name in ("mystudies", "broken"):
        sys.modules.pop(name, None)


def test_it_is_short() -> None:
    assert len(blocks()[0].splitlines()) <= 60


@pytest.mark.parametrize("workers", [1, 2])
def test_it_is_reproduced_by_its_name(folder: Path, workers: int) -> None:
    words = ["--scale", "smoke", "--seeds", "2", "--workers", str(workers)]
    answer = CliRunner().invoke(app, ["reproduce", "mystudies:fig1", *words])
    assert answer.exit_code == 0, answer.output
    result = read_result(folder / "results" / "smoke" / "mine" / "fig1")
    assert len(result.runs) == 2
    assert set(result.table("by-examples")["label"]) == {"loop", "descent", "ridge"}
    page = (result.folder / "index.html").read_text("utf-8")
    assert "innerloop reproduce mystudies:fig1 --scale smoke --seeds 2" in page
    described = CliRunner().invoke(app, ["studies", "mystudies:fig1"])
    assert "ten steps of gradient descent" in described.output


def test_the_python_beside_it_runs(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    sys.path.insert(0, str(folder))  # as Python does for a script
    exec(compile(blocks()[1], PAGE.name, "exec"), {})
    assert capsys.readouterr().out == "1 exploratory\n"


@pytest.mark.parametrize(
    ("name", "sentence"),
    [
        ("mystudies:fig2", "unknown study of mystudies 'fig2': did you mean 'fig1'?"),
        ("mystudies:NOISE", "mystudies:NOISE is of the type float, expected a study: mystudies has "
         "fig1."),
        ("nowhere.studies:fig1", "there is no module 'nowhere' for 'nowhere.studies:fig1'"),
        ("mystudies:", "'mystudies:' does not name a study: write module:name"),
        ("/tmp/x.py:fig1", "'/tmp/x.py:fig1' does not name a study"),
    ],
)  # fmt: skip
def test_a_wrong_name_is_one_sentence(folder: Path, name: str, sentence: str) -> None:
    with pytest.raises(ConfigurationError) as error:
        find_studies(name)
    assert str(error.value).startswith(sentence)


def test_what_a_module_lacks_itself_is_not_hidden(folder: Path) -> None:
    with pytest.raises(ModuleNotFoundError, match="no_such_module"):
        import_named("broken:fig1", Study, "study")
