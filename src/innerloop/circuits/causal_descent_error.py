"""How large the numbers of causal gradient descent can be, and how far softmax is from it."""

from dataclasses import dataclass
from math import exp, log, prod
from typing import Literal

from innerloop.circuits.blueprint import ErrorBound
from innerloop.circuits.softmax_products import EPS, LEVEL, WEIGHT_ROUNDING

Form = Literal["antithetic", "sink", "printed-scale"]
STEP = (1, 2)
"""The multiples of c of the antithetic heads of a step."""
READ = (1, 2, 3, 4)
"""The same where the answer is read: two heads in each of two layers."""


def extrapolation(multiples: tuple[int, ...]) -> dict[int, float]:
    """What f(m c) / m of an odd function is weighted by, so that the orders after the first cancel.

    f(m c) / (m c) is a function of m^2 c^2, taken to 0 by the polynomial through these points.
    """
    return {
        m: prod(other**2 / (other**2 - m**2) for other in multiples if other != m)
        for m in multiples
    }


READ_ROUNDING = EPS * sum(2 * abs(factor) / m for m, factor in extrapolation(READ).items())
"""What is divided by the scale of the reading: its heads' weights are off by EPS of themselves."""


@dataclass(frozen=True, kw_only=True)
class DescentSizes:
    """How large all numbers can be, the scales that follow from it, and the error that is left.

    The step size is at most 2 / L, so that neither residuals nor errors grow: the root mean square
    of the residuals is at most Y, the largest |y|. Roundings are taken to be independent of each
    other, and add up as the root of squares: this is a heuristic, all else a bound.
    """

    form: Form
    largest_input: float
    """R."""
    largest_output: float
    """Y."""
    examples: int
    """N, the most of a prefix."""
    average: bool
    step_size: float
    steps: int
    given: float | None
    """c, where it is not chosen here."""

    @property
    def weight(self) -> int:
        """How many examples a gradient adds up."""
        return 1 if self.average else self.examples

    @property
    def scale(self) -> float:
        """The c at which a step's truncation and rounding are least together."""
        steps = max(1, self.steps)
        return self.given or _best(self.order, steps * self.truncation, steps**0.5 * self.rounding)

    @property
    def order(self) -> int:
        """The power of c in the truncation of a gradient."""
        return {"antithetic": 4, "sink": 2, "printed-scale": 1}[self.form]

    @property
    def truncation(self) -> float:
        """What is multiplied by it: from the next term of the series, with mean r^2 <= Y^2.

        No residual is above sqrt(N) Y, so that the mean of |r|^k is at most sqrt(N)^(k-2) Y^k. In
        the antithetic form the fifth-order term of sum sinh / sum cosh is left, times -4.
        """
        root, outputs = self.examples**0.5, self.largest_output
        if self.form == "antithetic":
            terms = root**3 / 120 + root / 12 + max(1 / 4, root**2 / 24)
            return 4 * terms * outputs**5 * self.largest_input
        terms = root * outputs**3 / 6 if self.form == "sink" else outputs**2 / 2
        return self.weight * terms * self.largest_input

    @property
    def level(self) -> float:
        """The sink's logit for one example; for N it is C, beyond which floats are wider apart."""
        return LEVEL - log(self.examples) if self.average else LEVEL

    @property
    def leak(self) -> float:
        """What tokens that are no examples add to the normaliser beside a sink, in a gradient."""
        if self.form == "antithetic":
            return 0.0
        tokens = 3 if self.average else 2 * self.examples + 1
        return tokens * exp(-self.level) * self.weight * self.largest_output * self.largest_input

    @property
    def rounding(self) -> float:
        """What is divided by c: a weight is off by half the spacing of floats at its largest logit.

        Beside a sink c r - C and -c r - C are rounded by opposite amounts, so that errors of heads
        add up (printed: the head at 0 has none); those of two tokens add up as the root of squares.
        Examples may be equal, and their errors with them: many of a sum add up. Steps count as
        independent: true while residuals move by more than the spacing of floats at C over c, some
        1e-8, a step.
        """
        if self.form == "antithetic":
            factors = sum((factor / m) ** 2 for m, factor in extrapolation(STEP).items()) ** 0.5
            # exp, a sum and a quotient: a whole spacing. Two tokens of weight 1 / 2.
            return factors * EPS * self.largest_input / 2**0.5
        return WEIGHT_ROUNDING * self.weight * self.largest_input

    @property
    def read_scale(self) -> float:
        """The same for the answer."""
        return _best(2 * len(READ), self._read_truncation(self.steps), READ_ROUNDING)

    def bound(self, step: int) -> ErrorBound:
        """After so many steps: gradients are off by so much each, then the answer is."""
        c, read = self.scale, self.read_scale
        moved = self.largest_input * self.step_size
        gradient = self.truncation * c**self.order + self.leak
        return ErrorBound(
            truncation=step * moved * gradient
            + self._read_truncation(step) * read ** (2 * len(READ)),
            rounding=step**0.5 * moved * self.rounding / c + READ_ROUNDING / read,
        )

    def _read_truncation(self, step: int) -> float:
        """The error of w . x, as a part of it, is this times c^8.

        |w| is at most Y sqrt(step_size k) after k steps of up to 1 / L, as an eigenvalue of at most
        1 - (1 - z)^k <= sqrt(k z) shows; k >= 4 covers those of up to 2 / L. The next coefficient
        of tanh(z) / z is 62 / 2835, and that times the product of all m^2 is left.
        """
        longest = (max(4, step) * self.weight * self.step_size) ** 0.5 * self.largest_output
        size = longest * self.largest_input / 2
        return 62 / 2835 * prod(m**2 for m in READ) * size ** (2 * len(READ))


def _best(order: int, truncation: float, rounding: float) -> float:
    """The c at which truncation c^order + rounding / c is least."""
    return (rounding / (order * truncation)) ** (1 / (order + 1))
