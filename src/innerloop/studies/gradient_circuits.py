"""Gradient descent and Newton's method as attention, row by row against the learners."""

from dataclasses import replace
from functools import partial

from innerloop.circuits.causal_gradient_descent import CausalGradientDescent
from innerloop.circuits.linear_attention import LinearAttention
from innerloop.circuits.linear_looped import LinearLooped
from innerloop.circuits.newton_relu import NewtonRelu, safe_start
from innerloop.circuits.newton_softmax import NewtonSoftmax
from innerloop.core.task import Task
from innerloop.learners import GradientDescent, Newton
from innerloop.studies.equality import Equality, Limit
from innerloop.tasks import LinearRegression


def _linear(settings: CausalGradientDescent | LinearAttention | LinearLooped | NewtonRelu) -> Task:
    return LinearRegression(dims=settings.dims, dtype="float64")


def _descent(settings: LinearAttention | LinearLooped) -> GradientDescent:
    return GradientDescent(settings.steps, step_size=settings.rate)


_algoformer = partial(Limit, pre=1, step=1, post=2, heads=(2, 2, 2))

NEWTON_RELU = Equality(
    circuit="newton-relu",
    settings=lambda d, n: NewtonRelu(dims=d, points=n, steps=12),
    algorithm=lambda s: Newton(s.steps, start=s.start or safe_start(s.dims, s.points)),
    task=_linear,
    limit=lambda s: Limit(
        theorem="fu2023 theorem 1", pre=2, step=1, post=1, heads=(2, 2, 2), width=4 * s.dims + 4
    ),
)
NEWTON_SOFTMAX = Equality(
    circuit="newton-softmax",
    settings=lambda d, n: NewtonSoftmax(dims=d, points=n, steps=12),
    algorithm=lambda s: Newton(s.steps, start=s.alpha),
    # With noise, without which y is in the span of X and errors outside of it do not show.
    task=lambda s: LinearRegression(dims=s.dims, noise=1.0, dtype="float64"),
    limit=lambda s: _algoformer(theorem="gao2025 theorem 4.1"),
)
NEWTON_SOFTMAX_PRINTED = replace(
    NEWTON_SOFTMAX, settings=lambda d, n: NewtonSoftmax(dims=d, points=n, steps=12, form="printed")
)
CAUSAL_DESCENT = Equality(
    circuit="causal-gradient-descent",
    settings=lambda d, n: CausalGradientDescent(dims=d, points=n, steps=20),
    algorithm=lambda s: GradientDescent(s.steps, step_size=s.rate, average=s.average),
    task=_linear,
    limit=lambda s: _algoformer(theorem="gao2025 theorem 4.2"),
)
CAUSAL_DESCENT_SINK = replace(
    CAUSAL_DESCENT,
    settings=lambda d, n: CausalGradientDescent(dims=d, points=n, steps=20, form="sink"),
)
CAUSAL_DESCENT_PRINTED = replace(
    CAUSAL_DESCENT,
    settings=lambda d, n: CausalGradientDescent(dims=d, points=n, steps=20, form="printed-scale"),
)
LINEAR_ATTENTION = Equality(
    circuit="linear-attention",
    settings=lambda d, n: LinearAttention(dims=d, points=n, steps=12),
    algorithm=_descent,
    task=_linear,
    limit=lambda s: Limit(
        # The proposition has x and y in one token: pairing them is the layer before.
        theorem="von Oswald et al. 2023, proposition 1", pre=1, step=1, post=0, heads=(1, 1, 0),
        width=2 * (s.dims + s.points),
    ),
)  # fmt: skip
LINEAR_LOOPED = Equality(
    circuit="linear-looped",
    settings=lambda d, n: LinearLooped(dims=d, points=n, steps=12),
    algorithm=_descent,
    task=_linear,
    limit=lambda s: Limit(
        theorem="chen2025 theorem 4.2", pre=0, step=1, post=0, heads=(0, 1, 0), width=s.dims + 1
    ),
)

ROWS: tuple[Equality, ...] = (
    NEWTON_RELU,
    NEWTON_SOFTMAX,
    NEWTON_SOFTMAX_PRINTED,
    CAUSAL_DESCENT,
    CAUSAL_DESCENT_SINK,
    CAUSAL_DESCENT_PRINTED,
    LINEAR_ATTENTION,
    LINEAR_LOOPED,
)
"""The rows of the table of equalities that are written here."""
