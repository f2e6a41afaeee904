"""The tokeniser: what it writes it can read, it is trained once, and mistakes are one sentence."""

import sys
from pathlib import Path

import pytest

from innerloop.core.errors import InnerloopError
from innerloop.language.tokenizer import PAD, SMALLEST, SPECIAL, _loaded, tokenizer_of
from tests.language.made import texts

TEXTS = [text for _, text in texts(200, 7)]


@pytest.fixture(autouse=True)
def _cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))


def test_texts_are_read_back_as_they_were() -> None:
    tokenizer = tokenizer_of(TEXTS, 400)
    strange = ["Grüße, 東京! \U0001f600", "tab\tand  two spaces", "x", "<pad> is a word here"]
    for text in [*TEXTS[:20], *strange]:
        (numbers,) = tokenizer.encode([text])
        assert tokenizer.decode(numbers) == text or "<pad>" in text
        assert all(0 < number < tokenizer.size <= 400 for number in numbers) or "<pad>" in text


def test_capitals_are_kept_unless_they_are_not_wanted() -> None:
    kept, small = (tokenizer_of(TEXTS, 400, lowercase=lower) for lower in (False, True))
    assert kept.decode(*kept.encode(["The Goal"])) == "The Goal"
    assert small.decode(*small.encode(["The Goal"])) == "the goal"


def test_frequent_words_are_one_token() -> None:
    tokenizer = tokenizer_of(TEXTS, 600, lowercase=True)
    encoded = tokenizer.encode(["minister", "goal", "software"])
    assert [len(numbers) for numbers in encoded] == [1, 1, 1]


def test_special_tokens_have_their_numbers_and_are_not_spoken() -> None:
    tokenizer = tokenizer_of(TEXTS, 400)
    assert SPECIAL[PAD] == "<pad>"
    assert PAD == 0
    (numbers,) = tokenizer.encode(["goal"])
    assert tokenizer.decode([2, *numbers, 3, 4, 0, 0]) == "goal"


def test_it_is_trained_once_and_the_same_way(tmp_path: Path) -> None:
    tokenizer_of(TEXTS, 400)
    (file,) = (tmp_path / "innerloop" / "tokenizers").iterdir()
    first = file.read_bytes()
    before = file.stat().st_mtime_ns
    tokenizer_of(TEXTS, 400)
    assert file.stat().st_mtime_ns == before
    file.unlink()
    tokenizer_of(TEXTS, 400)
    assert file.read_bytes() == first
    tokenizer_of(TEXTS[1:], 400)
    tokenizer_of(TEXTS, 401)
    assert len(list(file.parent.iterdir())) == 3


def test_a_vocabulary_without_room_for_bytes_is_refused() -> None:
    with pytest.raises(InnerloopError, match=f"at least {SMALLEST}"):
        tokenizer_of(TEXTS, 100)


def test_a_damaged_file_is_one_sentence(tmp_path: Path) -> None:
    tokenizer_of(TEXTS, 333)
    (file,) = (tmp_path / "innerloop" / "tokenizers").iterdir()
    file.write_text("no tokeniser")
    _loaded.cache_clear()
    with pytest.raises(InnerloopError, match="is damaged: delete it"):
        tokenizer_of(TEXTS, 333)


def test_without_the_package_the_sentence_names_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "tokenizers", None)
    with pytest.raises(InnerloopError, match=r"needs the package tokenizers.*innerloop\[text\]"):
        tokenizer_of(TEXTS, 345)
