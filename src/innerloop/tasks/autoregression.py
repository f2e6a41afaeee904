"""Time series driven through a representation that all prompts share."""

from dataclasses import dataclass
from functools import lru_cache

import torch
from pydantic import Field, FiniteFloat
from torch import Tensor

from innerloop.core.errors import ConfigurationError
from innerloop.core.prompt import Prompt
from innerloop.core.task import PromptForm, Task
from innerloop.tasks.draws import normal
from innerloop.tasks.function import squared
from innerloop.tasks.representation import Representation, fixed_representation

GAIN = 0.5
"""g: a random history of variance v per coordinate gives A Phi a variance of g^2 v."""
STATIONARY_VARIANCE = 1 / (1 - GAIN**2)
"""v per coordinate, for noise of variance 1, where v = g^2 v + 1 with this g."""
LARGEST_GROWTH = 0.9
"""Matrices under which the series without noise shrinks more slowly are drawn again."""
LARGEST_TOKEN = 20
"""So are series with a token whose root mean square exceeds so many standard deviations."""

_STARTS, _STEPS = 4, 24
_ROUNDS = 50
"""How often unstable series are drawn again: where most are stable, far more than are needed."""
_TRANSIENT, _TAIL = 16, 32


class RepresentationAR(Task):
    """Time series through a fixed representation.

    Time series x_{t+1} = A Phi(x_{t-q+1}, .., x_t) + noise with a fixed representation. The d x d
    matrix A ~ N(0, 1) is drawn for each prompt; the leaky-ReLU network Phi from q d to d numbers is
    fixed by its seed (Gao et al., 2025); the noise is N(0, noise^2 I). A stream: y_i = x_{i+1},
    scored where the history is complete, i >= q - 1. The truth holds "A" (B, d, d), features by
    outputs, and "features" (B, n, d), Phi of the history, zero where it is incomplete.

    Stability. Phi is scaled so that E|Phi(h)|^2 = g^2 v for h ~ N(0, v I), with g = `gain` = 0.5.
    With a fresh A at each step the variance would obey v' = g^2 v + noise^2, and the first q tokens
    are drawn at its fixed point, noise^2 / (1 - g^2), of which g^2 can be predicted. But A stays
    the same along a series, and some matrices feed the directions that Phi favours: up to 2% of the
    series would explode within 200 steps at d = 20, and 1% to 13% at d = 5. (With g = 0.3 still up
    to 2% at d = 5, and only 9% of the variance would be left to predict.) So A is N(0, 1) on the
    condition that the series without noise shrinks by `LARGEST_GROWTH` a step or faster: 4% to 8%
    of the draws are refused at d = 20, 3% to 23% at d = 5, by the seed of Phi. `growth` looks at a
    few starts only: the series that grow all the same, at most 0.2% in 200 steps, are drawn again
    for exceeding `LARGEST_TOKEN`.

    A larger gain leaves more to predict, but less than g^2, as the loudest matrices are the ones
    that are refused: half of the variance takes g = 0.9 at d = 5 (a third of the draws are
    refused), and `first_variance` = 2, which is then the stationary one.
    """

    order: int = Field(
        default=3, ge=1, le=10_000, description="q, the number of tokens that the next depends on"
    )
    layers: int = Field(default=3, ge=1, le=1000, description="layers of the representation")
    representation_seed: int = Field(
        default=0, ge=0, description="which representation all prompts share"
    )
    noise: FiniteFloat = Field(
        default=1.0, gt=0, description="standard deviation of the noise on each token"
    )
    gain: FiniteFloat = Field(
        default=GAIN, gt=0, description="g: a history of variance v gives A Phi one of g^2 v"
    )
    first_variance: FiniteFloat = Field(
        default=STATIONARY_VARIANCE, gt=0, description="of the first q tokens, for noise of 1"
    )

    @property
    def representation(self) -> Representation:
        """Phi, the same for all prompts, from q d numbers, oldest token first, to d."""
        sizes = (self.dims, self.order, self.layers, self.representation_seed)
        return _scaled_representation(*sizes, self.gain)

    @property
    def form(self) -> PromptForm:
        """A stream, scored where the history is complete."""
        return PromptForm(
            dims=self.dims, outputs=self.dims, layout="stream", fewest_points=self.order
        )

    def draw(self, batch: int, points: int, generator: torch.Generator) -> Prompt:
        """The series and one token more, the last target."""
        length = max(points + 1, self.order)
        kind = _Kind(self.representation, self.first_variance)
        series = _draw_stable(kind, batch, length, self.torch_dtype, generator)
        # Phi is homogeneous: noise of another size scales the whole series.
        tokens = self.noise * series.tokens  # (B, l, d)
        scored = torch.arange(points, device=tokens.device) >= self.order - 1  # (n,)
        return Prompt(
            xs=tokens[:, :points],
            ys=tokens[:, 1 : points + 1],
            layout="stream",
            scored=scored.repeat(batch, 1),
            truth={"A": series.matrices, "features": self.noise * series.features[:, :points]},
        )

    def by_sample(self, values: Tensor) -> Tensor:
        """A series has its first sample where its history is complete: (.., n - q + 1)."""
        return values[..., self.order - 1 :]

    def scale(self) -> Tensor:
        """E[y_i^2] by position, from simulated series of a fixed generator; see `unit_moments`."""
        sizes = (self.dims, self.order, self.layers, self.representation_seed)
        return squared(self.noise) * unit_moments(*sizes, self.gain, self.first_variance).values


@dataclass(frozen=True, slots=True, eq=False)
class Moments:
    """E[y_i^2] by position, (p,), and the standard errors of the estimates, (p,)."""

    values: Tensor
    errors: Tensor


@lru_cache(maxsize=64)
def unit_moments(
    dims: int, order: int, layers: int, seed: int, gain: float, first_variance: float
) -> Moments:
    """E[y_i^2] for noise of variance 1, simulated once; standard errors of 0.5% (2% at d = 1).

    There are 65536 / d series, but at least 4096. Only the variance of A Phi is estimated: that of
    the noise is known. Beyond a transient of 16 tokens the last value is the mean over 32
    positions.
    """
    kind = _Kind(_scaled_representation(dims, order, layers, seed, gain), first_variance)
    generator = torch.Generator().manual_seed(0)
    number = max(4096, 2**16 // dims)
    length = order + _TRANSIENT + _TAIL
    series = _draw_stable(kind, number, length, torch.float64, generator)
    features = series.features[:, order - 1 : -1]  # (S, 48, d)
    signal = (features @ series.matrices).square().mean(dim=2)  # (S, 48)
    tail = signal[:, _TRANSIENT:].mean(dim=1, keepdim=True)  # (S, 1)
    signal = torch.cat([signal[:, :_TRANSIENT], tail], dim=1)  # (S, 17)
    start = torch.full((order - 1,), first_variance, dtype=torch.float64)  # (q - 1,)
    return Moments(
        values=torch.cat([start, 1 + signal.mean(dim=0)]),
        errors=torch.cat([0 * start, signal.std(dim=0) / number**0.5]),
    )


def growth(phi: Representation, matrices: Tensor) -> Tensor:
    """How much a history (q tokens) grows in a step without noise, for each matrix (B, d, d): (B,).

    The largest over four fixed random starts, as the geometric mean over the last 12 of 24 steps,
    with the history rescaled after each step, which a homogeneous Phi does not notice.
    """
    dims = matrices.shape[-1]
    generator = torch.Generator().manual_seed(0)
    starts = normal(generator, _STARTS, phi.weights[0].shape[0]).to(matrices)  # (s, q d)
    history = starts.expand(matrices.shape[0], -1, -1)  # (B, s, q d)
    logarithm = torch.zeros_like(history[..., 0])  # (B, s)
    for step in range(_STEPS):
        token = phi(history) @ matrices  # (B, s, d)
        history = torch.cat([history[..., dims:], token], dim=-1)  # (B, s, q d)
        # Histories that die out altogether would leave 0 / 0.
        length = torch.linalg.vector_norm(history, dim=-1).clamp(min=1e-30)  # (B, s)
        history = history / length[..., None]
        if step >= _STEPS // 2:
            logarithm = logarithm + length.log()
    return (logarithm / (_STEPS - _STEPS // 2)).exp().amax(dim=1)


@dataclass(frozen=True, slots=True, eq=False)
class _Kind:
    """What all series of a task share, for noise of variance 1."""

    phi: Representation
    first_variance: float


@dataclass(frozen=True, slots=True, eq=False)
class _Series:
    """Series for noise of variance 1, with what they were made of."""

    matrices: Tensor
    """(B, d, d)."""
    tokens: Tensor
    """(B, l, d)."""
    features: Tensor
    """(B, l, d): Phi of the q tokens that end at each position; zero where there are fewer."""


@lru_cache(maxsize=64)
def _scaled_representation(
    dims: int, order: int, layers: int, seed: int, gain: float
) -> Representation:
    """Phi with E|Phi(h)|^2 = g^2 for h ~ N(0, I)."""
    return fixed_representation(order * dims, dims, layers, seed).times(gain / dims**0.5)


def _draw_stable(
    kind: _Kind, batch: int, length: int, dtype: torch.dtype, generator: torch.Generator
) -> _Series:
    """Series of stable matrices; those that are refused are drawn again until none is left."""
    series = _draw_series(kind, batch, length, dtype, generator)
    refused = _refused(kind, series).nonzero()[:, 0]  # (r,)
    for _ in range(_ROUNDS):
        if len(refused) == 0:
            return series
        again = _draw_series(kind, len(refused), length, dtype, generator)
        series.matrices[refused] = again.matrices
        series.tokens[refused] = again.tokens
        series.features[refused] = again.features
        refused = refused[_refused(kind, again)]  # (r,)
    raise ConfigurationError(
        f"{len(refused)} of {batch} series were unstable {_ROUNDS} times over: take a smaller "
        "order or gain, or another representation_seed."
    )


def _refused(kind: _Kind, series: _Series) -> Tensor:
    """Which series have an unstable matrix or have left the bound: (B,) bool."""
    largest = series.tokens.square().mean(dim=2).amax(dim=1)  # (B,)
    # Written so that NaN counts as out of bounds.
    bounded = largest <= LARGEST_TOKEN**2 * kind.first_variance  # (B,)
    return ~bounded | (growth(kind.phi, series.matrices) >= LARGEST_GROWTH)


def _draw_series(
    kind: _Kind, batch: int, length: int, dtype: torch.dtype, generator: torch.Generator
) -> _Series:
    """Series that start at their first variance, whether or not they are stable."""
    phi = kind.phi
    inputs, dims = phi.weights[0].shape[0], phi.weights[-1].shape[1]
    order = inputs // dims
    matrices = normal(generator, batch, dims, dims, dtype=dtype)  # (B, d, d)
    shocks = normal(generator, batch, length, dims, dtype=dtype)  # (B, l, d)
    tokens = torch.empty_like(shocks)  # (B, l, d)
    tokens[:, :order] = kind.first_variance**0.5 * shocks[:, :order]
    features = torch.zeros_like(shocks)  # (B, l, d)
    for t in range(order - 1, length):
        features[:, t] = phi(tokens[:, t - order + 1 : t + 1].flatten(1))
        if t + 1 < length:
            signal = features[:, t, None] @ matrices  # (B, 1, d)
            tokens[:, t + 1] = signal[:, 0] + shocks[:, t + 1]
    return _Series(matrices=matrices, tokens=tokens, features=features)
