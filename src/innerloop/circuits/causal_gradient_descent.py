"""Gradient descent on every prefix at once by causal softmax attention: Gao et al. (2025), 4.2.

Every x token carries weights w of its own and moves them by the i examples before it:
w <- w - step_size / i sum_j r_j x_j with r_j = w . x_j - y_j. A head scores c r_j for a small c and
has the value x_j. What exp(c r) = 1 + c r + .. holds beside c r is taken out in one of three ways:

- antithetic: token y_j holds +(x_j, y_j), the next x token -(x_j, y_j). Their weights are exp(c r)
  and exp(-c r), and all together give sum_j sinh(c r_j) x_j / sum_j cosh(c r_j): c times the mean
  of r_j x_j, up to third order. Heads at c and 2c cancel that order too. No logit is large, so no
  digit is lost, and the mean comes for nothing.
- sink: y tokens alone are examples, and the start token takes all attention but a part e^-C. Heads
  at c and -c. The mean is log i added to the sink's logit, from a slot of positions.
- printed-scale: as sink with heads at c and 0, as in lemma A.2: an error of first order in c.

Lemma A.5 as printed counts x_i itself among the examples, gives the first token no sink to look at,
and has other tokens' weights in its last line.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from math import exp

import torch
from pydantic import Field, model_validator
from torch import Tensor

from innerloop.circuits.blueprint import Blueprint, Tokens
from innerloop.circuits.causal_descent_error import (
    READ,
    STEP,
    DescentSizes,
    Form,
    extrapolation,
)
from innerloop.circuits.circuit import Positive, SoftmaxSettings
from innerloop.circuits.parts import Head, Layer
from innerloop.circuits.positions import SATURATED, Places
from innerloop.circuits.residual import Affine, Residual, Slot, constant, join


class CausalGradientDescent(SoftmaxSettings):
    """w <- w - step_size (mean of (w . x_j - y_j) x_j), on the prefix of every x token."""

    step_size: Positive | None = Field(
        default=None, description="None: 1 / L of the largest inputs, which never diverges"
    )
    average: bool = Field(default=True, description="the mean over the examples, not their sum")
    form: Form = Field(default="antithetic", description="what is done about exp(c r) - c r")

    @model_validator(mode="after")
    def _check_form(self) -> "CausalGradientDescent":
        if self.form == "antithetic" and not self.average:
            raise ValueError(
                "antithetic tokens give the mean over the examples and not the sum: "
                "take average=true, or form=sink"
            )
        return self

    @model_validator(mode="after")
    def _check_step_size(self) -> "CausalGradientDescent":
        if self.rate > 2 / self._curvature:
            raise ValueError(
                f"a step size of {self.rate:g} can diverge: for inputs up to "
                f"{self.input_bound:.3g} it is at most 2 / L = {2 / self._curvature:.3g}; "
                "take a smaller one, or declare a smaller largest_input"
            )
        return self

    @property
    def rate(self) -> float:
        """The step size, chosen or given."""
        return self.step_size or 1 / self._curvature

    @property
    def _curvature(self) -> float:
        """L: no eigenvalue of the loss' Hessian is larger."""
        return self.input_bound**2 * (1 if self.average else self.examples)

    def blueprint(self) -> Blueprint:
        """Pair x and y; a step; w . x."""
        sizes = DescentSizes(
            form=self.form, largest_input=self.input_bound, largest_output=self.output_bound,
            examples=self.examples, average=self.average, step_size=self.rate, steps=self.steps,
            given=self.scale,
        )  # fmt: skip
        slots = _Slots.declare(self.dims, self.points)
        build = _antithetic if self.form == "antithetic" else _with_sink
        step, positions = build(slots, sizes)
        return Blueprint(
            name="causal-gradient-descent", source="gao2025 theorem 4.2",
            algorithm="w <- w - step_size / i sum_j (w . x_j - y_j) x_j", form=self.form,
            dims=self.dims, points=self.points, steps=self.steps, residual=slots.residual,
            tokens=Tokens.of_pairs(
                slots.x, slots.y, start=True, positions={**slots.positions(), **positions}
            ),
            pre=(Layer(heads=_pairing(self.form, slots), title="pair x and y"),),
            body=(Layer(heads=step, title="a gradient step"),),
            post=_reading(slots, sizes.read_scale), answer=slots.answer,
            largest_input=self.input_bound, largest_output=self.output_bound, bound=sizes.bound,
        )  # fmt: skip


@dataclass(frozen=True, eq=False)
class _Slots:
    """The slots that all forms have."""

    residual: Residual
    points: int
    x: Slot
    y: Slot
    places: Places
    start: Slot
    """1 at the start token."""
    code: Slot
    """The place in binary, each digit with its complement; all zeros at the start token."""
    example: Slot
    """The x of the example that a token holds."""
    output: Slot
    """What a token holds of an example's y, beside what is its own."""
    weights: Slot
    answer: Slot

    @classmethod
    def declare(cls, dims: int, points: int) -> "_Slots":
        residual = Residual()
        return cls(
            residual=residual,
            points=points,
            x=residual.slot("x", dims),
            y=residual.slot("y", 1),
            places=Places.declare(residual, 2 * points),
            start=residual.slot("start", 1),
            code=residual.slot("code", 2 * _digits(2 * points)),
            example=residual.slot("x of the example", dims),
            output=residual.slot("y of the example", 1),
            weights=residual.slot("w", dims),
            answer=residual.slot("answer", 1),
        )

    def positions(self) -> dict[Slot, Tensor]:
        """What stands in the slots of positions, (T, size) each."""
        tokens = 2 * self.points
        place = torch.arange(tokens)[:, None]  # (T, 1)
        digits = place >> torch.arange(_digits(tokens)) & 1  # (T, digits)
        code = torch.cat([digits, 1 - digits], dim=1).double()  # (T, 2 digits)
        code[0] = 0
        return {
            self.places.slot: self.places.values,
            self.start: (place == 0).double(),
            self.code: code,
        }


def _digits(tokens: int) -> int:
    return max(1, (tokens - 1).bit_length())


def _pairing(form: Form, slots: _Slots) -> tuple[Head, ...]:
    """x_j onto y_j; antithetic: -x_j and -y_j onto the next x token as well."""
    places, x, y = slots.places, slots.x, slots.y
    behind, negated = {slots.example: x}, {slots.example: -x}
    if form != "antithetic":
        return (_copy(places, 1, behind, "x_j onto the token of y_j"),)
    return (
        # An x token looks at a y token here, and the other way round below: each finds what is 0.
        _copy(places, 1, {**behind, slots.output: -y}, "x_j onto y_j, and -y_j onto the next x"),
        _copy(places, 2, negated, "-x_j onto the next x"),
    )


def _copy(places: Places, back: int, values: Mapping[Slot, Affine], says: str) -> Head:
    query = SATURATED * places.looking_back(back)
    return Head(query=query, key=places.keys(), values=values, says=says)


def _antithetic(slots: _Slots, sizes: DescentSizes) -> tuple[tuple[Head, ...], dict[Slot, Tensor]]:
    """The heads of a step at c and 2c, and the positions that they need."""
    # x_0 holds no example, and the start token none: they must not count in the mean. y tokens hold
    # half a pair, and look at nothing but them, so that their w stays 0.
    empty = slots.residual.slot("no example", 1)
    look = slots.residual.slot("look at no example", 1)
    place = torch.arange(2 * slots.points)[:, None]  # (T, 1)
    positions = {
        empty: (place <= 1).double(),  # (T, 1)
        look: SATURATED * (1 - 2.0 * (place % 2)),  # (T, 1): x tokens have odd places
    }
    scales = {multiple: multiple * sizes.scale for multiple in STEP}
    heads = tuple(
        Head(
            query=join(scales[m] * slots.weights, constant(-scales[m]), look),
            key=join(slots.example, slots.y + slots.output, empty),
            values={slots.weights: -sizes.step_size * factor / scales[m] * slots.example},
            says=f"{factor:+.3g} times the step, at {m}c: tanh for the identity",
        )
        for m, factor in extrapolation(STEP).items()
    )
    return heads, positions


def _with_sink(slots: _Slots, sizes: DescentSizes) -> tuple[tuple[Head, ...], dict[Slot, Tensor]]:
    """The heads of a step at c and -c, or at c and 0, and the positions that they need."""
    level = slots.residual.slot("logit of the sink", 1)
    place = torch.arange(2 * slots.points, dtype=torch.float64)[:, None]  # (T, 1)
    count = ((place - 1) / 2).clamp(min=1) if sizes.average else torch.ones_like(place)  # (T, 1)
    # y tokens look at the sink alone, so that their w stays 0.
    levels = torch.where(place % 2 == 1, sizes.level + count.log(), SATURATED)  # (T, 1)
    signs = (1.0, -1.0) if sizes.form == "sink" else (1.0, 0.0)
    factor = exp(sizes.level) * sizes.step_size / sizes.scale / (signs[0] - signs[1])
    heads = tuple(
        Head(
            query=join(sign * sizes.scale * join(slots.weights, constant(-1.0)), level),
            key=join(slots.example, slots.y, slots.start),
            values={slots.weights: -way * factor * slots.example},
            says=says,
        )
        for way, sign, says in (
            (1.0, signs[0], "w - step_size sum_j (1 / c + r_j + ..) x_j"),
            (-1.0, signs[1], f"the same at {signs[1]:g}c, subtracted"),
        )
    )
    return heads, {level: levels}


def _reading(slots: _Slots, scale: float) -> tuple[Layer, ...]:
    """The product w . x, by heads that see the token itself and the start: tanh(c w . x / 2).

    Digits that differ are counted without any cancellation, so that the logit of the token itself
    is c w . x and nothing else: places as numbers would round it to that of their squares.
    """
    digits = slots.code.size // 2
    swapped = join(slots.code[digits:], slots.code[:digits])
    heads = [
        Head(
            query=join(multiple * scale * slots.weights, -SATURATED * slots.code),
            key=join(slots.x, swapped),
            values={
                slots.answer: 2 * factor / (multiple * scale) * (constant(1.0) - 2.0 * slots.start)
            },
            says=f"{factor:+.3g} w . x, at {multiple}c: tanh for the identity",
        )
        for multiple, factor in extrapolation(READ).items()
    ]
    return tuple(
        Layer(heads=(heads[i], heads[i + 1]), title="the answer") for i in range(0, len(heads), 2)
    )
