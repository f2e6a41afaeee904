"""The programs of Akyurek et al. (2022) beside the learners that they must be equal to.

Theorems 1 and 2 state O(1) layers per step. The numbers here are those of the printed chains: nine
primitives for a step of gradient descent, fourteen for a Sherman-Morrison update, of which the
first moves x and is taken for the layer before the steps; and two heads per layer, which is what
the proof of lemma 1 uses.
"""

from collections.abc import Callable

from innerloop.circuits.sgd import Sgd
from innerloop.circuits.sherman_morrison import ShermanMorrison
from innerloop.learners import OnlineGradientDescent, Ridge
from innerloop.learners.in_turn import InTurn
from innerloop.learners.sherman_morrison import ShermanMorrison as Updates
from innerloop.studies.equality import Equality, Limit
from innerloop.tasks import LinearRegression

BEFORE = 1
"""Layers before the steps: the first primitive of both chains, which moves x."""
SGD_CHAIN, UPDATE_CHAIN = 9, 14
"""Primitives of the printed chains, each of them a layer by lemma 1."""

THEOREM_1, THEOREM_2 = (
    Limit(theorem=f"akyurek2022 theorem {number}", pre=BEFORE, step=chain - BEFORE, post=0,
          heads=(2, 2, 0))
    for number, chain in ((1, SGD_CHAIN), (2, UPDATE_CHAIN))
)  # fmt: skip
"""The layers of a step of gradient descent, and of a Sherman-Morrison update, as printed."""


def _sgd(settings: Callable[[int, int], Sgd]) -> Equality:
    """Online gradient descent, one example per step, on linear functions without noise."""
    return Equality(
        circuit="sgd", settings=settings, limit=lambda _: THEOREM_1,
        algorithm=lambda s: InTurn(OnlineGradientDescent(s.rate, s.penalty), s.steps),
        task=lambda s: LinearRegression(dims=s.dims, dtype="float64"),
    )  # fmt: skip


def _updates(
    settings: Callable[[int, int], ShermanMorrison], algorithm: type[Ridge | Updates] = Ridge
) -> Equality:
    """Ridge regression on the examples that were taken in, or recursive least squares.

    With the noise that the penalty is right for: its square is the penalty.
    """
    return Equality(
        circuit="sherman-morrison", settings=settings, limit=lambda _: THEOREM_2,
        algorithm=lambda s: InTurn(algorithm(s.penalty), s.steps),
        task=lambda s: LinearRegression(dims=s.dims, noise=s.penalty**0.5, dtype="float64"),
    )  # fmt: skip


ROWS: tuple[Equality, ...] = (
    _sgd(lambda d, n: Sgd(dims=d, points=n, steps=n - 1)),
    _sgd(lambda d, n: Sgd(dims=d, points=n, steps=n - 1, penalty=0.5, norm="mlp-only")),
    _sgd(lambda d, n: Sgd(dims=d, points=n, steps=n - 1, form="printed")),
    _updates(lambda d, n: ShermanMorrison(dims=d, points=n, steps=n - 1), Updates),
    _updates(lambda d, n: ShermanMorrison(dims=d, points=n, steps=n - 1, norm="mlp-only")),
    _updates(lambda d, n: ShermanMorrison(dims=d, points=n, steps=n - 1, form="printed")),
)
"""Both norms and both forms; pre and tight are the circuits' defaults."""
