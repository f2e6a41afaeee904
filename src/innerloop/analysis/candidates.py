"""The known algorithms that a learner is compared with, each over a grid of its parameters."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from innerloop.core.learner import Learner
from innerloop.core.prompt import Prompt
from innerloop.learners import (
    OLS,
    Averaging,
    ConjugateGradient,
    GreedyTree,
    Lasso,
    NearestNeighbors,
    Newton,
    OnlineGradientDescent,
    Ridge,
)
from innerloop.learners.gradient_descent import largest_eigenvalues


@dataclass(frozen=True, slots=True)
class Family:
    """A known algorithm, whatever its parameters."""

    name: str
    """The learner's class name."""
    rank: int = 100
    """Of several families that nothing tells apart, the one of least rank is the answer."""
    equivalents: tuple[str, ...] = ()
    """Learners that compute the same function, so that they are no candidates themselves."""


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


@dataclass(frozen=True, slots=True, kw_only=True)
class Candidate:
    """A known algorithm with one setting of its parameters; each of its steps is a candidate."""

    family: Family
    learner: Learner[Any]
    parameter: str | None = None
    """The name of the parameter that the grid goes over."""
    value: float | None = None
    """Its value here."""
    make: Callable[[float], Learner[Any]] | None = None
    """The learner at another value, where the parameter is continuous: for refinement."""
    note: str = ""
    """What else tells it from others of its family."""
    spacing: float = 2.0
    """The ratio of neighbouring values on the grid."""


def default_candidates(prompt: Prompt) -> list[Candidate]:
    """All families but gradient descent over grids that suit prompts of this kind.

    Gradient descent has a fit of its own, `descent_fit`. Newton's starts are laid around 1/L^2 of
    the whole prompt, L the largest eigenvalue of X'X; other grids are the same for all tasks.
    """
    largest = float(largest_eigenvalues(prompt)[:, -1].median().clamp(min=1e-12))
    penalties = [10 ** (power / 2) for power in range(-12, 13)]  # 1e-6 .. 1e6
    return [
        Candidate(family=LEAST_SQUARES, learner=OLS()),
        Candidate(family=AVERAGING, learner=Averaging()),
        *_over(RIDGE, "penalty", Ridge, penalties, spacing=10**0.5),
        *_over(LASSO, "penalty", Lasso, [10 ** (power / 2) for power in range(-6, 1)], 10**0.5),
        Candidate(family=NEWTON, learner=Newton(steps=40), note="start 1/|S|_F^2"),
        # One start for all prefixes, as circuits have it.
        *_over(
            NEWTON, "start", lambda value: Newton(steps=32, start=value),
            [4.0**power / largest**2 for power in range(-8, 1)], spacing=4.0,
        ),
        Candidate(family=CONJUGATE_GRADIENT, learner=ConjugateGradient(steps=min(prompt.dims, 64))),
        Candidate(family=ONLINE_DESCENT, learner=OnlineGradientDescent(), note="step size 1/|x|^2"),
        *_over(
            ONLINE_DESCENT, "step_size", lambda value: OnlineGradientDescent(step_size=value),
            [2.0**power / prompt.dims for power in range(-5, 2)],
        ),
        *(
            Candidate(
                family=NEIGHBORS, learner=NearestNeighbors(k=k, weights=weights), parameter="k",
                value=float(k), note=weights,
            )
            for weights in ("uniform", "distance")
            for k in range(1, min(prompt.points - 1, 40) + 1)
            if k > 1 or weights == "uniform"
        ),
        Candidate(family=TREE, learner=GreedyTree()),
    ]  # fmt: skip


def _over(
    family: Family,
    parameter: str,
    make: Callable[[float], Learner[Any]],
    values: Sequence[float],
    spacing: float = 2.0,
) -> list[Candidate]:
    """One candidate per value."""
    return [
        Candidate(
            family=family, learner=make(value), parameter=parameter, value=value, make=make,
            spacing=spacing,
        )
        for value in values
    ]  # fmt: skip
