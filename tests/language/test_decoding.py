"""Greedy and beam search: with the cache and without, token for token; where they stop."""

from dataclasses import replace
from itertools import product
from typing import Any

import pytest
import torch

from innerloop.core.errors import ConfigurationError, PromptError
from innerloop.language.decoding import Decoding, decode
from innerloop.models.backbone import BackboneShape, Loop, Stack
from innerloop.models.text import TextConfig, TextModel

SMALL: dict[str, Any] = {"width": 16, "heads": 2}
SHAPES: dict[str, BackboneShape] = {
    "stack": Stack(**SMALL, layers=3),
    "loop": Loop(**SMALL, loops=4),
    "tied": Loop(**SMALL, loops=4, inject="none"),
    "algoformer": Loop(**SMALL, loops=3, pre=1, post=1),
}
WORDS, STOP = 30, 4
every_shape = pytest.mark.parametrize("shape", SHAPES.values(), ids=SHAPES.keys())
PREFIXES = [[2, 7, 9, 3], [2, 5, 3], [2, 11, 12, 13, 14, 15, 3], [2, 3]]


def made(shape: BackboneShape, *, words: int = WORDS, points: int = 24, seed: int = 0) -> TextModel:
    """A model whose next token depends on all before: large weights, so that no two are alike.

    Not tied: a random model with tied embeddings repeats its last token.
    """
    config = TextConfig(vocabulary=words, classes=words, points=points, pool=None, backbone=shape)
    model = TextModel(config, generator=torch.Generator().manual_seed(seed)).double()
    with torch.no_grad():
        model.embedding.weight.mul_(20)
        assert model.backbone.positions is not None
        model.backbone.positions.mul_(20)
    return model.eval()


@every_shape
@pytest.mark.parametrize("beams", [1, 2, 5])
def test_the_cache_changes_no_token(shape: BackboneShape, beams: int) -> None:
    for seed in range(3):
        model = made(shape, seed=seed)
        how = Decoding(stop=STOP, beams=beams, most=12)
        plain = decode(model, PREFIXES, replace(how, cached=False))
        assert decode(model, PREFIXES, how) == plain
        assert len({tuple(text) for text in plain}) > 1, "all alike says nothing"


@every_shape
def test_other_texts_of_the_batch_change_nothing(shape: BackboneShape) -> None:
    model, how = made(shape), Decoding(stop=STOP, beams=3, most=10)
    alone = [decode(model, [prefix], how)[0] for prefix in PREFIXES]
    assert decode(model, PREFIXES, how) == alone


def test_more_loops_are_other_tokens_with_the_cache_too() -> None:
    model = made(SHAPES["loop"])
    how = Decoding(stop=STOP, most=12, loops=9)
    written = decode(model, PREFIXES, how)
    assert written == decode(model, PREFIXES, replace(how, cached=False))
    assert written != decode(model, PREFIXES, replace(how, loops=None))


def probabilities(model: TextModel, text: list[int]) -> torch.Tensor:
    """Log-probabilities (V,) of the next token, without padding: from the model's own pass."""
    from innerloop.core.iterate import iterate
    from innerloop.core.prompt import Prompt

    xs = torch.tensor(text, dtype=torch.float64)[None, :, None]  # (1, t, 1)
    prompt = Prompt(xs=xs, ys=torch.zeros_like(xs), layout="tokens")
    *_, state = iterate(model, prompt)
    logits = model.outputs(prompt, state)[0, -1]  # (V,)
    logits[0] = -torch.inf
    return logits.log_softmax(-1)


@torch.no_grad()
def test_greedy_takes_the_likeliest_token_each_time() -> None:
    model = made(SHAPES["algoformer"])
    (written,) = decode(model, [PREFIXES[0]], Decoding(stop=STOP, most=8))
    text = list(PREFIXES[0])
    for token in written:
        assert token == int(probabilities(model, text).argmax())
        text.append(token)
    assert len(written) == 8 or int(probabilities(model, text).argmax()) == STOP


@every_shape
def test_a_beam_of_one_is_greedy(shape: BackboneShape) -> None:
    from innerloop.language.decoding import _Cached, beam_search

    for seed in range(3):
        model, how = made(shape, seed=seed), Decoding(stop=STOP, most=12)
        greedy = decode(model, PREFIXES, how)
        limits = [12] * len(PREFIXES)
        with torch.no_grad():
            assert beam_search(_Cached(model, how), PREFIXES, limits, how) == greedy


@pytest.mark.parametrize("penalty", [0.0, 1.0])
@torch.no_grad()
def test_a_wide_beam_finds_the_best_text_of_all(penalty: float) -> None:
    """With as many beams as there are beginnings it is a search through everything."""
    words, most, prefix = 5, 3, [2, 1]
    for seed in range(4):
        model = made(SHAPES["stack"], words=words, seed=seed)
        best, right = -float("inf"), []
        for length in range(most + 1):
            for text in product([1, 2, 3], repeat=length):
                whole, total = list(prefix), 0.0
                for token in [*text, *([STOP] if length < most else [])]:
                    total += float(probabilities(model, whole)[token])
                    whole.append(token)
                score = total / max(1, min(length + 1, most)) ** penalty
                if score > best:
                    best, right = score, list(text)
        how = Decoding(stop=STOP, beams=100, most=most, length_penalty=penalty)
        assert decode(model, [prefix], how) == [right]


@pytest.mark.parametrize("beams", [1, 3])
def test_it_stops_at_the_end_and_at_the_most_tokens(beams: int) -> None:
    model = made(SHAPES["loop"])
    how = Decoding(stop=STOP, beams=beams, most=6)
    free = decode(model, PREFIXES, replace(how, never=(0, STOP)))
    assert [len(text) for text in free] == [6] * len(PREFIXES)
    for text in free:
        assert not {0, STOP} & set(text)
    # The third token of the first text, declared the end: nothing is written from there on.
    if beams == 1:
        first = free[0]
        ended = decode(model, PREFIXES[:1], replace(how, stop=first[2], never=(0, STOP)))[0]
        assert ended == first[: first.index(first[2])]


def test_nothing_is_written_beyond_the_last_position() -> None:
    model = made(SHAPES["stack"], points=9)
    for cached in (True, False):
        how = Decoding(stop=STOP, never=(0, STOP), most=50, cached=cached)
        # The last token is written and not read: 9 positions, 4 and 7 of them taken.
        assert [len(text) for text in decode(model, PREFIXES, how)] == [6, 7, 3, 8]
    with pytest.raises(PromptError, match="has 10 tokens, the model has positions for 9"):
        decode(model, [[2] * 10], Decoding(stop=STOP))


def test_what_makes_no_search_is_refused() -> None:
    model = made(SHAPES["stack"])
    with pytest.raises(PromptError, match="begin it with <bos>"):
        decode(model, [[]], Decoding(stop=STOP))
    with pytest.raises(ConfigurationError, match="beams is 0"):
        Decoding(stop=STOP, beams=0)
    assert decode(model, [], Decoding(stop=STOP)) == []
