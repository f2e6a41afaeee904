"""Ridge regression by Sherman-Morrison updates: Akyurek et al. (2022), theorem 2."""

from math import sqrt

import torch
from pydantic import Field

from innerloop.circuits.blueprint import ErrorBound
from innerloop.circuits.circuit import Positive
from innerloop.circuits.primitives import Div, Group, Mov, Mul, clear, scaled
from innerloop.circuits.program import Register, y_place
from innerloop.circuits.program_settings import ProgramSettings


class ShermanMorrison(ProgramSettings):
    """A <- A - A x (A x)' / (1 + x.A x) from A = I / penalty: ridge after every example.

    No token holds A, which would be d^2 numbers: each carries A x of its own x, as well as c = 1 +
    x.A x, w and its prediction f. Example j has u = A x_j, c_j and the surprise y_j - f_j, all on
    the token y_j. With t = u.x and p = t / c_j,

        A x <- A x - p u,  c <- c - p t,  f <- f + p surprise,  w <- w + (u / c_j) surprise:

    three layers, one for t, one for the division, one for the rest. c never has to be multiplied
    out again, so that c_j can be squared, which the division needs, in the layer of t.
    """

    name = "sherman-morrison"
    source = "akyurek2022 theorem 2"
    algorithm = "A <- A - A x (A x)' / (1 + x.A x), w = A X'y"

    penalty: Positive = Field(default=1.0, description="of |w|^2")
    largest_residual: Positive | None = Field(
        default=None,
        description="of an example once it is taken in, for the bound; None: 2 sqrt(penalty)",
    )

    @property
    def largest_prediction(self) -> float:
        """A bound on |x.w|: the largest singular value of A X' is at most 1 / (2 sqrt(penalty))."""
        return self.input_bound * sqrt(self.steps) * self.output_bound / (2 * sqrt(self.penalty))

    @property
    def largest_variance(self) -> float:
        """The bound on x.A x."""
        return self.input_bound**2 / self.penalty

    @property
    def condition(self) -> str:
        """A bound on residuals."""
        return f"residuals |y - w.x| after their example at most {self.residual:.4g}"

    def groups(self) -> tuple[Group, ...]:
        """Inputs onto y tokens, A x and c; then three layers per example."""
        return (self._prepare(), *(group for j in range(self.steps) for group in self._step(j)))

    def registers(self) -> tuple[Register, ...]:
        """What a token carries of its own x, and what it takes of an example."""
        d, x, y, variance = self.dims, self.input_bound, self.output_bound, self.largest_variance
        eye = torch.eye(d, dtype=torch.float64)  # (d, d)
        one = torch.ones(1, dtype=torch.float64)  # (1,)
        return (
            Register(name="x", size=d, largest=x, inputs=eye),
            Register(name="y", size=1, largest=y, outputs=one[None]),
            Register(name="f", size=1, largest=self.largest_prediction),
            Register(name="w", size=d, largest=self.largest_prediction / x),
            Register(name="A x", size=d, largest=x / self.penalty),
            Register(name="c", size=1, largest=1 + variance, constant=one),
            Register(name="u", size=d, largest=x / self.penalty),
            # |A x|^2 <= x.A x / penalty, and sqrt(v) / (1 + v) <= 1 / 2
            Register(name="u / c_j", size=d, largest=0.5 / sqrt(self.penalty)),
            Register(name="c_j", size=1, largest=1 + variance),
            Register(name="square of c_j", size=1, largest=1 + variance),
            Register(name="surprise", size=1, largest=y + self.largest_prediction),
            Register(name="t", size=1, largest=variance),
            # |u.x|^2 <= (x_j.A x_j) (x.A x)
            Register(name="p", size=1, largest=sqrt(variance) / 2),
        )

    def _prepare(self) -> Group:
        d, over = self.dims, 1 / self.penalty
        return (
            Mov(source="x", to="x", back=1, add=True),  # at x tokens: the token before holds none
            scaled("x", "A x", over, d, add=True),
            Mul(left="x", right="x", to="c", shape=(1, d, 1), factor=over, add=True),
        )

    def _step(self, j: int) -> tuple[Group, Group, Group]:
        d, here, over = self.dims, y_place(j), 1 / (1 + self.largest_variance)
        square = "square of c_j" if self.norm == "pre" else None
        read: Group = (
            Mov(source="A x", to="u", place=here, add=True),
            Mov(source="c", to="c_j", place=here, add=True),
            Mov(source="y", to="surprise", place=here, add=True),
            Mov(source="f", to="surprise", place=here, factor=-1.0, add=True),
            Mul(left="u", right="x", to="t", shape=(1, d, 1), add=True),
        )
        if square is not None:
            one = (1, 1, 1)
            read += (Mul(left="c_j", right="c_j", to=square, shape=one, factor=over, add=True),)
        divide: Group = tuple(
            Div(
                value=value, divisor="c_j", to=to, square=square, square_factor=over, add=True
            )
            for value, to in (("t", "p"), ("u", "u / c_j"))
        )  # fmt: skip
        write: Group = (
            Mul(left="p", right="surprise", to="f", shape=(1, 1, 1), add=True),
            Mul(left="u / c_j", right="surprise", to="w", shape=(d, 1, 1), add=True),
            Mul(left="u", right="p", to="A x", shape=(d, 1, 1), factor=-1.0, add=True),
            Mul(left="t", right="p", to="c", shape=(1, 1, 1), factor=-1.0, add=True),
            *clear("u", "u / c_j", "c_j", "square of c_j", "surprise", "t", "p"),
        )
        return read, divide, write

    @property
    def residual(self) -> float:
        """The bound on residuals."""
        return self.largest_residual or 2 * sqrt(self.penalty)

    def error_after(self, step: int, unit: ErrorBound) -> ErrorBound:
        """What products of operands within their bounds leave in f, over so many steps.

        Of a step: the product p surprise; that of t, times surprise / c_j; and, from the second
        on, those that A x and c have carried along, times |x| surprise / c_j and p surprise / c_j.
        Truncations add up, roundings as the root of their number, as in `Sgd`.

        Surprise / c_j is the residual after the example: where the penalty is right, its size is
        that of the noise, sqrt(penalty). Heuristic: p is taken to be at most 1, as it is where
        the variances x.A x of tokens are alike. What is carried is taken not to grow, and of its
        truncations, of ninth order in operands that become smaller, the first to count.
        """
        x, root, residual = self.input_bound, sqrt(self.penalty), self.residual
        own = x / (2 * root) * (self.output_bound + self.largest_prediction)
        t = x**2 / self.penalty * residual
        carried = x**3 / (2 * root**3) * residual
        later = max(0, step - 1)
        return ErrorBound(
            unit.truncation * (step * (own + t) + 2 * min(1, later) * carried),
            unit.rounding * sqrt(step * (own**2 + 2 * t**2) + 2 * later * carried**2),
        )
