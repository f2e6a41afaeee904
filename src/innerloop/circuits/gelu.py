"""Sums and products by GELU units, G(v) = v Phi(v).

G(v) - G(-v) = v, exactly: two units pass a number. E(v) = G(v) + G(-v) is even, and

    E(v) = sqrt(2 / pi) (v^2 - v^4 / 6 + v^6 / 40 - v^8 / 336 + ..),

so that E(u + v) - E(u - v) = 4 sqrt(2 / pi) u v, up to fourth order. With operands scaled down by S
the next orders fall as S^-2, S^-4, ..; the rounding of a unit's value, of order 1 / S, is
multiplied by S^2 and grows as S. Four scales S, 2 S, 4 S and 8 S, combined as in Richardson's
extrapolation, leave the order S^-8 only: S = 16 is then enough, and a product is off by 2e-14 of
its bound.

The printed form (Akyurek et al. 2022, lemma 4) is one scale: sqrt(pi / 2) S^2 (G(u + v) - G(u) -
G(v)), of order S^-2, and passes a number as G(N + v) - N. (Its equation 38 has a factor 2 too many,
its equation 118 the factor S for S^2.)
"""

from collections.abc import Mapping
from math import factorial, pi, prod, sqrt
from typing import Literal

import torch
from torch import Tensor

from innerloop.circuits.blueprint import ErrorBound
from innerloop.circuits.parts import Neurons
from innerloop.circuits.products import paired_add
from innerloop.circuits.residual import Affine, Slot, constant, join

Form = Literal["tight", "printed"]
FACTORS = (1.0, 2.0, 4.0, 8.0)
"""The scales of a tight product, beside the first; powers of two are exact in floats."""
LINEAR_FROM = 9.0
"""Beyond this GELU is the identity: 1 - Phi(9) is 1e-19."""


def combination() -> tuple[float, ...]:
    """The weights of the scales: their sum is 1, and their orders S^-2, S^-4 and S^-6 cancel.

    They are the values at 0 of Lagrange's polynomials on the nodes S^-2.
    """
    nodes = [factor**-2 for factor in FACTORS]
    return tuple(prod(other / (other - own) for other in nodes if other != own) for own in nodes)


def product_error(scale: float, form: Form = "tight") -> ErrorBound:
    """How far a product may be off, for operands up to 1.

    Truncation is the first order that is left, at u = v = 1: of E, v^2m / (2m - 1) / 2^(m-1) /
    (m-1)!, with m one more than there are scales; or (2 u^2 + 3 u v + 2 v^2) / 6 / S^2 of the
    printed form. Rounding allows each unit's value, (u + v) / S / 2, its last digit: it is
    proportional to the larger operand.
    """
    eps = torch.finfo(torch.float64).eps
    if form == "printed":
        return ErrorBound(7 / 6 * scale**-2, 2 * sqrt(pi / 2) * scale * eps)
    order = len(FACTORS) + 1
    first = 4.0 ** (order - 1) / ((2 * order - 1) * 2 ** (order - 1) * factorial(order - 1))
    pairs = zip(combination(), FACTORS, strict=True)
    units = sum(abs(weight) * factor for weight, factor in pairs)
    return ErrorBound(
        first / prod(FACTORS) ** 2 * scale ** (2 - 2 * order),
        2 * sqrt(pi / 2) / 4 * units * scale * eps,
    )


def best_scale(form: Form = "tight") -> float:
    """The first power of two at which truncation is below a quarter of rounding: 16, or 2^18.

    There both together are about as small as they get, and operands may be somewhat beyond their
    bounds.
    """
    scale = 1.0
    while 4 * product_error(scale, form).truncation > product_error(scale, form).rounding:
        scale *= 2
    return scale


def gelu_products(
    left: Affine,
    right: Affine,
    outputs: Mapping[Slot, Tensor],
    *,
    largest: tuple[float, float],
    scale: float,
    form: Form = "tight",
    says: str,
) -> Neurons:
    """Units whose products left * right (m,), times matrices (size, m), are added to slots.

    Operands are divided by the bounds on them first, so that the error is relative to the product
    of the bounds.
    """
    one, other = left * (1 / largest[0]), right * (1 / largest[1])
    back = largest[0] * largest[1]
    inputs: list[Affine] = []
    weights: list[float] = []
    if form == "printed":
        whole = sqrt(pi / 2) * scale**2
        inputs = [(1 / scale) * part for part in (one + other, one, other)]
        weights = [whole, -whole, -whole]
    else:
        for share, factor in zip(combination(), FACTORS, strict=True):
            own = scale * factor
            plus, minus = (1 / own) * (one + other), (1 / own) * (one - other)
            whole = share * sqrt(pi / 2) / 4 * own**2
            inputs += [plus, -plus, minus, -minus]
            weights += [whole, whole, -whole, -whole]
    return Neurons(
        inputs=join(*inputs),
        outputs={
            slot: torch.cat([weight * back * matrix for weight in weights], dim=1)  # (size, units)
            for slot, matrix in outputs.items()
        },
        says=says,
    )


def gelu_add(
    value: Affine, to: Slot, *, largest: float = 0.0, form: Form = "tight", says: str
) -> Neurons:
    """Units that add an affine function to a slot; only the printed form needs a bound on it."""
    if form == "tight":
        return paired_add(value, to, says=says)
    shift = largest + LINEAR_FROM
    return Neurons(
        inputs=value + constant(*[shift] * to.size),
        outputs={to: torch.eye(to.size, dtype=torch.float64)},
        constants={to: torch.full((to.size,), -shift, dtype=torch.float64)},
        says=says,
    )
