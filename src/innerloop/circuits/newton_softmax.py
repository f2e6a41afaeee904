"""Newton's method with softmax attention: Gao et al. (2025), theorem 4.1.

A y token takes over the x before it and is an example from there on. The asked x is no example: it
has no y behind it, and nothing else tells it from the others. That pairing is all that one layer
before the loop has time for, so that M_0 x_i = alpha sum_j (x_i . x_j) x_j must wait, and the loop
itself computes it: every example carries two vectors, left and right, and a step is

    u_i = left_i - right_i + sum_j (left_i . x_j) right_j,  then left <- u, right <- -u

With left = -right = M x that is 2 M x - M S M x, and with left = right = sqrt(alpha) x it is M_0 x.
After k loops the tokens hold M_{k-1} x; the first layer behind the loop is one more step.
"""

import torch
from pydantic import Field, model_validator

from innerloop.circuits.blueprint import Blueprint, Tokens
from innerloop.circuits.circuit import Positive, SoftmaxSettings
from innerloop.circuits.newton_relu import safe_start
from innerloop.circuits.newton_softmax_error import NewtonSizes
from innerloop.circuits.parts import Head, Layer
from innerloop.circuits.positions import SATURATED, Places
from innerloop.circuits.products import paired_add
from innerloop.circuits.residual import Residual
from innerloop.circuits.softmax_products import Form, softmax_products

GATE = 1e9
"""Far above all that is ever added to the slots of examples."""
MOST_STEPS = 40
"""Beyond these, what rounding has added to small eigenvalues of S may have doubled past 1."""


class NewtonSoftmax(SoftmaxSettings):
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
        sizes = NewtonSizes(
            largest_input=self.input_bound, largest_output=self.output_bound, alpha=self.alpha,
            dims=self.dims, examples=self.examples, form=self.form, given=self.scale,
        )  # fmt: skip
        residual, tokens = Residual(), 2 * self.points
        x, y = residual.slot("x", self.dims), residual.slot("y", 1)
        places, start = Places.declare(residual, tokens), residual.slot("start", 1)
        empty = residual.slot("no example", 1)
        example = residual.slot("x of the example", self.dims)
        left, right = residual.slot("left", self.dims), residual.slot("right", self.dims)
        change = residual.slot("change", self.dims)
        answer = residual.slot("answer", 1)
        root = self.alpha**0.5
        pair = Head(
            query=SATURATED * places.looking_back(1), key=places.keys(),
            values={example: x, left: root * x, right: root * x},
            says="x_j onto the token of y_j; left = right = sqrt(alpha) x_j",
        )  # fmt: skip
        product = softmax_products(
            query=left, key=example, values={change: right}, sink=start, scale=sizes.scale,
            form=self.form, says="sum_j (left_i . x_j) right_j",
        )  # fmt: skip
        # At tokens that are no examples the two heads cancel but for their rounding, which would
        # double at every step. The gate is 0 at examples, and costs them nothing; 1 - (is an
        # example) would round them to its size.
        gate = -GATE * (torch.ones(self.dims, 1, dtype=torch.float64) @ empty)
        update = (
            paired_add(change - right, left, gate=gate, says="left <- u"),
            paired_add(-change - left, right, gate=gate, says="right <- -u"),
            paired_add(-change, change, says="cleared"),
        )
        step = Layer(heads=product, neurons=update, title="a Newton step")
        read = softmax_products(
            query=x, key=left, values={answer: y}, sink=start, scale=sizes.scale, form=self.form,
            says="x . M X'y = sum_j (x . M x_j) y_j",
        )  # fmt: skip
        place = torch.arange(tokens)[:, None]  # (T, 1)
        first, no_example = place == 0, (place == 0) | (place % 2 == 1)  # (T, 1) each
        positions = {start: first.double(), empty: no_example.double()}
        return Blueprint(
            name="newton-softmax", source="gao2025 theorem 4.1", algorithm="M <- 2M - M S M",
            form=self.form, dims=self.dims, points=self.points, steps=self.steps,
            residual=residual,
            tokens=Tokens.of_pairs(
                x, y, start=True, positions={places.slot: places.values, **positions}
            ),
            pre=(Layer(heads=(pair,), title="pair x and y"),),
            body=(step,), post=(step, Layer(heads=read, title="the answer")),
            answer=answer, mask="full",
            largest_input=self.input_bound, largest_output=self.output_bound,
            condition=f"start |S|^2 at most 1, that is |S| at most {self.alpha**-0.5:.4g}",
            bound=sizes.bound,
        )  # fmt: skip
