"""Gradient descent with linear self-attention, the construction that the others build on."""

import torch
from pydantic import Field

from innerloop.circuits.blueprint import Blueprint, Tokens
from innerloop.circuits.circuit import CircuitSettings, Positive
from innerloop.circuits.parts import Head, Layer
from innerloop.circuits.residual import Residual


class LinearSettings(CircuitSettings):
    """Settings of a circuit that runs gradient descent by linear attention."""

    step_size: Positive | None = Field(
        default=None, description="of the sum of squares; None: safe for standard normal inputs"
    )

    @property
    def rate(self) -> float:
        """The step size; by default 1 / L for standard normal inputs, of any number of examples.

        The largest eigenvalue of X'X is above (sqrt(points) + sqrt(dims) + t)^2 with a probability
        below exp(-t^2 / 2), here for t = 2; gradient descent converges below 2 / L.
        """
        return self.step_size or (self.points**0.5 + self.dims**0.5 + 2) ** -2


class LinearAttention(LinearSettings):
    """w <- w - step_size X'(Xw - y) from 0, exactly: one layer of one head per step.

    Tokens carry no weights but the residuals that these leave: r_j = y_j - w . x_j at examples, and
    -w . x at the asked x, which starts at 0. A step is r_i <- r_i - step_size sum_j (x_i . x_j)
    r_j, for all of them, and so the answer is -r. The sum over the examples of other prefixes would
    be another one: the mask is full, and each prefix a prompt of its own.
    """

    def blueprint(self) -> Blueprint:
        """Pair x and y; a step."""
        tokens = 2 * self.points - 1
        residual = Residual()
        x = residual.slot("x", self.dims)
        left = residual.slot("residual", 1)
        place = residual.slot("place", tokens)
        example = residual.slot("x of the example", self.dims)
        # (T, T): from the place of a token to the one before it, which the first does not have.
        back = torch.diag(torch.ones(tokens - 1, dtype=torch.float64), 1)
        pair = Head(
            query=back @ place, key=place, values={example: x},
            says="x_j onto the token of y_j: scores are 1 at the place before, 0 elsewhere",
        )  # fmt: skip
        step = Head(
            query=-self.rate * (x + example), key=example, values={left: left},
            says="r_i <- r_i - step_size sum_j (x_i . x_j) r_j",
        )  # fmt: skip
        return Blueprint(
            name="linear-attention", source="von Oswald et al. 2023, proposition 1",
            algorithm="w <- w - step_size X'(Xw - y)",
            dims=self.dims, points=self.points, steps=self.steps, residual=residual,
            tokens=Tokens.of_pairs(
                x, left, positions={place: torch.eye(tokens, dtype=torch.float64)}
            ),
            pre=(Layer(heads=(pair,), title="pair x and y"),),
            body=(Layer(heads=(step,), title="a gradient step"),),
            answer=-left, attention="linear", mask="full",
        )  # fmt: skip
