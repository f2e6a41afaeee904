"""Newton's method with ReLU attention: Fu et al. (2023), theorem 1."""

import torch
from pydantic import Field

from innerloop.circuits.blueprint import Blueprint, Tokens
from innerloop.circuits.circuit import CircuitSettings, Positive
from innerloop.circuits.parts import Head, Layer
from innerloop.circuits.positions import Places
from innerloop.circuits.products import paired_add, relu_products
from innerloop.circuits.residual import Residual, constant


class NewtonRelu(CircuitSettings):
    """M <- 2M - M S M from M = start S, then x . M X'y: exact, k steps in k + 3 layers.

    A y token takes over the x before it and is an example from there on; x tokens are asked about,
    and no key of S. Every example carries m_j = M x_j; a step is m_i <- 2 m_i - sum_j (m_i . x_j)
    m_j, with query m and key x. The other order doubles at every step what rounding leaves of an
    antisymmetric part of M and, with more examples than dimensions, outside the column space of X.
    """

    start: Positive | None = Field(
        default=None,
        description="alpha: M starts at alpha S; None: safe for standard normal inputs",
    )
    one_hot: bool = Field(
        default=False,
        description="a number for each place, not two for all: wider, and can be trained further",
    )

    def blueprint(self) -> Blueprint:
        """Pair x and y; M_0 x; a step; the sum of y_j (m_j . x)."""
        alpha = safe_start(self.dims, self.points) if self.start is None else self.start
        residual = Residual()
        x = residual.slot("x", self.dims)
        y = residual.slot("y", 1)
        tokens = 2 * self.points - 1
        if self.one_hot:
            place = residual.slot("place", tokens)
            places = torch.eye(tokens, dtype=torch.float64)  # (T, T)
            # From a place to the one before it, which the first does not have.
            back, key = torch.diag(places.new_ones(tokens - 1), 1) @ place, place
        else:
            numbers = Places.declare(residual, tokens)
            place, places = numbers.slot, numbers.values
            # 1 - (p - t)^2 is 1 at the place before one's own, and 0 or less elsewhere.
            back, key = numbers.looking_back(1) + constant(0.0, 0.0, 1.0), numbers.keys()
        example = residual.slot("x of the example", self.dims)
        moved = residual.slot("M x", self.dims)
        change = residual.slot("change", self.dims)
        answer = residual.slot("answer", 1)
        pair = Head(query=back, key=key, values={example: x}, says="x_j onto the token of y_j")
        # A third of alpha's digits in each: training moves all weights alike, large or small.
        root = alpha ** (1 / 3)
        begin = relu_products(
            query=root * example, key=root * example, values={moved: root * example},
            says="M_0 x_i = alpha sum_j (x_i . x_j) x_j",
        )  # fmt: skip
        step = relu_products(
            query=moved, key=example, values={change: -moved},
            says="- M S M x_i = - sum_j (M x_i . x_j) M x_j",
        )  # fmt: skip
        update = (
            paired_add(moved + change, moved, says="M x <- 2 M x - M S M x"),
            paired_add(-change, change, says="cleared"),
        )
        read = relu_products(
            query=x, key=moved, values={answer: y}, says="x . M X'y = sum_j (x . M x_j) y_j"
        )
        return Blueprint(
            name="newton-relu", source="fu2023 theorem 1", algorithm="M <- 2M - M S M",
            dims=self.dims, points=self.points, steps=self.steps, residual=residual,
            tokens=Tokens.of_pairs(x, y, positions={place: places}),
            pre=(Layer(heads=(pair,), title="pair x and y"), Layer(heads=begin, title="M_0 x")),
            body=(Layer(heads=step, neurons=update, title="a Newton step"),),
            post=(Layer(heads=read, title="the answer"),),
            answer=answer, attention="relu", mask="full",
        )  # fmt: skip


def safe_start(dims: int, points: int) -> float:
    """An alpha that converges for standard normal inputs, whatever the number of examples.

    Newton's method converges below 2 / ||S||^2. The largest singular value of so many inputs is
    above sqrt(points) + sqrt(dims) + t with a probability below exp(-t^2 / 2); with t = 2 and a
    factor of 1 in the place of 2 that leaves a margin to t = 3.5 at the smallest sizes.
    """
    return (points**0.5 + dims**0.5 + 2) ** -4
