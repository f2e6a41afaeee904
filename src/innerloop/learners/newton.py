"""Newton's method for the inverse of X'X, also known as the Newton-Schulz iteration."""

from dataclasses import dataclass as plain_dataclass
from dataclasses import replace
from typing import Annotated, Literal

import numpy as np
import torch
from pydantic import Field, FiniteFloat
from pydantic.dataclasses import dataclass
from torch import Tensor

from innerloop.core.config import STRICT
from innerloop.core.learner import Traits
from innerloop.core.prompt import Prompt
from innerloop.core.state_parts import MovingPart
from innerloop.learners.gradient_descent import SPAN, squared_norms
from innerloop.learners.prefix import LinearLearner, products_before, smaller_grams
from innerloop.learners.units import in_units, input_units

NULL = 4 * torch.finfo(torch.float64).eps
"""Times i + d: eigenvalues of S below this part of the largest are rounding, and count as zero.

Forming S and decomposing it leaves errors of at most about (i + 7 d) eps / 2 of the largest.
"""
COARSE_NULL = (4 * torch.finfo(torch.float32).eps) ** 2
"""The same for prompts of a coarser type: inputs in a subspace are in it up to their own rounding,
which must not pass for a direction. OLS draws the same line, at the root of this."""


@plain_dataclass(frozen=True, slots=True, eq=False)
class NewtonState:
    """M, S = X'X and X'y of each prefix, in the eigenvectors that M and S share; r = min(n, d).

    Of a prompt with extreme inputs these are M u^2, S / u^2 and X'y / u^2, u its unit
    (`input_units`): M S and M X'y are the same.
    """

    inverse: Tensor
    """(B, n, r) eigenvalues of M: what moves."""
    gram: Tensor
    """(B, n, r) eigenvalues of S; zero outside the span of the inputs."""
    moment: Tensor
    """(B, n, r, k) X'y."""
    basis: Tensor
    """(B, n, r, d) the eigenvectors, one per row; zero where S is."""

    def matrices(self) -> Tensor:
        """M itself: (B, n, d, d)."""
        return self.basis.mT @ (self.inverse[..., None] * self.basis)


@dataclass(frozen=True, config=STRICT)
class Newton(LinearLearner[NewtonState]):
    """Newton's method for the inverse of X'X.

    M <- 2M - M S M from M = alpha S, with S = X'X; the weights are M X'y (Fu et al. 2023, eq. 8).
    alpha is 1 / ||S S'||_F by default ("frobenius"). The paper prints 2 / ||S S'||_2 ("paper"),
    which stalls: it sends the first eigenvalue of M to zero, and rounding decides what becomes of
    it some fifty steps later. A number is alpha itself, the same for all prefixes, as a circuit has
    it; the iteration diverges where it is more than 2 / ||S S'||_2. Without inputs M is zero.

    Every M is a polynomial in S and shares its eigenvectors. So S is decomposed once, and each step
    acts on the eigenvalues: m <- 2m - m s m. These are the same iterates as those of matrix
    products, without their rounding: there, what falls outside the span of the inputs doubles at
    every step, and swamps M about sixty steps beyond convergence. Here it is zero and stays so, and
    a converged eigenvalue stands still. What it converges to is least squares up to eps times the
    condition number of S, since S is formed.
    """

    steps: int = Field(ge=0, description="steps to take")
    start: Literal["frobenius", "paper"] | Annotated[FiniteFloat, Field(gt=0)] = Field(
        default="frobenius", description="alpha of M = alpha S: frobenius, paper, or a number"
    )

    traits = Traits(order_invariant=True, rotation_equivariant=True, linear_in_y=True)

    def init(self, prompt: Prompt) -> NewtonState:
        """S and X'y in the eigenvectors of S, and M = alpha S."""
        shape = (prompt.batch, prompt.points, min(prompt.points, prompt.dims))
        gram = _zeros(shape, prompt.xs.device)  # (B, n, r)
        moment = _zeros((*shape, prompt.outputs), prompt.xs.device)  # (B, n, r, k)
        basis = _zeros((*shape, prompt.dims), prompt.xs.device)  # (B, n, r, d)
        units = self._units(prompt)  # (B,)
        xs = in_units(prompt.xs.double(), units)  # (B, n, d)
        sums = products_before(xs, prompt.ys.double()) / units[:, None, None, None]  # (B, n, d, k)
        for i, smaller in smaller_grams(xs):
            values, vectors = torch.linalg.eigh(smaller)  # (B, r_i), (B, r_i, r_i)
            null = values <= _null(prompt, i) * values[:, -1:]  # (B, r_i)
            values = values.masked_fill(null, 0.0)  # (B, r_i)
            rows = vectors.mT  # (B, r_i, r_i)
            if i < prompt.dims:
                # X' turns eigenvectors of XX' into those of X'X, of length sqrt(s).
                lengths = values.sqrt().masked_fill(null, torch.inf)  # (B, r_i)
                rows = (rows / lengths[..., None]) @ xs[:, :i]  # (B, r_i, d)
            size = values.shape[1]
            gram[:, i, :size], basis[:, i, :size] = values, rows
            moment[:, i, :size] = rows @ sums[:, i]  # (B, r_i, k)
        return NewtonState(self._start(gram, units), gram, moment, basis)

    def step(self, prompt: Prompt, state: NewtonState, k: int) -> NewtonState:
        """One Newton step of every prefix."""
        factor = state.gram * state.inverse  # (B, n, r)
        return replace(state, inverse=factor.neg_().add_(2).mul_(state.inverse))

    def weights_of(self, state: NewtonState) -> Tensor:
        """M X'y."""
        products = state.inverse[..., None] * state.moment  # (B, n, r, k)
        return (products.mT @ state.basis).mT  # (B, n, d, k)

    @property
    def moving(self) -> MovingPart[NewtonState]:
        """The eigenvalues of M: their norm is M's.

        They cannot be replaced: zero is a fixed point, too, and extrapolation ends there as often
        as at S^-1.
        """
        return MovingPart(
            self.name,
            lambda state: state.inverse,
            refusal="from most places it ends at another fixed point than the inverse. Run it "
            "without acceleration: its convergence is quadratic.",
        )

    def overflow_cause(self, prompt: Prompt) -> str | None:
        """Whether a start that was given is too large."""
        if isinstance(self.start, str):
            return None
        units = self._units(prompt)  # (1,)
        largest = squared_norms(in_units(prompt.xs.double(), units)).amax()  # ()
        limit = float(2 / largest / largest / units / units / units / units)
        if self.start <= limit:
            return None
        return (
            f"start is {self.start:g} and Newton's method diverges beyond 2 / |S S'|, here "
            f"{limit:.1e}; take a smaller one, or 'frobenius'"
        )

    def _units(self, prompt: Prompt) -> Tensor:
        """What inputs are measured in: (B,)."""
        units = input_units(self.name, prompt, span=SPAN)  # (B,)
        # A number as start is for inputs as they are: where they are tiny, it leaves M at zero.
        return units if isinstance(self.start, str) else units.clamp(min=1)

    def _start(self, gram: Tensor, units: Tensor) -> Tensor:
        """The eigenvalues of alpha S: (B, n, r)."""
        if not isinstance(self.start, str):
            return (self.start * units**4)[:, None, None] * gram
        largest = gram.amax(dim=2, keepdim=True)  # (B, n, 1)
        largest = largest.masked_fill(largest == 0, torch.inf)  # (B, n, 1)
        # Fourth powers of inputs overflow long before the inputs: scale first.
        scaled = gram / largest  # (B, n, r)
        if self.start == "paper":
            return 2 * scaled / largest
        norm = scaled.square().norm(dim=2, keepdim=True).clamp(min=1)  # (B, n, 1)
        return scaled / norm / largest


def _zeros(shape: tuple[int, ...], device: torch.device) -> Tensor:
    """Zeros in float64; numpy asks the system for huge pages, which are four times as fast."""
    return torch.from_numpy(np.zeros(shape)).to(device)


def _null(prompt: Prompt, examples: int) -> float:
    """The part of the largest eigenvalue below which the others count as zero."""
    least = NULL * (examples + prompt.dims)
    return least if prompt.xs.dtype == torch.float64 else max(least, COARSE_NULL)
