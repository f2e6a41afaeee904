"""Every learner of the command line, on degenerate prompts, from denormal numbers to 1e301.

An answer is right to its tolerance, relative to the size of outputs and answers, or a `RangeError`
names the cause; there is never a silent NaN or infinity. The prompts are whole numbers times powers
of two, so that they are exactly as degenerate as they say. References are exact: rational
arithmetic and mpmath (`exact.py`), with two exceptions. Trees and boosting are compared with
themselves at scale 1, which multiplying by powers of two must not change; there, scikit-learn and
XGBoost stand beside them in other tests.
"""

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from fractions import Fraction
from functools import cache
from typing import Any

import mpmath
import pytest
import torch
from torch import Tensor

import innerloop as il
from innerloop.core.errors import RangeError
from innerloop.core.learner import Learner
from innerloop.core.tolerances import REFERENCE
from tests.learners import exact

EXPONENTS = (-1060, -1000, -500, 0, 500, 1000)
"""Of 2: 8e-320 (a denormal number), 1e-301, 3e-151, 1, 3e150, 1e301."""
GRID = Fraction(2) ** -1070
"""A few times the distance of denormal numbers, which no answer can be finer than."""
LARGEST = Fraction(2) ** 1024
ROOM = Fraction(10) ** 300
"""Where all numbers are smaller, there is no reason to refuse; sums may reach further."""


def whole(seed: int, *shape: int) -> Tensor:
    """Whole numbers from -4 to 4 in float64."""
    generator = torch.Generator().manual_seed(seed)
    return torch.randint(-4, 5, shape, generator=generator).double()


PLAIN = whole(0, 7, 3)
LINE = torch.tensor([[1.0, 2.0, -1.0]], dtype=torch.float64)
PROMPTS: dict[str, Tensor] = {
    "plain": PLAIN,
    "duplicates": PLAIN[torch.arange(7) // 2],
    "zeros": torch.zeros_like(PLAIN),
    "a zero first": torch.cat([torch.zeros_like(PLAIN[:1]), PLAIN[1:]]),
    "collinear": torch.tensor([1.0, -2, 3, 1, 2, -1, 4], dtype=torch.float64)[:, None] * LINE,
    "fewer points than dimensions": whole(1, 3, 4),
    "constant": torch.ones_like(PLAIN),
    "one column twice": PLAIN[:, [0, 1, 1]],
}
QUICK = ("collinear", "fewer points than dimensions")
"""Prompts of the fast tier; the collinear ones are also deficient, and their first are plain."""
OUTPUTS = whole(2, 7, 1) / 8 + 1 / 16
"""Not zero, so that learners have something to learn."""

RATE, MOMENTUM = 2.0**-7, 0.75
"""Fractions that stay short where they are multiplied many times."""

Make = Callable[[float, float], Learner[Any]]
"""A learner for inputs and outputs that are multiplied by these."""


@dataclass(frozen=True, kw_only=True)
class Row:
    """A learner, and what its answers are compared with."""

    name: str
    """On the command line."""
    make: Make
    weights: Callable[[float, float], exact.Weights] | None = None
    answer: Callable[[float, float, Learner[Any], int], Any] | None = None
    """By the scales, the learner and the dimensions: the answer to a question after examples."""
    refuses: Callable[[Tensor, Tensor], bool | None] = field(default=lambda xs, ys: False)
    """Whether inputs (n, d) and outputs (n, 1) must be refused; None where they may be."""


def linear(
    name: str, make: Make, weights: Callable[[float, float], exact.Weights], **more: Any
) -> Row:
    return Row(name=name, make=make, weights=weights, **more)


def scaled_penalty(sx: float, sy: float) -> float:
    """A penalty on |w|^2 that counts at any scale of the inputs."""
    return min(max(0.3 * sx * sx, 1e-300), 1e300)


def beside(sx: float, sy: float) -> float:
    """A penalty on |w| that counts at any scale."""
    return min(max(0.3 * sx * sy, 1e-300), 1e300)


def swamped(xs: Tensor, ys: Tensor) -> bool:
    return bool((xs[:-1] / 0.1**0.5).square().sum() > 1e12)


def beyond_float32(xs: Tensor, ys: Tensor) -> bool:
    sizes = (float(values[:-1].abs().max()) for values in (xs, ys))
    return any(size > 2.0**60 or 0 < size < 2.0**-60 for size in sizes)


def same_kernel(length: float, profile: Callable[[Any], Any]) -> Callable[..., Any]:
    def kernel(a: exact.Vector, b: exact.Vector) -> Any:
        return profile(exact.distance(a, b) / mpmath.mpf(length))

    return kernel


def features(learner: Any, dims: int) -> Callable[..., Any]:
    """The kernel of random features, from the numbers that the learner draws."""
    generator = torch.Generator().manual_seed(learner.seed)
    draw = torch.randn(dims, learner.features, generator=generator, dtype=torch.float64)
    phases = 2 * math.pi * torch.rand(learner.features, generator=generator, dtype=torch.float64)

    @cache
    def phi(point: tuple[Fraction, ...]) -> list[Any]:
        values = [exact.real(v) / mpmath.mpf(learner.length) for v in point]
        inner = [mpmath.fdot(column, values) for column in draw.T.tolist()]
        if learner.kind == "relu":
            return [max(v, mpmath.mpf(0)) for v in inner]
        return [mpmath.cos(v + p) for v, p in zip(inner, phases.tolist(), strict=True)]

    return lambda a, b: mpmath.fdot(phi(tuple(a)), phi(tuple(b))) * 2 / learner.features


def first_network(learner: Any, dims: int) -> Any:
    prompt = il.Prompt(xs=torch.ones(1, 1, dims).double(), ys=torch.ones(1, 1, 1).double())
    start = learner.init(prompt).parameters
    hidden, output = (
        [[Fraction(v) for v in row] for row in layer[0, 0].tolist()]
        for layer in (start.hidden, start.output)
    )
    return exact.network(hidden, output, learner.steps, learner.learning_rate)


def matern52(r: Any) -> Any:
    s = mpmath.sqrt(5) * r
    return (1 + s + s * s / 3) * mpmath.exp(-s)


lib = il.learners
TINY_PENALTIES = (1e-320, 1e-300, 1e-100, 1e-30, 1e-16, 1e-10)
ROWS: dict[str, Row] = {
    "least squares": linear("ols", lambda sx, sy: lib.OLS(), lambda sx, sy: exact.least_squares),
    **{
        f"ridge {p:g}": linear(
            "ridge", lambda sx, sy, p=p: lib.Ridge(p), lambda sx, sy, p=p: exact.ridge(p)
        )
        for p in (*TINY_PENALTIES, 0.1, 1e300)
    },
    "ridge, scaled penalty": linear(
        "ridge", lambda sx, sy: lib.Ridge(scaled_penalty(sx, sy)),
        lambda sx, sy: exact.ridge(scaled_penalty(sx, sy)),
    ),
    "Bayes": linear("bayes", lambda sx, sy: lib.Bayes(0.5, 2.0), lambda sx, sy: exact.ridge(0.125)),
    "averaging": linear(
        "averaging", lambda sx, sy: lib.Averaging(), lambda sx, sy: exact.averaging
    ),
    "descent at 1/L": linear(
        "gradient-descent", lambda sx, sy: lib.GradientDescent(3),
        lambda sx, sy: exact.descent(3, None),
    ),
    "descent of a step size": linear(
        "gradient-descent", lambda sx, sy: lib.GradientDescent(3, RATE, average=True),
        lambda sx, sy: exact.descent(3, RATE, average=True),
    ),
    "momentum at 1/L": linear(
        "momentum-descent", lambda sx, sy: lib.MomentumDescent(3, momentum=MOMENTUM),
        lambda sx, sy: exact.descent(3, None, momentum=MOMENTUM),
    ),
    "momentum of a step size": linear(
        "momentum-descent", lambda sx, sy: lib.MomentumDescent(3, RATE, MOMENTUM),
        lambda sx, sy: exact.descent(3, RATE, momentum=MOMENTUM),
    ),
    "online descent at 1/|x|^2": linear(
        "online-gradient-descent", lambda sx, sy: lib.OnlineGradientDescent(),
        lambda sx, sy: exact.online(None, 0.0),
    ),
    "online descent with a penalty": linear(
        "online-gradient-descent", lambda sx, sy: lib.OnlineGradientDescent(penalty=0.25),
        lambda sx, sy: exact.online(None, 0.25),
    ),
    "online descent of a step size": linear(
        "online-gradient-descent", lambda sx, sy: lib.OnlineGradientDescent(RATE, 0.25),
        lambda sx, sy: exact.online(RATE, 0.25),
    ),
    **{
        f"Newton from {start}": linear(
            "newton", lambda sx, sy, start=start: lib.Newton(2, start),
            lambda sx, sy, start=start: exact.newton(2, start),
        )
        for start in ("frobenius", "paper", RATE**2)
    },
    "conjugate gradient": linear(
        "conjugate-gradient", lambda sx, sy: lib.ConjugateGradient(2),
        lambda sx, sy: exact.conjugate_gradient(2),
    ),
    "conjugate gradient to the end": linear(
        "conjugate-gradient", lambda sx, sy: lib.ConjugateGradient(4),
        lambda sx, sy: exact.conjugate_gradient(4),
    ),
    "Sherman-Morrison": linear(
        "sherman-morrison", lambda sx, sy: lib.ShermanMorrison(0.1),
        lambda sx, sy: exact.ridge(0.1), refuses=swamped,
    ),
    "Lasso": Row(name="lasso", make=lambda sx, sy: lib.Lasso(0.1)),
    "Lasso, scaled penalty": Row(name="lasso", make=lambda sx, sy: lib.Lasso(beside(sx, sy))),
    "elastic net": Row(name="elastic-net", make=lambda sx, sy: lib.ElasticNet(0.1)),
    "elastic net, scaled penalty": Row(
        name="elastic-net", make=lambda sx, sy: lib.ElasticNet(beside(sx, sy), 0.9)
    ),
    "kernel ridge": Row(
        name="kernel-ridge", make=lambda sx, sy: lib.KernelRidge(0.1, 1.0, "matern52"),
        answer=lambda sx, sy, _, d: exact.kernel_ridge(same_kernel(1.0, matern52), 0.1),
    ),
    "kernel ridge, scaled length": Row(
        name="kernel-ridge", make=lambda sx, sy: lib.KernelRidge(0.1, 3 * sx, "matern12"),
        answer=lambda sx, sy, _, d: exact.kernel_ridge(
            same_kernel(3 * sx, lambda r: mpmath.exp(-r)), 0.1
        ),
    ),
    "Gaussian process": Row(
        name="gaussian-process", make=lambda sx, sy: lib.GaussianProcess(0.5, 2.0, 2 * sx),
        answer=lambda sx, sy, _, d: exact.kernel_ridge(
            same_kernel(2 * sx, lambda r: mpmath.exp(-r * r / 2)), 0.125
        ),
    ),
    "random features": Row(
        name="random-features", make=lambda sx, sy: lib.RandomFeatures(0.1, features=5),
        answer=lambda sx, sy, learner, d: exact.kernel_ridge(features(learner, d), 0.1),
        refuses=lambda xs, ys: float(xs.abs().max()) > 1e150,
    ),
    "random cosines": Row(
        name="random-features",
        make=lambda sx, sy: lib.RandomFeatures(0.1, features=5, kind="cosine"),
        answer=lambda sx, sy, learner, d: exact.kernel_ridge(features(learner, d), 0.1),
        refuses=lambda xs, ys: float(xs.abs().max()) > 1e8,
    ),
    "neighbours": Row(
        name="nearest-neighbors", make=lambda sx, sy: lib.NearestNeighbors(2),
        answer=lambda sx, sy, _, d: exact.neighbors(2, False),
    ),
    "neighbours by distance": Row(
        name="nearest-neighbors", make=lambda sx, sy: lib.NearestNeighbors(3, "distance"),
        answer=lambda sx, sy, _, d: exact.neighbors(3, True),
    ),
    "tree": Row(name="greedy-tree", make=lambda sx, sy: lib.GreedyTree()),
    "boosting": Row(
        name="boosting", make=lambda sx, sy: lib.Boosting(rounds=2), refuses=beyond_float32
    ),
    "network": Row(
        name="network-by-adam", make=lambda sx, sy: lib.NetworkByAdam(hidden=2, steps=2),
        answer=lambda sx, sy, learner, d: first_network(learner, d),
        # Adam squares gradients, which may grow with the square of the inputs.
        refuses=lambda xs, ys: None if max(xs.abs().max(), ys.abs().max()) > 1e70 else False,
    ),
}  # fmt: skip
"""Each learner in some settings; several where a step size, a penalty or a length is fixed."""


def scales() -> Iterator[tuple[float, float]]:
    """Inputs at each scale, and outputs at the same, or at 1."""
    for exponent in EXPONENTS:
        yield 2.0**exponent, 1.0
        if exponent:
            yield 2.0**exponent, 2.0**exponent


@cache
def at_scale_one(name: str, kind: str) -> list[Fraction]:
    xs = PROMPTS[kind]
    prompt = il.Prompt(xs=xs[None], ys=OUTPUTS[None, : len(xs)])
    return [Fraction(v) for v in il.predict(ROWS[name].make(1.0, 1.0), prompt)[0, :, 0].tolist()]


@dataclass(frozen=True)
class Problem:
    """One prompt at one scale, as tensors and as fractions."""

    kind: str
    sx: float
    sy: float

    @property
    def xs(self) -> Tensor:
        return PROMPTS[self.kind] * self.sx

    @property
    def ys(self) -> Tensor:
        return OUTPUTS[: len(PROMPTS[self.kind])] * self.sy

    @property
    def prompt(self) -> il.Prompt:
        return il.Prompt(xs=self.xs[None], ys=self.ys[None])

    @property
    def prefixes(self) -> Iterator[tuple[exact.Matrix, exact.Vector, exact.Vector]]:
        x = [[Fraction(v) for v in row] for row in self.xs.tolist()]
        return exact.prefixes(x, [Fraction(v) for v in self.ys[:, 0].tolist()])

    @property
    def examples(self) -> tuple[exact.Matrix, exact.Vector]:
        *_, (x, y, _) = self.prefixes
        return x, y


def expected(
    row: Row, name: str, learner: Any, problem: Problem
) -> tuple[list[Fraction], Fraction]:
    """The right answers, and the largest number on the way to them: weights, if there are any."""
    answers, largest = [Fraction(0)], Fraction(0)
    if row.weights is not None:
        weigh = row.weights(problem.sx, problem.sy)
        for x, y, question in problem.prefixes:
            w = weigh(x, y)
            answers.append(exact.dot(w, question))
            largest = max(largest, *map(abs, w))
    elif row.answer is not None:
        ask = row.answer(problem.sx, problem.sy, learner, problem.xs.shape[1])
        answers += [ask(x, y, question) for x, y, question in problem.prefixes]
    else:
        answers = [Fraction(problem.sy) * v for v in at_scale_one(name, problem.kind)]
    return answers, max(largest, *map(abs, answers))


def require_optimum(learner: Any, problem: Problem) -> None:
    """Weights of the Lasso, elastic net: several may be as good, and any of them is right."""
    weights = learner.weights(problem.prompt)[0, :, :, 0]  # (n, d)
    assert bool(torch.isfinite(weights).all())
    ratio = Fraction(getattr(learner, "ratio", 1.0))
    for i, (x, y, _) in enumerate(problem.prefixes, start=1):
        w = [Fraction(v) for v in weights[i].tolist()]
        penalty = Fraction(learner.penalty) * i
        off = exact.off_optimum(x, y, w, penalty * ratio, penalty * (1 - ratio))
        assert off < REFERENCE, (problem, i, float(off))


def require_right(row: Row, name: str, learner: Any, problem: Problem) -> None:
    """Right to its tolerance, or refused where that must be."""
    if row.name in ("lasso", "elastic-net"):
        # Weights are as y / x is, unless the penalty makes them zero.
        if problem.sy / problem.sx > 1e300:
            return
        require_optimum(learner, problem)
        return
    refused = row.refuses(problem.xs, problem.ys)
    answers, largest = ([], Fraction(0)) if refused else expected(row, name, learner, problem)
    try:
        given = il.predict(learner, problem.prompt)[0, :, 0].tolist()
    except RangeError as error:
        sentence = str(error)
        assert sentence.endswith(".")
        assert "\n" not in sentence
        assert len(sentence) < 300
        out_of_room = largest > ROOM or problem.sy / problem.sx > 1e300
        assert refused is not False or out_of_room, (problem, sentence)
        return
    assert not refused, problem
    assert largest < LARGEST, problem
    assert all(map(math.isfinite, given)), problem
    size = max(max(map(abs, answers)), Fraction(problem.sy))
    for one, right in zip(given, answers, strict=True):
        assert abs(Fraction(one) - right) <= Fraction(tolerance(row)) * size + GRID, problem


def tolerance(row: Row) -> float:
    """XGBoost computes in float32."""
    return 1e-5 if row.name == "boosting" else REFERENCE


@pytest.mark.parametrize(
    "kind",
    [pytest.param(kind, marks=() if kind in QUICK else (pytest.mark.slow,)) for kind in PROMPTS],
)
@pytest.mark.parametrize("name", ROWS)
def test_right_or_refused(name: str, kind: str) -> None:
    row = ROWS[name]
    for sx, sy in scales():
        require_right(row, name, row.make(sx, sy), Problem(kind, sx, sy))


@pytest.mark.parametrize("name", ROWS)
def test_the_last_output_is_not_read_however_large(name: str) -> None:
    learner = ROWS[name].make(1.0, 1.0)
    # Several prompts: in a batch, one that is done may go on while others are not.
    inputs = torch.stack([PROMPTS[kind] for kind in ("plain", "duplicates", "collinear")])
    ys = OUTPUTS.expand(3, -1, -1)  # (B, n, 1)
    changed = ys.clone()
    changed[:, -1] = 1e308
    for xs in (inputs, 1e20 * inputs):
        answers: list[Any] = []
        for outputs in (ys, changed):
            try:
                answers.append(il.predict(learner, il.Prompt(xs=xs, ys=outputs)).tolist())
            except RangeError:
                answers.append("refused")
        assert answers[0] == answers[1]


def test_every_learner_is_in_the_table() -> None:
    assert {row.name for row in ROWS.values()} == set(il.learners.LEARNERS)
