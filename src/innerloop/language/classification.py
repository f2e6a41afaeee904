"""Which class a text is of: news, reviews, articles.

Shapes, beside those of a prompt: n tokens of the longest text of a batch, N texts.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import NamedTuple

import torch
from pydantic import Field, FiniteFloat, field_validator
from torch import Tensor

from innerloop.core.errors import ConfigurationError
from innerloop.core.prompt import Prompt
from innerloop.core.task import PromptForm, Task
from innerloop.data.catalog import find_dataset
from innerloop.data.reading import Texts, digest, read_texts
from innerloop.language.texts import Encoded, by_hash, draw_similar
from innerloop.language.tokenizer import BEGIN, SMALLEST, UNKNOWN, Tokenizer, tokenizer_of

HELD_OUT_SHARE = 0.05
"""Of the training split, never trained on: what runs are evaluated on."""


@dataclass(frozen=True, slots=True, eq=False)
class LabelledTexts:
    """Encoded texts, and the class of each."""

    texts: Encoded
    labels: Tensor
    """(N,)."""

    def __len__(self) -> int:
        return len(self.labels)

    def prompt(self, which: Tensor, most: int) -> Prompt:
        """Some texts (B,) as prompts: the class is asked at the last token of each."""
        tokens, lengths = self.texts.padded(which, most)  # (B, n), (B,)
        xs = tokens[..., None].to(torch.float32)  # (B, n, 1)
        ys = self.labels[which][:, None, None].expand_as(xs).to(xs)  # (B, n, 1)
        last = torch.arange(xs.shape[1]) == lengths[:, None] - 1  # (B, n)
        return Prompt(xs=xs, ys=ys, layout="tokens", scored=last)


class _Source(NamedTuple):
    """What encoded texts depend on: settings of the task, and the data that are here."""

    dataset: str
    limit: int | None
    vocabulary: int
    lowercase: bool
    content: str


class TextClassification(Task):
    """The class of a text, from its tokens: news, reviews, articles.

    The tokeniser is trained on the training split. One text in twenty of it, chosen by a hash, is
    never trained on: runs are evaluated on those. The test split is for `test_prompts` alone.
    """

    dims: int = Field(default=1, ge=1, le=1, description="a token is one number")
    dataset: str = Field(default="ag_news", description="the data set: see `innerloop data`")
    vocabulary: int = Field(
        default=8000, ge=SMALLEST, description="tokens of the tokeniser, at most"
    )
    limit: int | None = Field(
        default=None, ge=40,
        description="texts of the training split to use, chosen by a hash; None: all",
    )  # fmt: skip
    lowercase: bool = Field(default=True, description="whether capitals are made small")
    dropout: FiniteFloat = Field(
        default=0.0, ge=0, lt=1, description="share of tokens hidden while training"
    )

    @field_validator("dataset")
    @classmethod
    def _check_dataset(cls, name: str) -> str:
        return find_dataset(name, "text").name

    @property
    def form(self) -> PromptForm:
        """Tokens, up to as many as are asked for; one class, asked at the end."""
        classes = len(find_dataset(self.dataset, "text").classes)
        return PromptForm(
            dims=1, layout="tokens", usual_share=0.5, vocabulary=self.vocabulary, classes=classes,
            asks_at_end=True,
        )  # fmt: skip

    def data_digest(self) -> str:
        """That of the training split: validation texts and the tokeniser come from it."""
        return digest(self.dataset, "train")

    def draw(self, batch: int, points: int, generator: torch.Generator) -> Prompt:
        """Texts of the training split, of similar lengths."""
        train, _ = self._halves()
        which = draw_similar(train.texts.lengths, batch, points, generator)  # (B,)
        prompt = train.prompt(which, points)
        if self.dropout:
            prompt = _with_unknown(prompt, self.dropout, generator)
        return _on(prompt, generator)

    def held_out(self, batch: int, points: int, *, generator: torch.Generator) -> Prompt:
        """The first texts of the validation part, again from the first if there are too few."""
        _, validation = self._halves()
        return _on(validation.prompt(torch.arange(batch) % len(validation), points), generator)

    def test_prompts(self, points: int, *, batch: int = 128) -> Iterator[tuple[Tensor, Prompt]]:
        """Every text of the test split, with its number (B,), by length."""
        test = _encoded_test(self._source())
        order = test.texts.lengths.clamp(max=points).argsort(stable=True)  # (N,)
        for which in order.split(batch):
            yield which, test.prompt(which, points)

    def prompt_of(self, texts: Sequence[str], points: int) -> Prompt:
        """Texts of one's own as prompts; their class, which nobody knows, is put down as 0."""
        numbers = [[BEGIN, *text] for text in self.tokenizer().encode(texts)]
        labelled = LabelledTexts(Encoded.of(numbers), torch.zeros(len(texts)))
        return labelled.prompt(torch.arange(len(texts)), points)

    def longest_test(self) -> int:
        """The tokens of the longest text of the test split."""
        return int(_encoded_test(self._source()).texts.lengths.max())

    def test_size(self) -> int:
        """How many texts the test split has."""
        return len(_encoded_test(self._source()))

    def tokenizer(self) -> Tokenizer:
        """What its texts are encoded by."""
        return _tokenizer(self._source(), training_texts(self.dataset, self.limit)[0])

    def scale(self) -> Tensor:
        """1: errors are shares of wrong answers."""
        return torch.ones(())

    def _halves(self) -> tuple[LabelledTexts, LabelledTexts]:
        """The texts to train on, and those to evaluate on."""
        return _encoded_train(self._source())

    def _source(self) -> _Source:
        content = digest(self.dataset)
        return _Source(self.dataset, self.limit, self.vocabulary, self.lowercase, content)


def training_texts(dataset: str, limit: int | None) -> tuple[Texts, Texts]:
    """The texts to train on, and the validation part, before they are encoded."""
    whole = read_texts(dataset, "train")
    chosen = list(range(len(whole.texts)))
    if limit is not None:
        chosen = sorted(by_hash(whole.texts, "limit")[:limit])
    order = by_hash([whole.texts[index] for index in chosen], "validation")
    held = max(1, round(HELD_OUT_SHARE * len(order)))
    if len(order) < 2:
        raise ConfigurationError(f"{dataset} has {len(order)} texts, expected at least 2.")
    train, validation = ([chosen[place] for place in part] for part in (order[held:], order[:held]))
    return _some(whole, sorted(train)), _some(whole, validation)


def _some(texts: Texts, which: list[int]) -> Texts:
    return Texts(
        tuple(texts.texts[index] for index in which), tuple(texts.labels[index] for index in which)
    )


@lru_cache(maxsize=4)
def _encoded_train(source: _Source) -> tuple[LabelledTexts, LabelledTexts]:
    train, validation = training_texts(source.dataset, source.limit)
    return _encoded(source, train, train), _encoded(source, train, validation)


@lru_cache(maxsize=2)
def _encoded_test(source: _Source) -> LabelledTexts:
    train, _ = training_texts(source.dataset, source.limit)
    return _encoded(source, train, read_texts(source.dataset, "test"))


def _encoded(source: _Source, train: Texts, texts: Texts) -> LabelledTexts:
    tokenizer = _tokenizer(source, train)
    # A first token for all, so that no text is empty.
    numbers = [[BEGIN, *text] for text in tokenizer.encode(texts.texts)]
    return LabelledTexts(Encoded.of(numbers), torch.tensor(texts.labels))


def _tokenizer(source: _Source, train: Texts) -> Tokenizer:
    return tokenizer_of(train.texts, source.vocabulary, lowercase=source.lowercase)


def _with_unknown(prompt: Prompt, share: float, generator: torch.Generator) -> Prompt:
    """The prompt with some of its tokens unknown; neither the first nor padding."""
    drawn = torch.rand(prompt.xs.shape, generator=generator, device=generator.device)  # (B, n, 1)
    hidden = (drawn.to(prompt.xs) < share) & (prompt.xs > BEGIN)  # (B, n, 1)
    xs = prompt.xs.masked_fill(hidden, UNKNOWN)  # (B, n, 1)
    return Prompt(xs=xs, ys=prompt.ys, layout="tokens", scored=prompt.scored)


def _on(prompt: Prompt, generator: torch.Generator) -> Prompt:
    """The prompt on the generator's device."""
    return prompt.to(device=generator.device)
