"""The study of docs/study.md, as a file outside the package."""

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
from tests.snippets import folder_of


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[Path]:
    """A folder with mystudies.py, which is the current one."""
    (tmp_path / "broken.py").write_text("import no_such_module\n")
    with folder_of(["study.md"], tmp_path):
        yield tmp_path
    sys.modules.pop("broken", None)


def test_it_is_short(folder: Path) -> None:
    assert len((folder / "mystudies.py").read_text("utf-8").splitlines()) <= 60


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
