"""German sentences and their English translations, one text each: `<bos> German <sep> English`.

Shapes, beside those of a prompt: n tokens of the longest text of a batch, N pairs.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path

import torch
from pydantic import Field, field_validator
from torch import Tensor

from innerloop.core.errors import ConfigurationError, unknown
from innerloop.core.prompt import Prompt
from innerloop.core.task import PromptForm, Task
from innerloop.data.catalog import find_dataset
from innerloop.data.folder import data_folder
from innerloop.data.reading import digest, read_pairs
from innerloop.language.decoding import Decoding, decode
from innerloop.language.texts import Encoded, by_hash, draw_similar
from innerloop.language.tokenizer import (
    BEGIN,
    END,
    PAD,
    SEPARATOR,
    SMALLEST,
    UNKNOWN,
    Tokenizer,
    tokenizer_of,
)
from innerloop.models.text import TextModel

Pair = tuple[str, str]
"""German, English."""
NEVER_WRITTEN = (PAD, UNKNOWN, BEGIN, SEPARATOR)
_AT_ONCE = 64
"""Sentences that are translated at once: more of them differ more in length."""


@dataclass(frozen=True, slots=True, eq=False)
class EncodedPairs:
    """Pairs as texts, and where English begins."""

    texts: Encoded
    """With <eos> behind."""
    prefixes: Tensor
    """(N,): tokens up to <sep>, which is one of them."""

    def __len__(self) -> int:
        return len(self.texts)

    def at_most(self, points: int) -> Tensor:
        """The pairs (M,) that are no longer than so many points: a cut pair is no translation."""
        fitting = (self.texts.lengths - 1 <= points).nonzero()[:, 0]  # (M,)
        if not len(fitting):
            raise ConfigurationError(
                f"points is {points}, but the shortest pair has "
                f"{int(self.texts.lengths.min()) - 1} tokens: take more points."
            )
        return fitting

    def prompt(self, which: Tensor) -> Prompt:
        """Some pairs (B,) as prompts: each next token is asked for, that of English counts."""
        longest = int(self.texts.lengths[which].max())
        tokens, lengths = self.texts.padded(which, longest)  # (B, n + 1), (B,)
        numbers = tokens[..., None].to(torch.float32)  # (B, n + 1, 1)
        place = torch.arange(longest - 1)  # (n,)
        first = self.prefixes[which][:, None] - 1  # (B, 1): at <sep> the first word is asked for
        scored = (place >= first) & (place < lengths[:, None] - 1)  # (B, n)
        # <eos> is an answer, and never read.
        xs = numbers[:, :-1].masked_fill(numbers[:, :-1] == END, PAD)  # (B, n, 1)
        return Prompt(xs=xs, ys=numbers[:, 1:], layout="tokens", scored=scored)


class Translation(Task):
    """German to English: the German sentence is a prefix, the English one is asked for.

    One tokeniser for both languages, trained on the training split. Runs are evaluated on the
    validation split. Pairs that are longer than a prompt are left out.
    """

    dims: int = Field(default=1, ge=1, le=1, description="a token is one number")
    dataset: str = Field(default="multi30k", description="the data set: see `innerloop data`")
    vocabulary: int = Field(
        default=4000, ge=SMALLEST, description="tokens of both languages together, at most"
    )
    limit: int | None = Field(
        default=None, ge=1,
        description="pairs of the training split to use, chosen by a hash; None: all",
    )  # fmt: skip

    @field_validator("dataset")
    @classmethod
    def _check_dataset(cls, name: str) -> str:
        return find_dataset(name, "translation").name

    @property
    def form(self) -> PromptForm:
        """Tokens, up to as many as are asked for; the answer is the next one."""
        return PromptForm(
            dims=1, layout="tokens", usual_share=0.3, fewest_points=3, classes=self.vocabulary,
            vocabulary=self.vocabulary,
        )  # fmt: skip

    @property
    def splits(self) -> tuple[str, str, str]:
        """The names of its splits: training, validation, test."""
        train, validation, test, *_ = find_dataset(self.dataset, "translation").files
        return train, validation, test

    def data_digest(self) -> str:
        """That of the whole data set."""
        return digest(self.dataset)

    def draw(self, batch: int, points: int, generator: torch.Generator) -> Prompt:
        """Pairs of the training split, of similar lengths."""
        pairs = self.encoded(self.splits[0])
        fitting = pairs.at_most(points)  # (M,)
        chosen = draw_similar(pairs.texts.lengths[fitting], batch, points, generator)  # (B,)
        return pairs.prompt(fitting[chosen]).to(device=generator.device)

    def held_out(self, batch: int, points: int, *, generator: torch.Generator) -> Prompt:
        """The first pairs of the validation split, again from the first if there are too few."""
        pairs = self.encoded(self.splits[1])
        fitting = pairs.at_most(points)  # (M,)
        chosen = fitting[torch.arange(batch) % len(fitting)]  # (B,)
        return pairs.prompt(chosen).to(device=generator.device)

    def scale(self) -> Tensor:
        """1: errors are shares of wrong tokens."""
        return torch.ones(())

    def pairs(self, split: str) -> list[Pair]:
        """The sentences of a split; of the training split as many as are used."""
        known = find_dataset(self.dataset, "translation").files
        if split not in known:
            raise ConfigurationError(unknown(f"split of {self.dataset}", split, known))
        pairs = read_pairs(self.dataset, split)
        if split != self.splits[0] or self.limit is None:
            return pairs
        order = by_hash([german for german, _ in pairs], "translation")
        return [pairs[index] for index in sorted(order[: self.limit])]

    def tokenizer(self) -> Tokenizer:
        """That of both languages, trained on the training split, or as it was kept."""
        german, english = zip(*self.pairs(self.splits[0]), strict=True)
        return tokenizer_of([*german, *english], self.vocabulary)

    def encoded(self, split: str) -> EncodedPairs:
        """The pairs of a split as tokens."""
        known = (self.dataset, self.vocabulary, self.limit)
        return _encoded(*known, split, data_folder(), self.data_digest())

    def tokenizer_text(self) -> str:
        """The tokeniser, so that a run can translate where its data are not."""
        return self.tokenizer().to_text()


@lru_cache(maxsize=8)
def _encoded(
    dataset: str, vocabulary: int, limit: int | None, split: str, folder: Path, content: str
) -> EncodedPairs:
    """The pairs of a split; `folder` and `content` say when they have changed."""
    task = Translation(dataset=dataset, vocabulary=vocabulary, limit=limit)
    german, english = zip(*task.pairs(split), strict=True)
    return encode_pairs(task.tokenizer(), german, english)


def encode_pairs(
    tokenizer: Tokenizer, german: Sequence[str], english: Sequence[str]
) -> EncodedPairs:
    """Sentences and their translations as tokens."""
    prefixes = encode_prefixes(tokenizer, german)
    behind = [[*text, END] for text in tokenizer.encode(english)]
    texts = [[*prefix, *rest] for prefix, rest in zip(prefixes, behind, strict=True)]
    return EncodedPairs(Encoded.of(texts), torch.tensor([len(prefix) for prefix in prefixes]))


def encode_prefixes(tokenizer: Tokenizer, german: Sequence[str]) -> list[list[int]]:
    """What a model is given of each sentence: `<bos> German <sep>`."""
    return [[BEGIN, *text, SEPARATOR] for text in tokenizer.encode(german)]


def translate(
    model: TextModel,
    tokenizer: Tokenizer,
    german: Sequence[str],
    *,
    beams: int = 1,
    loops: int | None = None,
    length_penalty: float = 1.0,
    most: int | None = None,
    progress: Callable[[int, int], None] | None = None,
) -> list[str]:
    """English sentences for German ones, many at a time, by length.

    `most` tokens each; None: some more than twice those of the German sentence.
    """
    how = Decoding(
        stop=END, never=NEVER_WRITTEN, beams=beams, loops=loops, length_penalty=length_penalty,
    )  # fmt: skip
    prefixes = encode_prefixes(tokenizer, german)
    order = sorted(range(len(prefixes)), key=lambda index: len(prefixes[index]))
    english = [""] * len(prefixes)
    for start in range(0, len(order), _AT_ONCE):
        which = order[start : start + _AT_ONCE]
        # A translation is rarely twice as long; without a limit a poor model writes on and on.
        longest = 2 * len(prefixes[which[-1]]) + 10 if most is None else most
        written = decode(model, [prefixes[index] for index in which], replace(how, most=longest))
        for index, tokens in zip(which, written, strict=True):
            english[index] = tokenizer.decode(tokens)
        if progress is not None:
            progress(start + len(which), len(order))
    return english
