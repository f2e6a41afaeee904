"""Newton's method with softmax attention: Gao et al. (2025), theorem 4.1.

A y token takes over the x before it and is an example from there on. The asked x is no example: it
has no y behind it, and nothing else tells it from the others. That pairing is all that one layer
before the loop has time for, so that M_0 x_i = alpha sum_j (x_i . x_j) x_j must wait, and the loop
itself computes it: every example carries two vectors, left and right, and a step is

    u_i = left_i - right_i + sum_j (left_i . x_j) right_j,  then left <- u, right <- -u

With left = -right = M x that is 2 M x - M S M x, and with left = right = sqrt(alpha) x it is M_0 x.
After k loops the tokens hold M_{k-1} x; the first layer behind the loop is one more step.
"""

from dataclasses import dataclass

import torch
from pydantic import Field, model_validator

from innerloop.circuits.blueprint import Blueprint, Tokens
from innerloop.circuits.circuit import BoundedSettings, Positive
from innerloop.circuits.newton_relu import safe_start
from innerloop.circuits.newton_softmax_error import NewtonSizes
from innerloop.circuits.parts import Head, Layer, Neurons
from innerloop.circuits.positions import SATURATED, Places
from innerloop.circuits.products import relu_add
from innerloop.circuits.residual import Affine, Residual, Slot, join
from innerloop.circuits.softmax_products import Form, softmax_products

GATE = 1e9
"""Far above all that is ever added to the slots of examples."""
MOST_STEPS = 40
"""Beyond these, what rounding has added to small eigenvalues of S may have doubled past 1."""


class NewtonSoftmax(BoundedSettings):
    """M <- 2M - M S M from M = start S, then x . M X'y, with products by softmax attention.

    The bound holds where start is at most 1 / ||S||^2, however small the other eigenvalues are.
    Those that are too small to be inverted yet double with every step, and so does what rounding
    has added to them: beyond some fifteen steps the bound is that of the worst S, not of most.
    """

    start: Positive | None = Field(
        default=None,
        description="alpha: M starts at alpha S; None: safe for standard normal inputs",
    )
    form: Form = Field(default="tight", description="heads at c and -c; printed: at c and 0")
    scale: Positive | None = Field(
        default=None, description="c, what products are multiplied by; None: the best in float64"
    )
    largest_output: Positive | None = Field(
        default=None, description="bound on |y|; None: for standard normal inputs and weights"
    )

    @model_validator(mode="after")
    def _check_steps(self) -> "NewtonSoftmax":
        if self.steps > MOST_STEPS:
            raise ValueError(
                f"{self.steps} steps, at most {MOST_STEPS} keep rounding small: take fewer, or the "
                "circuit newton-relu, which is exact"
            )
        return self

    @property
    def alpha(self) -> float:
        """The start, chosen or given."""
        return self.start or safe_start(self.dims, self.points)

    def blueprint(self) -> Blueprint:
        """Pair x and y; a step; one more, and the sum of y_j (x . M x_j)."""
        sizes = self._sizes()
        slots = _Slots.declare(self.dims, self.points)
        step = _step(slots, sizes.scale, self.form)
        read = softmax_products(
            query=slots.x,
            key=slots.left,
            values={slots.answer: slots.y},
            sink=slots.start,
            scale=sizes.scale,
            form=self.form,
            says="x . M X'y = sum_j (x . M x_j) y_j",
        )
        place = torch.arange(2 * self.points)[:, None]  # (T, 1)
        return Blueprint(
            name="newton-softmax",
            source="gao2025 theorem 4.1",
            algorithm="M <- 2M - M S M",
            form=self.form,
            dims=self.dims,
            points=self.points,
            residual=slots.residual,
            tokens=Tokens(
                inputs={slots.x: torch.eye(self.dims, dtype=torch.float64)},
                outputs={slots.y: torch.ones(1, 1, dtype=torch.float64)},
                positions={
                    slots.places.slot: slots.places.values,
                    slots.start: (place == 0).double(),
                    slots.empty: ((place == 0) | (place % 2 == 1)).double(),
                },
                start=True,
            ),
            pre=(Layer(heads=(_pair(slots, self.alpha),), title="pair x and y"),),
            body=(step,),
            post=(step, Layer(heads=read, title="the answer")),
            steps=self.steps,
            answer=slots.answer,
            mask="full",
            largest_input=sizes.largest_input,
            largest_output=sizes.largest_output,
            condition=f"start |S|^2 at most 1, that is |S| at most {self.alpha**-0.5:.4g}",
            bound=sizes.bound,
        )

    def _sizes(self) -> NewtonSizes:
        return NewtonSizes(
            largest_input=self.input_bound,
            largest_output=self.largest_output or 4 * (self.dims**0.5 + 2),
            alpha=self.alpha,
            dims=self.dims,
            examples=max(1, self.points - 1),
            form=self.form,
            given=self.scale,
        )


@dataclass(frozen=True, eq=False, kw_only=True)
class _Slots:
    residual: Residual
    x: Slot
    y: Slot
    places: Places
    start: Slot
    """1 at the start token, which is the sink."""
    empty: Slot
    """1 at all tokens that are no examples: all but y tokens."""
    example: Slot
    left: Slot
    right: Slot
    change: Slot
    answer: Slot

    @classmethod
    def declare(cls, dims: int, points: int) -> "_Slots":
        residual = Residual()
        return cls(
            residual=residual,
            x=residual.slot("x", dims),
            y=residual.slot("y", 1),
            places=Places.declare(residual, 2 * points),
            start=residual.slot("start", 1),
            empty=residual.slot("no example", 1),
            example=residual.slot("x of the example", dims),
            left=residual.slot("left", dims),
            right=residual.slot("right", dims),
            change=residual.slot("change", dims),
            answer=residual.slot("answer", 1),
        )


def _pair(slots: _Slots, alpha: float) -> Head:
    root = alpha**0.5
    return Head(
        query=SATURATED * slots.places.looking_back(1),
        key=slots.places.keys(),
        values={slots.example: slots.x, slots.left: root * slots.x, slots.right: root * slots.x},
        says="x_j onto the token of y_j; left = right = sqrt(alpha) x_j",
    )


def _step(slots: _Slots, scale: float, form: Form) -> Layer:
    """One layer: u_i, and what becomes of it."""
    left, right, change = slots.left, slots.right, slots.change
    return Layer(
        heads=softmax_products(
            query=left,
            key=slots.example,
            values={change: right},
            sink=slots.start,
            scale=scale,
            form=form,
            says="sum_j (left_i . x_j) right_j",
        ),
        neurons=(
            _add_to_examples(change - right, left, slots.empty, says="left <- u"),
            _add_to_examples(-change - left, right, slots.empty, says="right <- -u"),
            relu_add(-change, change, says="cleared"),
        ),
        title="a Newton step",
    )


def _add_to_examples(value: Affine, to: Slot, empty: Slot, *, says: str) -> Neurons:
    """Neurons that add to a slot, but at tokens that are no examples.

    There the two heads cancel but for their rounding, which would double at every step. The gate is
    0 at examples, and costs them nothing; 1 - (is an example) would round them to its size.
    """
    eye = torch.eye(to.size, dtype=torch.float64)  # (size, size)
    shut = -GATE * (torch.ones(to.size, 1, dtype=torch.float64) @ empty)
    return Neurons(
        inputs=join(value + shut, -value + shut),
        outputs={to: torch.cat([eye, -eye], dim=1)},
        says=says,
    )
