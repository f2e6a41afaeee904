"""A model's translations of a split, scored: BLEU, chrF, cross-entropy, all on the same resamples.

Shapes: N sentences, R resamples.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn import functional

from innerloop.core.iterate import iterate
from innerloop.language.quality import Resampled, corpus_scores, resample_counts
from innerloop.language.tokenizer import Tokenizer
from innerloop.language.translation import Pair, encode_pairs, encode_prefixes, translate
from innerloop.models.text import TextModel

Progress = Callable[[int, int], None]
_AT_ONCE = 64


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class Scores:
    """How good a model's translations are, with resamples of the sentences."""

    bleu: Resampled
    chrf: Resampled
    cross_entropy: Resampled
    """Per English token, in nats, with <eos>."""
    translations: tuple[str, ...] = ()


def score(
    model: TextModel,
    tokenizer: Tokenizer,
    pairs: Sequence[Pair],
    *,
    generator: torch.Generator,
    beams: int = 1,
    loops: int | None = None,
    progress: Progress | None = None,
) -> Scores:
    """The scores of a model on pairs; generators of one seed resample two models alike.

    What is longer than the model's positions stays without a translation: an empty one counts.
    """
    german, english = (list(side) for side in zip(*pairs, strict=True))
    lengths = [len(prefix) for prefix in encode_prefixes(tokenizer, german)]
    short = [place for place, length in enumerate(lengths) if length <= model.config.points]
    texts = [german[place] for place in short]
    written = [""] * len(german)
    for place, text in zip(
        short,
        translate(model, tokenizer, texts, beams=beams, loops=loops, progress=progress),
        strict=True,
    ):
        written[place] = text
    times = resample_counts(len(pairs), generator=generator)  # (R, N)
    losses, tokens = cross_entropies(model, tokenizer, pairs, loops=loops)  # (N,) each
    return Scores(
        bleu=corpus_scores(written, english, "BLEU", times),
        chrf=corpus_scores(written, english, "chrF", times),
        cross_entropy=Resampled(
            float(losses.sum() / tokens.sum()), (times @ losses) / (times @ tokens)
        ),
        translations=tuple(written),
    )


def difference(first: Scores, second: Scores) -> Scores:
    """The first minus the second, resample by resample."""
    return Scores(
        bleu=first.bleu.minus(second.bleu), chrf=first.chrf.minus(second.chrf),
        cross_entropy=first.cross_entropy.minus(second.cross_entropy),
    )  # fmt: skip


@torch.no_grad()
def cross_entropies(
    model: TextModel, tokenizer: Tokenizer, pairs: Sequence[Pair], *, loops: int | None = None
) -> tuple[Tensor, Tensor]:
    """The cross-entropy of each translation, and its tokens: (N,) each.

    Pairs that are longer than the model's positions count nothing in both.
    """
    german, english = (list(side) for side in zip(*pairs, strict=True))
    encoded = encode_pairs(tokenizer, german, english)
    lengths = encoded.texts.lengths
    losses, tokens = torch.zeros(2, len(pairs), dtype=torch.float64)  # (N,) each
    order = lengths.argsort(stable=True)  # (N,)
    for which in order[lengths[order] - 1 <= model.config.points].split(_AT_ONCE):
        prompt = encoded.prompt(which)
        assert prompt.scored is not None
        *_, state = iterate(model, prompt, steps=model.steps if loops is None else loops)
        outputs = model.scored_outputs(prompt, state)  # (questions, V)
        right = prompt.ys[prompt.scored][:, 0].long()  # (questions,)
        each = functional.cross_entropy(outputs, right, reduction="none").double()
        owner = which[prompt.scored.nonzero()[:, 0]]  # (questions,)
        losses.index_add_(0, owner, each)
        tokens.index_add_(0, owner, torch.ones_like(each))
    return losses, tokens
