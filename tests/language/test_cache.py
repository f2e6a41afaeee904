"""The cache: token by token equals the whole pass, for stacks and for every kind of loop."""

from typing import Any

import pytest
import torch

from innerloop.core.errors import ConfigurationError, NotSupportedError
from innerloop.language.cache import Cache, extend
from innerloop.models.backbone import Backbone, BackboneShape, Loop, Stack
from innerloop.models.hidden import Hidden, Visible
from innerloop.models.model import initialise

TOLERANCE = 1e-10
SMALL: dict[str, Any] = {"width": 12, "heads": 3}
SHAPES: dict[str, BackboneShape] = {
    "stack": Stack(**SMALL, layers=3),
    "stack, two blocks per step": Stack(**SMALL, layers=4, layers_per_step=2),
    "loop": Loop(**SMALL, loops=4),
    "loop of two blocks": Loop(**SMALL, layers=2, loops=3, norm_inside=False),
    "tied": Loop(**SMALL, loops=4, inject="none"),
    "multiplied": Loop(**SMALL, loops=3, inject="multiply"),
    "algoformer": Loop(**SMALL, loops=3, pre=1, post=2),
    "relu": Loop(**SMALL, loops=3, attention="relu"),
    "linear, own divisor": Loop(**SMALL, loops=2, attention="linear", divisor=7.0),
}
every_shape = pytest.mark.parametrize("shape", SHAPES.values(), ids=SHAPES.keys())


def made(shape: BackboneShape, positions: int = 16) -> Backbone:
    backbone = Backbone(shape, positions=positions)
    initialise(backbone, spread="fan-in", generator=torch.Generator().manual_seed(1))
    backbone.double()
    with torch.no_grad():
        if backbone.positions is not None:
            backbone.positions.mul_(50)  # so that a wrong position is no rounding error
    return backbone


def drawn(*size: int) -> torch.Tensor:
    return torch.randn(*size, generator=torch.Generator().manual_seed(2), dtype=torch.float64)


def whole(backbone: Backbone, embedded: torch.Tensor, loops: int | None = None) -> torch.Tensor:
    """All tokens (B, T, D) in one pass, as training computes it."""
    state = backbone.begin(Hidden(embedded), Visible())
    for k in range(backbone.shape.steps if loops is None else loops):
        state = backbone.step(state, k, Visible())
    return backbone.end(state, Visible()).tokens


@every_shape
@pytest.mark.parametrize("chunks", [[1] * 7, [4, 1, 2]], ids=["one by one", "a prefix first"])
@torch.no_grad()
def test_token_by_token_is_the_whole_pass(shape: BackboneShape, chunks: list[int]) -> None:
    backbone, embedded = made(shape), drawn(3, 7, 12)
    expected = whole(backbone, embedded)  # (3, 7, D)
    cache, parts = Cache.empty(3), []
    for part in embedded.split(chunks, dim=1):
        hidden, cache = extend(backbone, cache, part)
        parts.append(hidden)
    torch.testing.assert_close(torch.cat(parts, dim=1), expected, rtol=0, atol=TOLERANCE)


@every_shape
@torch.no_grad()
def test_texts_of_different_lengths_make_one_batch(shape: BackboneShape) -> None:
    """Padding stands between a short text and its next token, and changes nothing."""
    backbone, embedded, lengths = made(shape), drawn(3, 9, 12), [5, 2, 4]
    real = torch.arange(5) < torch.tensor(lengths)[:, None]  # (3, 5)
    cache = Cache.empty(3)
    _, cache = extend(backbone, cache, embedded[:, :5], real=real)
    for new in range(3):
        at = torch.tensor(lengths) + new  # (3,)
        hidden, cache = extend(backbone, cache, embedded[range(3), at][:, None])
        for row, length in enumerate(lengths):
            alone = whole(backbone, embedded[row : row + 1, : length + new + 1])[0, -1]  # (D,)
            torch.testing.assert_close(hidden[row, 0], alone, rtol=0, atol=TOLERANCE)
    assert cache.lengths.tolist() == [8, 5, 7]


@torch.no_grad()
def test_padding_behind_the_last_position_is_harmless() -> None:
    backbone, embedded = made(SHAPES["loop"], positions=4), drawn(2, 4, 12)
    real = torch.tensor([[True] * 4, [True, True, True, False]])
    _, cache = extend(backbone, Cache.empty(2), embedded, real=real)
    short = cache.select(torch.tensor([1]))
    hidden, _ = extend(backbone, short, embedded[:1, 3:])
    mixed = torch.cat([embedded[1:, :3], embedded[:1, 3:]], dim=1)  # (1, 4, D)
    torch.testing.assert_close(hidden[:, 0], whole(backbone, mixed)[:, -1], rtol=0, atol=TOLERANCE)


@every_shape
@torch.no_grad()
def test_beams_take_the_past_of_the_text_that_they_go_on_from(shape: BackboneShape) -> None:
    backbone, embedded, rows = made(shape), drawn(2, 5, 12), torch.tensor([1, 1, 0])
    _, cache = extend(backbone, Cache.empty(2), embedded[:, :4])
    hidden, _ = extend(backbone, cache.select(rows), embedded[rows, 4:])
    expected = whole(backbone, embedded)[rows, -1:]  # (3, 1, D)
    torch.testing.assert_close(hidden, expected, rtol=0, atol=TOLERANCE)


@torch.no_grad()
def test_more_loops_than_trained_with() -> None:
    backbone, embedded = made(SHAPES["algoformer"]), drawn(2, 5, 12)
    _, cache = extend(backbone, Cache.empty(2), embedded[:, :4], loops=6)
    hidden, cache = extend(backbone, cache, embedded[:, 4:], loops=6)
    expected = whole(backbone, embedded, loops=6)[:, -1:]  # (2, 1, D)
    torch.testing.assert_close(hidden, expected, rtol=0, atol=TOLERANCE)
    with pytest.raises(ConfigurationError, match="same loops at every call"):
        extend(backbone, cache, embedded[:, :1])


def test_each_loop_has_keys_of_its_own() -> None:
    """The same block, the same token: a cache of one set per block would be wrong."""
    _, cache = extend(made(SHAPES["loop"]), Cache.empty(1), drawn(1, 2, 12))
    first, second = cache.kept[0][0], cache.kept[1][0]  # (1, h, 2, s) each
    assert len(cache.kept) == 4
    assert not torch.allclose(first, second, rtol=0, atol=1e-3)


def test_full_attention_has_no_cache() -> None:
    backbone = made(Stack(**SMALL, layers=1, mask="full"))
    with pytest.raises(NotSupportedError, match="full attention has no cache"):
        extend(backbone, Cache.empty(1), drawn(1, 2, 12))
