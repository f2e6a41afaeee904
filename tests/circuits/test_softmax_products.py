"""Products by pairs of softmax heads: against the sums themselves, and against the stated error."""

import math
from itertools import pairwise

import pytest
import torch
from torch import Tensor

from innerloop.circuits.parts import Head
from innerloop.circuits.residual import Affine, Residual, constant
from innerloop.circuits.softmax_products import (
    EPS,
    WEIGHT_ROUNDING,
    Form,
    relative_truncation,
    softmax_products,
    typical_rounding,
)

TOKENS, DIMS = 12, 3


def evaluate(affine: Affine, slots: dict[str, Tensor]) -> Tensor:
    """An affine function of the slots of all tokens: (B, T, rows)."""
    total = affine.constant
    for name, matrix in affine.terms.items():
        total = total + slots[name] @ matrix.T  # (B, T, rows)
    return total.expand(*next(iter(slots.values())).shape[:2], -1)


def attend(heads: tuple[Head, ...], slots: dict[str, Tensor]) -> Tensor:
    """What the heads add to the one slot that they write: (B, T, size)."""
    total: Tensor = torch.zeros(())
    for head in heads:
        scores = evaluate(head.query, slots) @ evaluate(head.key, slots).mT  # (B, T, T)
        (value,) = head.values.values()
        total = total + scores.softmax(-1) @ evaluate(value, slots)  # (B, T, size)
    return total


def draw(seed: int, batch: int = 8) -> dict[str, Tensor]:
    """Token 0 is the sink; the others have inputs and a value each."""
    generator = torch.Generator().manual_seed(seed)
    x = torch.randn(batch, TOKENS, DIMS, generator=generator, dtype=torch.float64)
    v = torch.randn(batch, TOKENS, 1, generator=generator, dtype=torch.float64)
    sink = torch.zeros(batch, TOKENS, 1, dtype=torch.float64)
    x[:, 0], v[:, 0], sink[:, 0] = 0.0, 0.0, 1.0
    return {"x": x, "v": v, "sink": sink, "out": torch.zeros_like(v)}


def heads(scale: float, form: Form, *, closed: bool = False) -> tuple[Head, Head]:
    residual = Residual()
    x, v = residual.slot("x", DIMS), residual.slot("v", 1)
    sink, out = residual.slot("sink", 1), residual.slot("out", 1)
    shut = (constant(1.0), residual.slot("shut", 1)) if closed else None
    return softmax_products(
        query=x, key=x, values={out: v}, sink=sink, scale=scale, form=form, says="", closed=shut
    )


def worst_case(scale: float, form: Form, *, largest: float, weight: float) -> float:
    """How far one sum of products may be off, were all roundings to go the same way.

    largest is a bound on |a_j|, weight one on the sum of |value(j)|.
    """
    order = relative_truncation(largest=largest, tokens=TOKENS, scale=scale, form=form)
    # Two heads of half the size, or one; the head at 0 has no logit to round, but sums as well.
    each = WEIGHT_ROUNDING + TOKENS * EPS / 2
    heads = 1.0 if form == "tight" else 2.0
    return weight * largest * order + heads * weight * each / scale


def worst(scale: float, form: Form) -> tuple[float, float]:
    """The worst error over three draws, and the largest bound that is stated for one of them."""
    error = bound = 0.0
    for seed in range(3):
        slots = draw(seed)
        products = slots["x"] @ slots["x"].mT  # (B, T, T)
        off = (attend(heads(scale, form), slots) - products @ slots["v"]).abs().amax(dim=(1, 2))
        for b in range(len(off)):
            largest, weight = float(products[b].abs().max()), float(slots["v"][b].abs().sum())
            stated = worst_case(scale, form, largest=largest, weight=weight)
            assert float(off[b]) <= stated
            error, bound = max(error, float(off[b])), max(bound, stated)
    return error, bound


@pytest.mark.parametrize(("form", "order"), [("tight", 2), ("printed", 1)])
def test_truncation_falls_as_the_order_of_the_form(form: Form, order: int) -> None:
    errors = [worst(scale, form)[0] for scale in (1e-2, 1e-3, 1e-4)]
    for larger, smaller in pairwise(errors):
        slope = math.log10(larger / smaller)
        assert abs(slope - order) < 0.1


@pytest.mark.parametrize("form", ["tight", "printed"])
def test_rounding_grows_as_the_scale_falls(form: Form) -> None:
    errors = [worst(scale, form)[0] for scale in (1e-9, 1e-10, 1e-11)]
    assert errors[0] < errors[1] < errors[2]


def test_the_tight_form_is_better_at_every_scale_that_truncates() -> None:
    for scale in (1e-2, 1e-3, 1e-4, 1e-5):
        assert worst(scale, "tight")[0] < worst(scale, "printed")[0]


@pytest.mark.parametrize("form", ["tight", "printed"])
def test_the_bound_is_not_idle(form: Form) -> None:
    """At most 100 times what is measured, where truncation rules and where rounding does."""
    for scale in (1e-3, 1e-5, 1e-9):
        error, bound = worst(scale, form)
        assert bound <= 100 * error


@pytest.mark.parametrize("form", ["tight", "printed"])
def test_typical_rounding_is_that_of_the_model(form: Form) -> None:
    """Within a factor of 2: what is left out of the model are errors of the size of eps."""
    scale = 1e-9
    slots = draw(3, batch=200)
    exact = slots["x"] @ slots["x"].mT @ slots["v"]  # (B, T, 1)
    off = (attend(heads(scale, form), slots) - exact)[:, 1:]  # (B, T - 1, 1)
    measured = float((off * scale / slots["v"].norm(dim=1, keepdim=True)).std())
    stated = typical_rounding(examples=TOKENS - 1, form=form)
    assert measured / 2 < stated < 2 * measured


def test_closed_tokens_add_nothing() -> None:
    slots = draw(0)
    shut = torch.zeros_like(slots["v"])  # (B, T, 1)
    shut[:, 5:] = 1.0
    pair = heads(1e-3, "tight", closed=True)
    some = attend(pair, {**slots, "shut": shut})
    without = {name: value[:, :5] for name, value in {**slots, "shut": shut}.items()}
    off = some[:, 1:5] - attend(pair, without)[:, 1:]  # (B, 4, 1)
    assert float(off.abs().max()) < 1e-10
    other = {**slots, "shut": shut, "x": slots["x"].clone()}
    other["x"][:, 5:] *= -3.0
    assert float((attend(pair, other) - some)[:, :5].abs().max()) < 1e-10
