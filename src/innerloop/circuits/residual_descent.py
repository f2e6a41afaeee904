"""Gradient descent by softmax attention, tokens carrying residuals: Gao et al. (2025), lemma A.2.

Tokens hold features f_i and r_i: A f_i - y_i at an example, A f_i at a token that is asked about. A
step A <- A - eta sum_j (A f_j - y_j) f_j' is the same for all of them,

    r_i <- r_i - eta sum_j (f_i . f_j) r_j,   j over the examples,

so A itself is nowhere, any number of outputs takes two heads, and no MLP is needed.

The error. Scores do not change from step to step, nor do their errors: the circuit runs
r <- r - eta (K + E) r with one E. With eta |K| <= 1 residuals never grow, |r| <= sqrt(n) Y. So
after k steps the error of one step at the token that is asked counts at most k times. What a step
leaves at the examples comes to that token m steps later through eta sum_{t < m} f' X (I - eta K)^t:
in a direction with eta times its eigenvalue = x that is |f| sqrt(eta) (1 - (1 - x)^m) / sqrt(x).
"""

import math
from dataclasses import dataclass, replace

from pydantic import Field, FiniteFloat

from innerloop.circuits.blueprint import ErrorBound
from innerloop.circuits.circuit import BoundedSettings, Positive
from innerloop.circuits.leaky import LeakyNetwork, Matrix
from innerloop.circuits.parts import Layer
from innerloop.circuits.residual import Affine, Slot
from innerloop.circuits.softmax_products import (
    EPS,
    LEVEL,
    Form,
    relative_truncation,
    softmax_products,
    typical_rounding,
)
from innerloop.core.errors import ConfigurationError

DEVIATIONS = 6.0
"""Standard deviations of rounding that a bound allows: beyond lie 2 in 10^9 normal numbers."""
_GRID = 200


class DescentSettings(BoundedSettings):
    """What the circuits of gradient descent have in common."""

    step_size: Positive | None = Field(
        default=None,
        description="of half the sum of squares; None: cannot diverge within the bounds",
    )
    form: Form = Field(
        default="tight", description="tight: heads at +c and -c; printed: heads at c and 0"
    )
    scale: Positive | None = Field(
        default=None, description="c; None: the least sum of truncation and rounding"
    )


class RepresentationSettings(DescentSettings):
    """What the circuits through a known network Phi have in common."""

    layers: int = Field(
        default=3, ge=1, le=1000, description="layers of a representation that is drawn"
    )
    seed: int = Field(default=0, ge=0, description="which representation is drawn")
    slope: FiniteFloat = Field(default=0.01, ge=0, le=1, description="of the leaky ReLU below zero")
    representation: tuple[Matrix, ...] | None = Field(
        default=None, description="Phi, one matrix per layer, inputs by outputs; None: drawn"
    )

    @property
    def numbers(self) -> int:
        """How many numbers Phi takes."""
        return self.dims

    @property
    def network(self) -> LeakyNetwork:
        """Phi."""
        if self.representation is not None:
            return LeakyNetwork.read(self.representation, self.slope, self.numbers)
        return LeakyNetwork.draw(self.numbers, self.dims, self.layers, self.slope, self.seed)


@dataclass(frozen=True, slots=True, kw_only=True)
class Descent:
    """The sizes that the steps are made for, and the error that follows from them."""

    feature: float
    """The largest |f|."""
    output: float
    """The largest |y|."""
    examples: int
    """n, the most examples."""
    tokens: int
    steps: int
    form: Form
    step_size: float
    scale: float

    @classmethod
    def choose(
        cls, settings: DescentSettings, *, feature: float, output: float, examples: int, tokens: int
    ) -> "Descent":
        """The step size and the scale of the settings, or else chosen by the bounds.

        The largest eigenvalue of K is at most n |f|^2: the step size is one over that. The scale
        makes truncation, which grows as c^2 (printed: c), and rounding, which falls as 1 / c, least
        after the last step.
        """
        if not feature > 0:
            raise ConfigurationError(
                "the representation is 0 for all inputs: give it weights that are not."
            )
        size = settings.step_size or 1 / (examples * feature**2)
        own = cls(
            feature=feature, output=output, examples=examples, tokens=tokens,
            steps=settings.steps, form=settings.form, step_size=size, scale=1.0,
        )  # fmt: skip
        scale = settings.scale or own.best_scale()
        if scale * feature**2 > LEVEL / 2:
            raise ConfigurationError(
                f"at the scale {scale:.2g} scores reach {scale * feature**2:.2g}, too near to the "
                f"sink's {LEVEL:g}: take a scale below {LEVEL / 2 / feature**2:.2g}, or none."
            )
        return replace(own, scale=scale)

    def best_scale(self) -> float:
        """Where a c^p + b / c is least: c = (b / (p a))^(1 / (p + 1))."""
        power = 2 if self.form == "tight" else 1
        order = self.feature**4 / 6 if self.form == "tight" else self.feature**2 / 2
        steps = max(1, self.steps)
        grows = self._truncation(steps, order)
        falls = self._rounding(steps)
        return (falls / (power * grows)) ** (1 / (power + 1))

    @property
    def condition(self) -> str:
        """What the bound needs: nothing at the default step size, since it follows there."""
        if self.step_size * self.examples * self.feature**2 <= 1 + 1e-12:
            return ""
        return f"the largest eigenvalue of F'F, F the features, at most {1 / self.step_size:.4g}"

    def layer(
        self, *, features: Affine, carried: Slot, sink: Slot, closed: tuple[Affine, Affine]
    ) -> Layer:
        """One step: features and residuals of all tokens, but for the closed ones as examples."""
        heads = softmax_products(
            query=features, key=features, values={carried: -self.step_size * carried}, sink=sink,
            scale=self.scale, form=self.form, closed=closed,
            says="r_i <- r_i - eta sum_j (f_i . f_j) r_j",
        )  # fmt: skip
        return Layer(heads=heads, title="a gradient step")

    def bound(self, step: int) -> ErrorBound:
        """The error after so many steps, on prompts within the bounds and with eta |K| <= 1.

        That holds of all of them at the default step size. Truncation is the worst of all prompts;
        rounding is six standard deviations, with roundings of different weights independent.
        """
        order = relative_truncation(
            largest=self.feature**2, tokens=self.tokens, scale=self.scale, form=self.form
        )
        # Copies, additions to r, and the learner's own rounding.
        plain = (step + 1) * EPS * max(1.0, self.output)
        return ErrorBound(
            truncation=self._truncation(step, order),
            rounding=self._rounding(step) / self.scale + plain,
        )

    def _truncation(self, step: int, order: float) -> float:
        """Every |E_ij| is at most order |f|^2; n of them at a token, n n at all examples."""
        each = self.step_size * order * self.feature**2 * self.examples * self.output
        return each * (step + math.sqrt(self.examples) * self._reach(step))

    def _rounding(self, step: int) -> float:
        """E has independent entries: E r is along one direction of the examples as at one of them.

        What the asked token's own row adds and what comes from the examples' rows is independent,
        too, while either is the same at every step.
        """
        each = typical_rounding(examples=self.examples, form=self.form)
        each *= DEVIATIONS * self.step_size * math.sqrt(self.examples) * self.output
        return each * math.hypot(step, self._reach(step))

    def _reach(self, step: int) -> float:
        """How much an error of the examples, made at every step, counts at the token asked.

        In a direction of K with eta times its eigenvalue = x: the sum of 1 - (1 - x)^m over m < k,
        by |f| sqrt(eta / x). The worst x is looked for on a grid.
        """
        if step < 2:
            return 0.0
        grid = [step ** (-2 * i / _GRID) for i in range(_GRID + 1)]
        worst = max((step - (1 - (1 - x) ** step) / x) / math.sqrt(x) for x in grid)
        return self.feature * math.sqrt(self.step_size) * worst
