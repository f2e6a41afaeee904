"""Data sets: where they are, what is wrong with a file, and getting them.

The libraries that download are stood in for at the call that touches the network: what they give is
made here in the form that they document, and nothing says that their servers still have it.
"""

import gzip
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pandas as pd
import pytest

from innerloop.cli.main import main
from innerloop.core.errors import ConfigurationError, InnerloopError
from innerloop.data.catalog import DATASETS, find_dataset
from innerloop.data.download import download
from innerloop.data.folder import cache_folder, data_folder, find_file, use_folder
from innerloop.data.reading import (
    DataError,
    MissingDataError,
    digest,
    is_here,
    read_csv,
    read_pairs,
    read_texts,
)
from tests.language.made import write_ag_news, write_csv


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("INNERLOOP_DATA", str(tmp_path))
    return tmp_path


def test_the_folder_is_the_users_or_that_of_the_cache(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert data_folder() == tmp_path
    monkeypatch.delenv("INNERLOOP_DATA")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    assert data_folder() == tmp_path / "cache" / "innerloop" / "data"
    monkeypatch.delenv("XDG_CACHE_HOME")
    assert cache_folder() == Path.home() / ".cache" / "innerloop"


def test_a_folder_that_is_not_there_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(ConfigurationError, match="there is no folder"):
        use_folder(tmp_path / "none")
    monkeypatch.setenv("INNERLOOP_DATA", str(tmp_path / "none"))
    with pytest.raises(ConfigurationError, match="is not a folder: make it"):
        find_file("text/ag_news_train.csv")


def test_the_catalog_has_what_the_papers_use() -> None:
    kinds = [data.kind for data in DATASETS.values()]
    assert [kinds.count(kind) for kind in ("tabular", "text", "translation")] == [10, 5, 2]
    assert len(find_dataset("dbpedia14").classes) == 14
    with pytest.raises(ConfigurationError, match="did you mean 'ag_news'"):
        find_dataset("ag-news")


def test_a_data_set_that_is_missing_is_one_sentence_with_the_command() -> None:
    assert not is_here(DATASETS["imdb"])
    with pytest.raises(MissingDataError, match="`innerloop data get imdb`"):
        read_texts("imdb", "train")


def test_gzipped_and_plain_files_are_the_same_data(folder: Path) -> None:
    write_ag_news(folder, train=8, test=4)
    packed, known = read_texts("ag_news", "train"), digest("ag_news")
    for file in (folder / "text").glob("*.gz"):
        file.with_suffix("").write_bytes(gzip.decompress(file.read_bytes()))
        file.unlink()
    assert read_texts("ag_news", "train") == packed
    assert digest("ag_news") == known
    assert len(packed.texts) == 8
    assert set(packed.labels) == {0, 1, 2, 3}


def test_texts_are_texts_even_where_they_look_like_numbers_or_nothing(folder: Path) -> None:
    rows = [(0, "NA"), (1, "12"), (2, "null"), (3, "a, b\nc")]
    for split in ("train", "test"):
        write_csv(folder / "text" / f"ag_news_{split}.csv.gz", ("label", "text"), rows)
    assert read_texts("ag_news", "test").texts == ("NA", "12", "null", "a, b\nc")


def test_what_is_wrong_with_a_file_is_one_sentence(folder: Path) -> None:
    text = folder / "text" / "ag_news_train.csv.gz"
    text.parent.mkdir()
    whole = gzip.compress(b"label,text\n0,one\n")
    for raw, sentence in (
        (b"label,text\n0,one\n", "[Nn]ot a gzipped file"),
        (whole[:-9], "cut off or damaged"),
        (gzip.compress(b"\xff\xfe\x00"), "not text in UTF-8"),
        (gzip.compress(b""), "not a table"),
        (gzip.compress(b"label,text\n"), "has no rows"),
        (gzip.compress(b"label,words\n0,one\n"), "no column 'text', it has label, words"),
        (gzip.compress(b"label,text\n0,one\n7,two\n"), "row 2 of .* has the class 7"),
        (gzip.compress(b"label,text\n0,one\nx,two\n"), "has the class 'x'"),
        (gzip.compress(b'label,text\n0,"one\n'), "not a table"),
    ):
        text.write_bytes(raw)
        with pytest.raises(DataError, match=sentence):
            read_texts("ag_news", "train")


def test_sides_of_a_translation_have_as_many_lines(folder: Path) -> None:
    place = folder / "translation"
    place.mkdir()
    (place / "multi30k.val.de.txt").write_text("Ein Hund.\nZwei.\n", "utf-8")
    (place / "multi30k.val.en.txt").write_text("A dog.\nTwo.\n", "utf-8")
    assert read_pairs("multi30k", "val") == [("Ein Hund.", "A dog."), ("Zwei.", "Two.")]
    (place / "multi30k.val.en.txt").write_text("A dog.\n", "utf-8")
    with pytest.raises(DataError, match=r"has 2 lines and .* 1:"):
        read_pairs("multi30k", "val")


def hub(monkeypatch: pytest.MonkeyPatch, rows: dict[str, list[dict[str, Any]]]) -> list[Any]:
    """A stand-in for `datasets`, which remembers what it was asked for."""
    asked: list[Any] = []

    def load_dataset(path: str, config: str | None, *, split: str, revision: str | None) -> Any:
        asked.append((path, config, split, revision))
        return rows[split]

    monkeypatch.setitem(sys.modules, "datasets", SimpleNamespace(load_dataset=load_dataset))
    return asked


def test_texts_of_the_hub_are_written_in_the_layout_that_is_read(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    row = {"topic": 1, "question_title": "Why", "question_content": "so?", "best_answer": "Because"}
    rows = [row, {**row, "topic": 0}, {**row, "topic": 7}]
    asked = hub(monkeypatch, {"train": rows, "test": rows[:1]})
    shown: list[str] = []

    def watch(rows: Any, title: str, total: int) -> Any:
        shown.append(f"{title}: {total}")
        return rows

    written = download("yahoo", watch=watch)
    assert all(path.is_file() for path in written)
    assert is_here(DATASETS["yahoo"])
    assert read_texts("yahoo", "train").texts == ("Why so? Because", "Why so? Because")
    assert read_texts("yahoo", "train").labels == (1, 0)
    assert asked[0] == ("community-datasets/yahoo_answers_topics", None, "train", None)
    assert shown == ["yahoo, train: 3", "yahoo, test: 1"]


def test_translations_of_the_hub_are_lines_side_by_side(monkeypatch: pytest.MonkeyPatch) -> None:
    plain = [{"de": "Ein\nHund.", "en": "A dog."}]
    hub(monkeypatch, {"train": plain, "validation": plain, "test": plain})
    download("multi30k")
    assert read_pairs("multi30k", "train") == [("Ein Hund.", "A dog.")]
    nested = [{"translation": plain[0]}]
    hub(monkeypatch, {"train": nested, "validation": nested, "test": nested})
    download("iwslt14")
    assert read_pairs("iwslt14", "valid") == [("Ein Hund.", "A dog.")]


def test_a_table_of_openml_gets_a_label(monkeypatch: pytest.MonkeyPatch) -> None:
    features = pd.DataFrame({"Sex": ["M", "F"], "Length": [0.5, 0.4]})

    class Fetched:
        default_target_attribute = "binaryClass"

        def get_data(self, *, target: str) -> Any:
            assert target == "binaryClass"
            return features, pd.Series(["P", "N"]), [True, False], list(features)

    def get_dataset(number: int, *, download_data: bool) -> Any:
        assert (number, download_data) == (720, True)
        return Fetched()

    library = SimpleNamespace(datasets=SimpleNamespace(get_dataset=get_dataset))
    monkeypatch.setitem(sys.modules, "openml", library)
    (path,) = download("abalone")
    table = read_csv(path)
    assert table["label"].tolist() == [1, 0]
    assert table["Length"].tolist() == [0.5, 0.4]
    assert path.name == "abalone.csv.gz"


def test_a_network_that_fails_leaves_nothing_and_says_so(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def load_dataset(*_: Any, **__: Any) -> Any:
        raise ConnectionError("no route to host")

    monkeypatch.setitem(sys.modules, "datasets", SimpleNamespace(load_dataset=load_dataset))
    with pytest.raises(DataError, match=r"ConnectionError: no route to host.*INNERLOOP_DATA"):
        download("ag_news")
    assert list(folder.iterdir()) == []


def test_without_the_package_the_sentence_names_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, module, extra in (("ag_news", "datasets", "text"), ("wind", "openml", "tabular")):
        monkeypatch.setitem(sys.modules, module, None)
        with pytest.raises(InnerloopError, match=rf"package {module}.*innerloop\[{extra}\]"):
            download(name)


def run(capsys: pytest.CaptureFixture[str], *words: str) -> tuple[Any, str, str]:
    with pytest.raises(SystemExit) as ended:
        main(list(words))
    captured = capsys.readouterr()
    return ended.value.code or 0, captured.out, captured.err


def test_the_list_says_what_is_here(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, out, _ = run(capsys, "data", "--json", "-")
    assert code == 0
    assert '"here":true' not in out.replace(" ", "")
    write_ag_news(folder, train=4, test=4)
    _, out, _ = run(capsys, "data", "--json", "-")
    assert out.replace(" ", "").count('"here":true') == 1
    _, out, _ = run(capsys, "data")
    assert all(name in out for name in DATASETS)


def test_getting_data_from_the_command_line(
    folder: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    rows = [{"text": "Good", "label": 1}, {"text": "Bad", "label": 0}]
    hub(monkeypatch, {"train": rows, "test": rows})
    other = folder / "other"
    other.mkdir()
    code, out, _ = run(capsys, "data", "get", "imdb", "--data", str(other))
    assert code == 0
    assert "imdb_train.csv.gz" in out
    assert (other / "text" / "imdb_test.csv.gz").is_file()
    assert "here already" in run(capsys, "data", "get", "imdb", "--data", str(other))[1]
    code, _, error = run(capsys, "data", "get", "imbd")
    assert code == 2
    assert "did you mean 'imdb'" in error


def test_training_without_data_is_one_sentence(capsys: pytest.CaptureFixture[str]) -> None:
    code, _, error = run(capsys, "train", "text-standard", "--scale", "smoke", "--store", "none")
    assert code == 2
    assert error.count("\n") == 1
    assert "innerloop data get ag_news" in error
    assert not Path("none").exists()
