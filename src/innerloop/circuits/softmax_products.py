"""Products by softmax attention: sum_j (query(i) . key(j)) value(j), up to a stated error.

A head at scale c gives weights exp(c a_j) / Z with a_j = query . key. A sink, one token with the
logit C, makes Z = e^C (1 + T e^-C) all but constant, and values are multiplied by e^C. What is left
of exp(c a) = 1 + c a + (c a)^2 / 2 + .. is taken apart by two heads:

- tight: +c and -c, halved: a (1 + (c a)^2 / 6 + ..) / 1; the constant and all even orders cancel.
- printed (Gao et al. 2025, lemma A.2): c and 0: a (1 + c a / 2 + ..).

Both are divided by c, and so is rounding: that of a weight is about the spacing of floats at C.
"""

from collections.abc import Mapping
from typing import Literal

import torch

from innerloop.circuits.blueprint import ErrorBound
from innerloop.circuits.parts import Head
from innerloop.circuits.residual import Affine, Slot, constant, join

Form = Literal["tight", "printed"]
LEVEL = 30.0
"""C: e^30 = 1e13 leaves 1e-13 a token of the normaliser; larger ones cost digits of logits."""


def softmax_products(
    *,
    query: Affine,
    key: Affine,
    values: Mapping[Slot, Affine],
    sink: Affine,
    scale: float,
    level: float = LEVEL,
    form: Form = "tight",
    says: str,
) -> tuple[Head, Head]:
    """Two heads that add the sum over j of (query(i) . key(j)) value(j) to slots.

    The sink is one number: 1 at the sink token, 0 at all others. The key must be 0 at the sink, and
    value 0 at every token that is to be left out.
    """
    keys = join(key, level * sink)
    factor = torch.tensor(level, dtype=torch.float64).exp().item() / scale
    first, second = (scale, -scale) if form == "tight" else (scale, 0.0)
    half = 2.0 if form == "tight" else 1.0
    return (
        Head(
            query=join(first * query, constant(1.0)),
            key=keys,
            values={slot: factor / half * value for slot, value in values.items()},
            says=says,
        ),
        Head(
            query=join(second * query, constant(1.0)),
            key=keys,
            values={slot: -factor / half * value for slot, value in values.items()},
            says="the same at -c, subtracted" if form == "tight" else "the same at 0, subtracted",
        ),
    )


def products_error(
    *, largest: float, weight: float, tokens: int, scale: float, level: float, form: Form
) -> ErrorBound:
    """How far one sum of products may be off.

    largest is a bound on |a_j|, weight one on the sum of |value(j)|, tokens the number of tokens.
    """
    size = scale * largest
    order = size**2 / 6 if form == "tight" else size / 2
    normaliser = tokens * torch.tensor(-level, dtype=torch.float64).exp().item()
    eps = torch.finfo(torch.float64).eps
    return ErrorBound(
        truncation=weight * largest * (order + normaliser),
        rounding=weight * eps * (level + 4) / scale,
    )
