"""Products by softmax attention: sum_j (query(i) . key(j)) value(j), up to a stated error.

A head at scale c gives weights exp(c a_j) / Z with a_j = query . key. A sink, one token with the
logit C, makes Z = e^C (1 + T e^-C) all but constant, and values are multiplied by e^C. What is left
of exp(c a) = 1 + c a + (c a)^2 / 2 + .. is taken apart by two heads:

- tight: +c and -c, halved: a (1 + (c a)^2 / 6 + ..); the constant and all even orders cancel.
- printed (Gao et al. 2025, lemma A.2): c and 0: a (1 + c a / 2 + ..).

Both are divided by c, and so is rounding. Softmax subtracts the largest logit: c a - C is rounded
to the spacing of floats at C, and that is the relative error of a weight, far above all others.
"""

import math
from collections.abc import Mapping
from typing import Literal

import torch

from innerloop.circuits.parts import Head
from innerloop.circuits.residual import Affine, Slot, constant, join, zeros

Form = Literal["tight", "printed"]
LEVEL = 31.0
"""C: e^31 = 3e13 leaves 3e-14 a token of the normaliser. The spacing of floats is the same from 16
to 32, and twice as wide above."""
CLOSED = 60.0
"""How far below 0 the logits of tokens lie that are left out: e^-60 = 9e-27."""
EPS = torch.finfo(torch.float64).eps
WEIGHT_ROUNDING = math.ulp(LEVEL) / 2 + EPS
"""The largest relative error of a weight: half the spacing of floats at C, and the exp's."""


def softmax_products(
    *,
    query: Affine,
    key: Affine,
    values: Mapping[Slot, Affine],
    sink: Affine,
    scale: float,
    form: Form = "tight",
    says: str,
    closed: tuple[Affine, Affine] | None = None,
) -> tuple[Head, Head]:
    """Two heads that add the sum over j of (query(i) . key(j)) value(j) to slots.

    The sink is one number: 1 at the sink token, 0 at all others. The key and the value must be 0 at
    the sink. Tokens are left out by a value of 0, or by being closed: a pair of functions, of the
    token that asks and of the token seen, whose product is 1 or more where j is closed to i, and 0,
    term by term, where it is open. (A sum that only cancels to 0 would leave its rounding.)
    """
    asks, seen = (zeros(1), zeros(1)) if closed is None else closed
    keys = join(key, seen, LEVEL * sink)
    factor = math.exp(LEVEL) / scale
    first, second = (scale, -scale) if form == "tight" else (scale, 0.0)
    half = 2.0 if form == "tight" else 1.0
    other = f"the same at {'-c' if form == 'tight' else '0'}, subtracted"

    def head(at: float, factor: float, says: str) -> Head:
        taken = {slot: factor * value for slot, value in values.items()}
        query_at = join(at * query, -CLOSED * asks, constant(1.0))
        return Head(query=query_at, key=keys, values=taken, says=says)

    return head(first, factor / half, says), head(second, -factor / half, other)


def relative_truncation(*, largest: float, tokens: int, scale: float, form: Form) -> float:
    """How far a product may be from a_j, divided by the largest |a_j|, without any rounding.

    sinh(z) / z - 1 is at most z^2 / 6 cosh(z), and (e^z - 1) / z - 1 at most z / 2 e^z. The
    normaliser is off by T e^-C, and by another T e^-C times the largest |a| between the two heads.
    """
    size = scale * largest
    order = size**2 / 6 * math.cosh(size) if form == "tight" else size / 2 * math.exp(size)
    return order + 2 * tokens * math.exp(-LEVEL)


def typical_rounding(*, examples: int, form: Form) -> float:
    """The standard deviation of a sum of products times c, divided by the root of sum value(j)^2.

    Roundings count as uniform, and those of different tokens as independent, as in probabilistic
    rounding analysis. The two heads of the tight form are halved, but c a - C and - c a - C are
    rounded by opposite amounts (C is a multiple of the spacing), so that nothing averages out.
    Adding n terms of one sign up rounds n partial sums, which grow to sqrt(n) times the root.
    """
    logits = WEIGHT_ROUNDING / math.sqrt(3)
    # Each partial sum m / n of the whole: sum over m of (m / n)^2 is n / 3; half an eps, uniform.
    sums = EPS / 2 / math.sqrt(3) * math.sqrt(examples) * math.sqrt(examples / 3)
    heads = 0.5 if form == "tight" else 1.0
    return math.hypot(logits, heads * math.sqrt(2) * sums)
