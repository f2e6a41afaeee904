"""The known algorithms that a learner is compared with, each over a grid of its parameters."""

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import product
from typing import Any, Literal

from innerloop.core.errors import ConfigurationError, unknown
from innerloop.core.expects import expect_learner
from innerloop.core.learner import Learner
from innerloop.core.prompt import Prompt
from innerloop.learners import (
    OLS,
    Averaging,
    Boosting,
    ConjugateGradient,
    ElasticNet,
    GreedyTree,
    KernelRidge,
    Lasso,
    NearestNeighbors,
    NetworkByAdam,
    Newton,
    OnlineGradientDescent,
    RandomFeatures,
    Ridge,
)
from innerloop.learners.gradient_descent import largest_eigenvalues
from innerloop.learners.kernel_ridge import Kernel

Battery = Literal["none", "quick", "full"]
"""How much is tried: "none" is quick without shifts."""
FEW, FEWEST = 32, 8
"""Prompts that choose among the points of a large grid; of a grid whose every point takes long."""


@dataclass(frozen=True, slots=True)
class Family:
    """A known algorithm, whatever its parameters."""

    name: str
    """The learner's class name."""
    rank: int = 100
    """Of several families that nothing tells apart, the one of least rank is the answer."""
    equivalents: tuple[str, ...] = ()
    """Learners that compute the same function, so that they are no candidates themselves."""
    slow: bool = False
    """Whether it is in the full battery only."""


LEAST_SQUARES = Family("OLS", 0)
RIDGE = Family("Ridge", 1, equivalents=("ShermanMorrison", "Bayes"))
AVERAGING = Family("Averaging", 2)
DESCENT = Family("GradientDescent", 3)
NEWTON = Family("Newton", 4)
CONJUGATE_GRADIENT = Family("ConjugateGradient", 5)
ONLINE_DESCENT = Family("OnlineGradientDescent", 6)
LASSO = Family("Lasso", 7)
NEIGHBORS = Family("NearestNeighbors", 8)
TREE = Family("GreedyTree", 9)
MOMENTUM = Family("MomentumDescent", 10)
ELASTIC_NET = Family("ElasticNet", 11)
KERNEL_RIDGE = Family("KernelRidge", 12, equivalents=("GaussianProcess",))
RANDOM_FEATURES = Family("RandomFeatures", 13)
BOOSTING = Family("Boosting", 14, slow=True)
NETWORK = Family("NetworkByAdam", 15, slow=True)

FAMILIES = (
    LEAST_SQUARES, RIDGE, AVERAGING, DESCENT, NEWTON, CONJUGATE_GRADIENT, ONLINE_DESCENT, LASSO,
    NEIGHBORS, TREE, MOMENTUM, ELASTIC_NET, KERNEL_RIDGE, RANDOM_FEATURES, BOOSTING, NETWORK,
)  # fmt: skip
"""All of them, the simplest first."""


@dataclass(frozen=True, slots=True)
class Parameter:
    """A number that tells the members of a family apart, and where it is searched."""

    name: str
    value: float
    lowest: float = 0.0
    """The ends of the search; 0 and infinity are no ends."""
    highest: float = float("inf")
    spacing: float = 2.0
    """The ratio of neighbouring values on the grid."""
    share: bool = False
    """Whether it lies between 0 and 1, and its odds are searched rather than the number itself."""

    def at(self, value: float) -> "Parameter":
        """The same at another value."""
        return replace(self, value=value)

    def describe(self) -> str:
        """`name=value`; with `<=` or `>=` at an end of the search, beyond which it may lie."""
        sign = "<=" if self.value <= self.lowest * (1 + 1e-6) else "="
        sign = ">=" if self.value >= self.highest * (1 - 1e-6) else sign
        return f"{self.name}{sign}{self.value:.4g}"

    @property
    def at_edge(self) -> bool:
        """Whether the search ended where it had to."""
        return "=" != self.describe()[len(self.name) :][:1]


@dataclass(frozen=True, slots=True, kw_only=True)
class Candidate:
    """A known algorithm with one setting of its parameters; each of its steps is a candidate."""

    family: Family
    learner: Learner[Any]
    parameters: tuple[Parameter, ...] = ()
    """What the grid goes over, with the values here."""
    make: Callable[..., Learner[Any]] | None = None
    """The learner at other values of the parameters, in order, where these are continuous."""
    note: str = ""
    """What else tells it from others of its family."""
    label: str = ""
    """What it is called; empty: by its family and parameters."""
    capped: bool = True
    """Whether its last step is an end of the search, rather than of the algorithm."""
    screened: int | None = None
    """On so many prompts the best point of the grid is chosen; None: on all."""


def chosen_families(names: Sequence[str] | None, battery: Battery) -> tuple[Family, ...]:
    """Those with these names, or all that a battery has; names may have any case and hyphens."""
    if names is None:
        return tuple(one for one in FAMILIES if battery == "full" or not one.slow)
    if not names:
        raise ConfigurationError("no candidate was named: name at least one, such as 'ridge'.")
    table = {
        _bare(name): family for family in FAMILIES for name in (family.name, *family.equivalents)
    }
    for name in names:
        if _bare(name) not in table:
            every = [name for one in FAMILIES for name in (one.name, *one.equivalents)]
            raise ConfigurationError(unknown("candidate", name, every))
    chosen = {table[_bare(name)] for name in names}
    return tuple(one for one in FAMILIES if one in chosen)


def _bare(name: str) -> str:
    return re.sub(r"[^a-z0-9]", "", name.lower())


def default_candidates(prompt: Prompt, families: Sequence[Family] | None = None) -> list[Candidate]:
    """The families of the quick battery, or others, over grids that suit prompts of this kind.

    Gradient descent, with and without momentum, is not among them: it has fits of its own,
    `descent_fit` and `momentum_fit`.
    """
    wanted = chosen_families(None, "quick") if families is None else families
    return [one for family in wanted if family in _GRIDS for one in _GRIDS[family](prompt)]


def given_candidates(given: Sequence[Candidate | Learner[Any]]) -> list[Candidate]:
    """Candidates that a user has given; a bare learner is a family of its own, as it is."""
    if isinstance(given, Candidate | Learner | str) or not isinstance(given, Iterable):
        raise ConfigurationError(
            f"candidates is {given!r}, expected a list of learners: give [OLS(), Ridge(0.1)], or "
            "families=['ols', 'ridge'] for those that are known."
        )
    ranks = {family.name: family.rank for family in FAMILIES}
    several: list[Candidate] = []
    for one in given:
        if not isinstance(one, Candidate):
            expect_learner(one)
            family = Family(one.name, ranks.get(type(one).__name__, 100))
            one = Candidate(family=family, learner=one, label=one.name, capped=False)
        several.append(one)
    if not several:
        raise ConfigurationError("candidates is empty: give one at least, or leave it out.")
    return several


def _powers(base: float, first: int, last: int) -> list[float]:
    """Powers of a base, the first and the last included."""
    return [base**power for power in range(first, last + 1)]


def _over(
    family: Family,
    make: Callable[..., Learner[Any]],
    grids: Mapping[str, Sequence[float]],
    *,
    reach: float = 1.0,
    shares: Sequence[str] = (),
    note: str = "",
    screened: int | None = None,
) -> list[Candidate]:
    """One candidate per point of a grid; the search goes `reach` times beyond its ends."""

    def parameter(name: str, values: Sequence[float], value: float) -> Parameter:
        if name in shares:
            return Parameter(name, value, 0.02, 0.98, spacing=3.0, share=True)
        ends = (min(values) / reach, max(values) * reach)
        return Parameter(name, value, *ends, spacing=values[1] / values[0])

    return [
        Candidate(
            family=family, learner=make(*point), make=make, note=note, screened=screened,
            parameters=tuple(
                parameter(name, values, value)
                for (name, values), value in zip(grids.items(), point, strict=True)
            ),
        )
        for point in product(*grids.values())
    ]  # fmt: skip


def _newton(prompt: Prompt) -> list[Candidate]:
    """From its default start, and from one start for all prefixes, as circuits have it.

    These are laid around 1/L^2 of the whole prompt, L the largest eigenvalue of X'X.
    """
    largest = float(largest_eigenvalues(prompt)[:, -1].median().clamp(min=1e-12))
    starts = [power / largest**2 for power in _powers(4.0, -8, 0)]
    return [
        Candidate(family=NEWTON, learner=Newton(steps=40), note="start 1/|S|_F^2"),
        *_over(NEWTON, lambda start: Newton(32, start), {"start": starts}, reach=4.0),
    ]


def _online(prompt: Prompt) -> list[Candidate]:
    sizes = [power / prompt.dims for power in _powers(2.0, -5, 1)]
    return [
        Candidate(family=ONLINE_DESCENT, learner=OnlineGradientDescent(), note="step size 1/|x|^2"),
        *_over(ONLINE_DESCENT, OnlineGradientDescent, {"step_size": sizes}, reach=2.0),
    ]


def _neighbors(prompt: Prompt) -> list[Candidate]:
    most = min(prompt.points - 1, 40)
    end = float("inf") if most == prompt.points - 1 else most
    return [
        Candidate(
            family=NEIGHBORS, learner=NearestNeighbors(k=k, weights=weights), note=weights,
            parameters=(Parameter("k", k, highest=end),),
        )
        for weights in ("uniform", "distance")
        for k in range(1, most + 1)
        if k > 1 or weights == "uniform"
    ]  # fmt: skip


def _kernel_ridge(prompt: Prompt) -> list[Candidate]:
    """Every kernel, with lengths around the usual distance of two inputs."""
    some = prompt.xs[:FEW].double()  # (P, n, d)
    away = (some[:, 1:] - some[:, :-1]).norm(dim=2)  # (P, n - 1)
    usual = float(away.median()) if away.numel() else 1.0
    lengths = [max(usual, 1e-12) * power for power in _powers(2.0, -2, 2)]
    penalties = _powers(10.0, -4, 1)

    def over(kernel: Kernel) -> list[Candidate]:
        grids = {"penalty": penalties, "length": lengths}
        make = lambda penalty, length: KernelRidge(penalty, length, kernel)  # noqa: E731
        return _over(KERNEL_RIDGE, make, grids, reach=100.0, note=kernel, screened=FEW)

    kernels: tuple[Kernel, ...] = ("rbf", "matern12", "matern32", "matern52")
    return [one for kernel in kernels for one in over(kernel)]


def _elastic_net(prompt: Prompt) -> list[Candidate]:
    grids = {"penalty": _powers(10**0.5, -6, 1), "ratio": [0.2, 0.5, 0.8]}
    return _over(ELASTIC_NET, ElasticNet, grids, reach=10.0, shares=["ratio"], screened=FEW)


def _boosting(prompt: Prompt) -> list[Candidate]:
    return [
        Candidate(
            family=BOOSTING, learner=Boosting(rounds, depth, rate), screened=FEWEST,
            parameters=(
                Parameter("rounds", rounds, 5, 100), Parameter("depth", depth),
                Parameter("learning_rate", rate),
            ),
        )
        for rounds, depth, rate in product((5, 10, 20, 50, 100), (1, 2, 3, 4, 6), (0.1, 0.3))
    ]  # fmt: skip


def _network(prompt: Prompt) -> list[Candidate]:
    rates = (0.002, 0.005, 0.01, 0.02, 0.05)
    return [
        Candidate(
            family=NETWORK, learner=NetworkByAdam(steps=200, learning_rate=rate), screened=FEWEST,
            parameters=(Parameter("learning_rate", rate, rates[0], rates[-1]),),
        )
        for rate in rates
    ]  # fmt: skip


_HALF_DECADES = _powers(10**0.5, -12, 12)  # 1e-6 .. 1e6

_GRIDS: dict[Family, Callable[[Prompt], list[Candidate]]] = {
    LEAST_SQUARES: lambda _: [Candidate(family=LEAST_SQUARES, learner=OLS())],
    RIDGE: lambda _: _over(RIDGE, Ridge, {"penalty": _HALF_DECADES}),
    AVERAGING: lambda _: [Candidate(family=AVERAGING, learner=Averaging())],
    NEWTON: _newton,
    # After d steps it has converged: that is no end of the search.
    CONJUGATE_GRADIENT: lambda prompt: [
        Candidate(
            family=CONJUGATE_GRADIENT,
            learner=ConjugateGradient(steps=min(prompt.dims, 64)),
            capped=prompt.dims > 64,
        )
    ],
    ONLINE_DESCENT: _online,
    LASSO: lambda _: _over(LASSO, Lasso, {"penalty": _powers(10**0.5, -6, 0)}, reach=10**0.5),
    NEIGHBORS: _neighbors,
    TREE: lambda _: [Candidate(family=TREE, learner=GreedyTree())],
    ELASTIC_NET: _elastic_net,
    KERNEL_RIDGE: _kernel_ridge,
    RANDOM_FEATURES: lambda _: _over(
        RANDOM_FEATURES, RandomFeatures, {"penalty": _powers(10.0, -4, 3)}, screened=FEW
    ),
    BOOSTING: _boosting,
    NETWORK: _network,
}
"""What is tried of each family, on prompts of one kind."""
