"""How large the numbers of Newton's method can be, and how far softmax is from it."""

from dataclasses import dataclass

import torch
from torch import Tensor

from innerloop.circuits.blueprint import ErrorBound
from innerloop.circuits.softmax_products import EPS, WEIGHT_ROUNDING, Form, relative_truncation

TAIL = 3.0
"""Standard deviations of rounding that are allowed for where nothing else leaves any room."""


@dataclass(frozen=True, kw_only=True)
class NewtonSizes:
    """How large all numbers can be, the scales that follow from it, and the error that is left.

    For an eigenvalue s of S let t = alpha s^2, at most 1. M S has the eigenvalue p(t) = 1 - (1 -
    t)^(2^k), and ||X M||, a bound on |M x_j|, is the largest (alpha / t)^(1/4) p(t). P = X M X',
    which holds all scores, is at most 1, and so are its powers entry by entry, which are the errors
    of products: X M is off by c^2 / 6 (P o P o P) X M in the tight form, by c / 2 (P o P) X M in
    the printed one. A step multiplies M by 2 - p, and an error of X M by no more.

    Roundings are taken to be independent of each other and of the prompt, and add up as the root of
    squares: this is a heuristic, all else a bound to first order.
    """

    largest_input: float
    """R."""
    largest_output: float
    """Y."""
    alpha: float
    dims: int
    examples: int
    """N, the most of a prompt."""
    form: Form
    given: float | None
    """c, where it is not chosen here."""

    @property
    def scale(self) -> float:
        """The c with the least error where scores are at most 1: c^2 / 6, or c / 2, + rounding.

        The scores x . M x_j of the answer can be larger, but seldom are: a c for the worst of them
        would cost digits at all others.
        """
        if self.given is not None:
            return self.given
        if self.form == "tight":
            return (3 * self._rounding) ** (1 / 3)
        return (2 * self._rounding) ** 0.5

    @property
    def outputs(self) -> float:
        """The length of all y together."""
        return self.examples**0.5 * self.largest_output

    def moved(self, step: int) -> float:
        """||X M|| after so many steps."""
        return float(self._sizes(self._parts(step), step).max())

    def bound(self, step: int) -> ErrorBound:
        """After so many steps, which take one product more."""
        truncation, rounding = self._products(step)
        read = self._read(step)
        return ErrorBound(truncation + read.truncation, rounding + read.rounding)

    def _products(self, step: int) -> tuple[float, float]:
        """What truncation and rounding of all products before the last make of x . M X'y.

        The first product is that of sqrt(alpha) x with itself: it has the error of values that are
        larger than M_0 x, by 1 / sqrt(t). That lasts where t is small, so in one direction of y
        or in few, in which y counts as one of its N numbers; the same heuristic as in `_sums`.
        """
        part = self._parts(step)  # (m,)
        size = self.largest_input * self.largest_output * self._sizes(part, step)  # (m,)
        largest = min(1.0, self.alpha**0.5 * self.largest_input**2)
        first = self._order(self.scale, largest) / part.sqrt()  # (m,)
        order, weights = torch.full_like(part, self.leak), torch.zeros_like(part)  # (m,), (m,)
        for k in range(step):
            grown = 1 / (2 - self._reached(part, k))  # (m,)
            order = order + (self._order(self.scale, 1.0) + self.leak) * grown  # (m,)
            weights = weights + grown.square()  # (m,)
        truncation = (size * (first + self.examples**0.5 * order)).max()
        weights = (1 / part + self.examples * weights).sqrt()  # (m,)
        rounding = self._rounding / self.scale * (size * weights).max()
        return float(truncation), float(rounding) + self._sums(step)

    def _sums(self, step: int) -> float:
        """What the sums of the heads, of the size of M X'1 / c, leave outside the span of X.

        It doubles with every step where S has an eigenvalue too small to be inverted yet, in that
        one of N times d directions.
        """
        each = EPS / 24**0.5 * self.examples**0.5 / self.scale
        sizes = [self.alpha**0.25, *(self.moved(k) for k in range(step))]
        grown = sum((2.0 ** (step - k) * size) ** 2 for k, size in enumerate(sizes)) ** 0.5
        return self.largest_input * self.largest_output / self.dims**0.5 * each * grown

    def _read(self, step: int) -> ErrorBound:
        """Of the last sum: the squares of the scores add up to the square of their bound."""
        c, largest = self.scale, self.largest_input * self.moved(step)
        return ErrorBound(
            truncation=largest * self.largest_output * self._order(c, largest)
            + largest * self.outputs * self.leak,
            rounding=TAIL * self.outputs * self._rounding / c,
        )

    def _sizes(self, part: Tensor, step: int) -> Tensor:
        """M(s) sqrt(s): (m,)."""
        return (self.alpha / part) ** 0.25 * self._reached(part, step)

    @staticmethod
    def _parts(step: int) -> Tensor:
        """Values of alpha s^2 to look at, down to where M still doubles: (m,)."""
        return torch.linspace(0, -(step + 8), 20 * (step + 8), dtype=torch.float64).exp2()

    @staticmethod
    def _reached(part: Tensor, step: int) -> Tensor:
        """M(s) s, which goes to 1: (m,)."""
        return -torch.expm1(2.0**step * torch.log1p(-part))

    @property
    def leak(self) -> float:
        """What other tokens than the sink add to the normaliser of a head."""
        return self._order(0.0, 0.0, 2 * self.examples + 2)

    @property
    def _rounding(self) -> float:
        """Of a weight, times c: two heads, halved; or one whose logits are rounded."""
        return WEIGHT_ROUNDING / (6 if self.form == "tight" else 3) ** 0.5

    def _order(self, scale: float, largest: float, tokens: int = 0) -> float:
        return relative_truncation(largest=largest, tokens=tokens, scale=scale, form=self.form)
