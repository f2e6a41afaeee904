"""Gradient descent over the examples in turn: Akyurek et al. (2022), theorem 1."""

from math import sqrt

import torch
from pydantic import Field, FiniteFloat, model_validator

from innerloop.circuits.blueprint import ErrorBound
from innerloop.circuits.circuit import Positive
from innerloop.circuits.primitives import Group, Mov, Mul, Primitive, clear
from innerloop.circuits.program import Register, x_place, y_place
from innerloop.circuits.program_settings import ProgramSettings


class Sgd(ProgramSettings):
    """w <- w - step_size (x (x.w - y) + penalty w), one example per layer, from w = 0.

    Every token carries w and its own prediction f = x.w. Example j moves f by - step_size (x.x_j)
    (f_j - y_j), and the token y_j, which has taken over x_j, carries both f_j and y_j. Inputs do
    not change, so the layer before has multiplied x.x_j already: a step is one layer. Tokens that
    do not see y_j look at the start token, whose zeros leave them as they are.
    """

    name = "sgd"
    source = "akyurek2022 theorem 1"
    algorithm = "w <- w - step_size (x (x.w - y) + penalty w)"

    step_size: Positive | None = Field(
        default=None, description="None: 1 / (largest_input^2 + penalty)"
    )
    penalty: FiniteFloat = Field(default=0.0, ge=0, description="of |w|^2 / 2, at every example")

    @model_validator(mode="after")
    def _check_step_size(self) -> "Sgd":
        most = 2 / (self.input_bound**2 + self.penalty)
        if self.rate > most:
            raise ValueError(
                f"a step_size of {self.rate:.3g} makes steps grow at inputs of length "
                f"{self.input_bound:.3g}: take at most {most:.3g}, or a smaller largest_input"
            )
        return self

    @property
    def rate(self) -> float:
        """The step size."""
        safe = 1 / (self.input_bound**2 + self.penalty)
        return safe if self.step_size is None else self.step_size

    @property
    def largest_prediction(self) -> float:
        """A bound on |x.w|, for all inputs and outputs within theirs.

        With a = step_size |x|^2, b = 1 - step_size penalty and e = x.w - y, a step changes |w|^2 by
        step_size (- (2b - a) e^2 - 2b e y) - (1 - b^2) |w|^2, so by at most step_size b^2 y^2 /
        (2b - a); where that is much, it adds at most step_size |x y| to |w|.
        """
        x, y, rate = self.input_bound, self.output_bound, self.rate
        straight = x * self.steps * rate * x * y
        if self._room <= 0:
            return straight
        return min(straight, x * y * self._kept * sqrt(self.steps * rate / self._room))

    @property
    def mean_error(self) -> float:
        """A bound on the root of the mean of e^2 over all steps: |w|^2 is never below 0."""
        largest = self.output_bound + self.largest_prediction
        if self._room <= 0:
            return largest
        return min(largest, 2 * self.output_bound * self._kept / self._room)

    @property
    def _kept(self) -> float:
        return 1 - self.rate * self.penalty

    @property
    def _room(self) -> float:
        return 2 * self._kept - self.rate * self.input_bound**2

    def groups(self) -> tuple[Group, ...]:
        """Inputs onto y tokens, and x.x_0; then one layer per example."""
        return (self._prepare(), *(self._step(j) for j in range(self.steps)))

    def registers(self) -> tuple[Register, ...]:
        """Weights and predictions, what the next step takes, and which tokens see an example."""
        d, x, y = self.dims, self.input_bound, self.output_bound
        eye = torch.eye(d, dtype=torch.float64)  # (d, d)
        but_start = (torch.arange(2 * self.points)[:, None] > 0).double()  # (T, 1)
        return (
            Register(name="x", size=d, largest=x, inputs=eye),
            Register(name="y", size=1, largest=y, outputs=eye[:1, :1]),
            Register(name="f", size=1, largest=self.largest_prediction),
            Register(name="w", size=d, largest=self.largest_prediction / x),
            Register(name="x.x_j", size=1, largest=x**2),
            Register(name="x_j", size=d, largest=x),
            Register(name="next x_j", size=d, largest=x),
            Register(name="error", size=1, largest=y + self.largest_prediction),
            Register(name="example", size=1, largest=1.0, places=but_start),
            Register(name="sees it", size=1, largest=1.0),
        )

    def _prepare(self) -> Group:
        d = self.dims
        return (
            Mov(source="x", to="x", back=1, add=True),  # at x tokens: the token before holds none
            Mov(source="x", to="next x_j", place=x_place(0), add=True),
            Mul(left="next x_j", right="x", to="x.x_j", shape=(1, d, 1), add=True),
            *clear("next x_j"),
        )

    def _step(self, j: int) -> Group:
        d, here = self.dims, y_place(j)
        parts: list[Primitive] = [
            Mov(source="x", to="x_j", place=here, add=True),
            Mov(source="f", to="error", place=here, add=True),
            Mov(source="y", to="error", place=here, factor=-1.0, add=True),
            Mul(left="x.x_j", right="error", to="f", shape=(1, 1, 1), factor=-self.rate, add=True),
            Mul(left="x_j", right="error", to="w", shape=(d, 1, 1), factor=-self.rate, add=True),
            *clear("x_j", "error"),
        ]
        if self.penalty:
            # Only where the example is seen: "example" is 0 at the start token.
            decay = -self.rate * self.penalty
            parts += [
                Mov(source="example", to="sees it", place=here, add=True),
                Mul(left="f", right="sees it", to="f", shape=(1, 1, 1), factor=decay, add=True),
                Mul(left="w", right="sees it", to="w", shape=(d, 1, 1), factor=decay, add=True),
                *clear("sees it"),
            ]
        if j + 1 < self.steps:
            parts += [
                Mov(source="x", to="next x_j", place=x_place(j + 1), add=True),
                Mul(left="next x_j", right="x", to="x.x_j", shape=(1, d, 1)),
                *clear("next x_j"),
            ]
        return tuple(parts)

    def error_after(self, step: int, unit: ErrorBound) -> ErrorBound:
        """What products of operands within their bounds leave in f, over so many steps.

        A step multiplies x.x_j with the error, both x.x_j and the product being off, and f with the
        penalty. Truncations add up; they are at most proportional to the error. Roundings are
        taken to be independent: they add up as the root of their number. Those of the d products
        of x.x_j are proportional to the larger operand, and the squares of both inputs add up to
        2 at most, whatever d is. What an error of f_j does to later steps is left out: it comes
        back times step_size x.x_j, which is of either sign (heuristic).
        """
        gain = self.rate * self.input_bound**2
        own, inner = gain * (self.output_bound + self.largest_prediction), gain * self.mean_error
        decay = self.rate * self.penalty * self.largest_prediction
        return ErrorBound(
            step * unit.truncation * (2 * inner + decay),
            sqrt(step * (own**2 + 2 * inner**2 + decay**2)) * unit.rounding,
        )
