"""Texts as numbers of tokens: byte-pair encoding, trained on the training split and kept.

Bytes are the alphabet, so that every text can be written and read back. The `tokenizers` library
does the work; what it has learned lies in the cache folder, by the digest of data and settings.
"""

import hashlib
from collections.abc import Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any

from innerloop.core.errors import ConfigurationError
from innerloop.core.extras import import_extra
from innerloop.core.files import write_atomically
from innerloop.data.folder import cache_folder

PAD, UNKNOWN, BEGIN, SEPARATOR, END = range(5)
"""The numbers of the special tokens."""
SPECIAL = ("<pad>", "<unk>", "<bos>", "<sep>", "<eos>")
"""The special tokens, by number."""
SMALLEST = len(SPECIAL) + 256
"""The smallest vocabulary: the special tokens and every byte."""


class Tokenizer:
    """A trained tokeniser: `encode` many texts, `decode` one."""

    def __init__(self, inner: Any) -> None:
        """`inner` is a Tokenizer of the library."""
        self._inner = inner

    @property
    def size(self) -> int:
        """How many tokens it has: at most what was asked for, less where the data have no more."""
        return self._inner.get_vocab_size()

    def encode(self, texts: Sequence[str]) -> list[list[int]]:
        """The numbers of the tokens of each text, without special ones."""
        return [one.ids for one in self._inner.encode_batch(list(texts), add_special_tokens=False)]

    def decode(self, numbers: Sequence[int]) -> str:
        """The text of some tokens, without special ones and without spaces at its ends."""
        return self._inner.decode(list(numbers), skip_special_tokens=True).strip()

    def to_text(self) -> str:
        """All of it, as JSON."""
        return self._inner.to_str()

    @classmethod
    def from_text(cls, text: str) -> "Tokenizer":
        """What `to_text` has written."""
        library = _library()
        try:
            return cls(library.Tokenizer.from_str(text))
        except Exception as error:  # which the library does not document
            raise ConfigurationError(
                "this text is no tokeniser: give what `to_text` has written."
            ) from error


def tokenizer_of(texts: Sequence[str], size: int, *, lowercase: bool = False) -> Tokenizer:
    """The tokeniser of at most `size` tokens, trained on texts, or as it was kept."""
    if size < SMALLEST:
        raise ConfigurationError(
            f"vocabulary is {size}, expected at least {SMALLEST}: the special tokens and all bytes."
        )
    total = hashlib.sha256(f"bpe 1 {size} {lowercase}".encode())
    for text in texts:
        total.update(hashlib.sha256(text.encode()).digest())
    path = cache_folder() / "tokenizers" / f"{total.hexdigest()[:24]}.json"
    if not path.is_file():
        trained = _trained(texts, size, lowercase)
        write_atomically(path, lambda file: file.write_text(trained.to_str(), "utf-8"))
    return _loaded(path)


@lru_cache(maxsize=8)
def _loaded(path: Path) -> Tokenizer:
    library = _library()
    try:
        return Tokenizer(library.Tokenizer.from_str(path.read_text("utf-8")))
    except Exception as error:  # which the library does not document
        raise ConfigurationError(f"{path} is damaged: delete it, it is made again.") from error


def _trained(texts: Sequence[str], size: int, lowercase: bool) -> Any:
    """The library's tokeniser, trained."""
    library = _library()
    inner = library.Tokenizer(library.models.BPE(unk_token=SPECIAL[UNKNOWN]))
    if lowercase:
        inner.normalizer = library.normalizers.Lowercase()
    # A space before the first word makes it the same word as elsewhere.
    inner.pre_tokenizer = library.pre_tokenizers.ByteLevel(add_prefix_space=True)
    inner.decoder = library.decoders.ByteLevel()
    trainer = library.trainers.BpeTrainer(
        vocab_size=size, special_tokens=list(SPECIAL), min_frequency=2, show_progress=False,
        initial_alphabet=library.pre_tokenizers.ByteLevel.alphabet(),
    )  # fmt: skip
    inner.train_from_iterator(texts, trainer, length=len(texts))
    return inner


def _library() -> Any:
    return import_extra("tokenizers", "text", "a tokeniser of texts")
