"""Greedy and beam search: a model goes on with texts, token by token, many texts at a time.

With the cache one more token costs one token; without, it costs the whole text. Both give the same
tokens; the second is there to hold the first to it.

Shapes: B texts, R rows (texts, or beams of texts), t tokens, V vocabulary.
"""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, field

import torch
from torch import Tensor

from innerloop.core.arguments import expect_count
from innerloop.core.errors import PromptError
from innerloop.core.iterate import iterate
from innerloop.core.prompt import Prompt
from innerloop.language.cache import Cache, extend
from innerloop.models.text import TextModel

Tokens = list[int]


@dataclass(frozen=True, slots=True, kw_only=True)
class Decoding:
    """How texts are gone on with."""

    stop: int
    """The token that ends a text, <eos>."""
    never: tuple[int, ...] = (0,)
    """Tokens that are never written: padding, and marks that only a prompt has."""
    most: int = 64
    """The most tokens that are written per text; never beyond the model's last position."""
    beams: int = 1
    """Beginnings that are followed at once per text; 1: the likeliest next token, always."""
    length_penalty: float = 1.0
    """Beams are compared by log-probability / tokens^penalty; 0 favours short texts."""
    loops: int | None = None
    """Of a looped model; None: as many as it was trained with."""
    cached: bool = True
    """Whether keys and values are kept; the tokens are the same."""

    def __post_init__(self) -> None:
        """Refuse numbers that make no search."""
        expect_count("most", self.most)
        expect_count("beams", self.beams)
        if self.loops is not None:
            expect_count("loops", self.loops)


@torch.no_grad()
def decode(model: TextModel, prefixes: Sequence[Tokens], how: Decoding) -> list[Tokens]:
    """What the model writes behind each prefix, without the token that ends it."""
    limits = [_limit(model, len(prefix), how) for prefix in prefixes]
    if not limits:
        return []
    writer = (_Cached if how.cached else _Plain)(model, how)
    search = _greedy if how.beams == 1 else beam_search
    return search(writer, prefixes, limits, how)


def _limit(model: TextModel, tokens: int, how: Decoding) -> int:
    """The most tokens to write behind so many: the last one written is never read."""
    if tokens == 0:
        raise PromptError("a text without a token cannot be gone on with: begin it with <bos>.")
    if model.points is None:
        return how.most
    if tokens > model.points:
        raise PromptError(
            f"the text has {tokens} tokens, the model has positions for {model.points}: give a "
            "shorter one, or a model made for more."
        )
    return min(how.most, model.points + 1 - tokens)


class _Writer(ABC):
    """Gives log-probabilities of next tokens, and is told which ones were taken."""

    def __init__(self, model: TextModel, how: Decoding) -> None:
        self.model, self.how = model, how

    @abstractmethod
    def begin(self, prefixes: Sequence[Tokens]) -> Tensor:
        """Log-probabilities (B, V) of the token behind each prefix."""

    @abstractmethod
    def go_on(self, rows: list[int], tokens: Tokens) -> Tensor:
        """Those (R, V) behind rows of the last call, each with one more token."""

    def _logs(self, logits: Tensor) -> Tensor:
        """Log-probabilities of logits (R, V), in float64, without the tokens never written."""
        logits = logits.double().index_fill(
            1, torch.tensor(self.how.never, dtype=torch.long, device=logits.device), -torch.inf
        )  # (R, V)
        return logits.log_softmax(-1)


class _Cached(_Writer):
    cache: Cache

    def begin(self, prefixes: Sequence[Tokens]) -> Tensor:
        tokens, real = padded(prefixes)  # (B, t) each
        self.cache = Cache.empty(len(prefixes), self._device)
        states = self._extend(tokens, real)  # (B, t, D)
        last = real.sum(1) - 1  # (B,)
        return self._logs(self.model.logits(states[torch.arange(len(last)), last]))

    def go_on(self, rows: list[int], tokens: Tokens) -> Tensor:
        self.cache = self.cache.select(torch.tensor(rows, device=self._device))
        states = self._extend(torch.tensor(tokens)[:, None])  # (R, 1, D)
        return self._logs(self.model.logits(states[:, 0]))

    def _extend(self, tokens: Tensor, real: Tensor | None = None) -> Tensor:
        """States (R, m, D) of new tokens (R, m)."""
        embedded = self.model.embedding(tokens.to(self._device))  # (R, m, D)
        real = None if real is None else real.to(self._device)
        states, self.cache = extend(
            self.model.backbone, self.cache, embedded, real=real, loops=self.how.loops
        )
        return states

    @property
    def _device(self) -> torch.device:
        return next(self.model.parameters()).device


class _Plain(_Writer):
    texts: list[Tokens]

    def begin(self, prefixes: Sequence[Tokens]) -> Tensor:
        self.texts = [list(prefix) for prefix in prefixes]
        return self._whole()

    def go_on(self, rows: list[int], tokens: Tokens) -> Tensor:
        self.texts = [[*self.texts[row], token] for row, token in zip(rows, tokens, strict=True)]
        return self._whole()

    def _whole(self) -> Tensor:
        """Log-probabilities (R, V) behind all texts, each read from its beginning."""
        tokens, real = padded(self.texts)  # (R, t) each
        xs = tokens[..., None].to(self.model.dtype)  # (R, t, 1)
        prompt = Prompt(xs=xs, ys=torch.zeros_like(xs), layout="tokens", scored=real)
        prompt = prompt.to(device=next(self.model.parameters()).device)
        steps = self.model.steps if self.how.loops is None else self.how.loops
        *_, state = iterate(self.model, prompt, steps=steps)
        outputs = self.model.outputs(prompt, state)  # (R, t, V)
        return self._logs(outputs[torch.arange(len(real)), real.sum(1) - 1])


def padded(texts: Sequence[Tokens]) -> tuple[Tensor, Tensor]:
    """Texts as one batch (B, t) with padding 0 behind, and where there is a token: (B, t) bool."""
    lengths = torch.tensor([len(text) for text in texts])  # (B,)
    longest = int(lengths.max())
    rows = [[*text, *[0] * (longest - len(text))] for text in texts]
    return torch.tensor(rows), torch.arange(longest) < lengths[:, None]


def _greedy(
    writer: _Writer, prefixes: Sequence[Tokens], limits: list[int], how: Decoding
) -> list[Tokens]:
    """The likeliest next token, until each text has ended."""
    written: list[Tokens] = [[] for _ in prefixes]
    going = list(range(len(prefixes)))
    logs = writer.begin(prefixes)  # (R, V)
    while True:
        best = logs.argmax(-1).tolist()  # (R,)
        kept = []
        for row, (text, token) in enumerate(zip(going, best, strict=True)):
            if token != how.stop:
                written[text].append(token)
                if len(written[text]) < limits[text]:
                    kept.append(row)
        if not kept:
            return written
        going = [going[row] for row in kept]
        logs = writer.go_on(kept, [best[row] for row in kept])  # (R, V)


@dataclass(slots=True)
class _Search:
    """The search for one text: beams that go on, and those that have ended."""

    text: int
    totals: list[float] = field(default_factory=lambda: [0.0])
    """The log-probability of each beam."""
    beams: list[Tokens] = field(default_factory=lambda: [[]])
    parents: list[int] = field(default_factory=lambda: [0])
    """Which beam each one goes on from."""
    ended: list[tuple[float, Tokens]] = field(default_factory=list[tuple[float, Tokens]])

    def take(self, values: list[float], which: list[int], size: int, how: Decoding) -> None:
        """Go on with the best candidates: totals, and beam * V + token, best first.

        A beam ends where <eos> is among the best `beams`; the others fill up to as many again.
        """
        beams, totals, parents = self.beams, [], []
        self.beams = []
        for rank, (total, candidate) in enumerate(zip(values, which, strict=True)):
            parent, token = divmod(candidate, size)
            if token == how.stop:
                if rank < how.beams:
                    self.end(total, beams[parent], 1, how)
            elif len(self.beams) < how.beams:
                self.beams.append([*beams[parent], token])
                totals.append(total)
                parents.append(parent)
        self.totals, self.parents = totals, parents

    def end(self, total: float, tokens: Tokens, extra: int, how: Decoding) -> None:
        """Count a beam among those that have ended; `extra` is the token that ended it, or none."""
        self.ended.append((total / (len(tokens) + extra) ** how.length_penalty, tokens))

    def done(self, limit: int, how: Decoding) -> bool:
        """Whether enough have ended, or the rest is as long as it may be."""
        if len(self.ended) >= how.beams:
            return True
        if len(self.beams[0]) < limit:
            return False
        for total, tokens in zip(self.totals, self.beams, strict=True):
            self.end(total, tokens, 0, how)
        return True


def beam_search(
    writer: _Writer, prefixes: Sequence[Tokens], limits: list[int], how: Decoding
) -> list[Tokens]:
    """The best of the beams that have ended, once there are as many of them as beams."""
    answers: list[Tokens] = [[] for _ in prefixes]
    searches = [_Search(text) for text in range(len(prefixes))]
    logs = writer.begin(prefixes)  # (R, V)
    while True:
        width, size = len(searches[0].beams), logs.shape[1]
        totals = torch.tensor([search.totals for search in searches]).to(logs)  # (A, w)
        scores = totals[:, :, None] + logs.view(len(searches), width, size)  # (A, w, V)
        values, which = scores.flatten(1).topk(min(2 * how.beams, width * size))  # (A, c) each
        going, rows = [], []
        for place, search in enumerate(searches):
            search.take(values[place].tolist(), which[place].tolist(), size, how)
            if search.done(limits[search.text], how):
                answers[search.text] = max(search.ended, key=lambda ended: ended[0])[1]
            else:
                going.append(search)
                rows += [place * width + parent for parent in search.parents]
        if not going:
            return answers
        searches = going
        logs = writer.go_on(rows, [beam[-1] for search in searches for beam in search.beams])
