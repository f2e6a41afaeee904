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

HEADS = (2, 2, 0)
"""Of the proof of lemma 1; nothing comes after the steps."""
BEFORE = 1
"""Layers before the steps: the first primitive of both chains, which moves x."""
SGD_CHAIN, UPDATE_CHAIN = 9, 14
"""Primitives of the printed chains, each of them a layer by lemma 1."""


def gradient_descent_in_turn(settings: Sgd) -> InTurn:
    """Online gradient descent, one example per step."""
    return InTurn(OnlineGradientDescent(settings.rate, settings.penalty), settings.steps)


def updates_in_turn(settings: ShermanMorrison) -> InTurn:
    """Recursive least squares, one example per step."""
    return InTurn(Updates(settings.penalty), settings.steps)


def ridge_in_turn(settings: ShermanMorrison) -> InTurn:
    """Ridge regression on the examples that were taken in."""
    return InTurn(Ridge(settings.penalty), settings.steps)


def clean_regression(settings: Sgd) -> LinearRegression:
    """Linear functions without noise."""
    return LinearRegression(dims=settings.dims, dtype="float64")


def noisy_regression(settings: ShermanMorrison) -> LinearRegression:
    """Linear functions with the noise that the penalty is right for: its square is the penalty."""
    return LinearRegression(dims=settings.dims, noise=settings.penalty**0.5, dtype="float64")


THEOREM_1, THEOREM_2 = (
    Limit(theorem=f"akyurek2022 theorem {number}", pre=BEFORE, step=chain - BEFORE, post=0,
          heads=HEADS)
    for number, chain in ((1, SGD_CHAIN), (2, UPDATE_CHAIN))
)  # fmt: skip
"""The layers of a step of gradient descent, and of a Sherman-Morrison update, as printed."""


def _sgd(settings: Callable[[int, int], Sgd]) -> Equality:
    return Equality(
        circuit="sgd", settings=settings, algorithm=gradient_descent_in_turn,
        task=clean_regression, limit=lambda _: THEOREM_1,
    )  # fmt: skip


def _updates(
    settings: Callable[[int, int], ShermanMorrison],
    algorithm: Callable[[ShermanMorrison], InTurn] = ridge_in_turn,
) -> Equality:
    return Equality(
        circuit="sherman-morrison", settings=settings, algorithm=algorithm, task=noisy_regression,
        limit=lambda _: THEOREM_2,
    )  # fmt: skip


ROWS: tuple[Equality, ...] = (
    _sgd(lambda d, n: Sgd(dims=d, points=n, steps=n - 1)),
    _sgd(lambda d, n: Sgd(dims=d, points=n, steps=n - 1, penalty=0.5, norm="mlp-only")),
    _sgd(lambda d, n: Sgd(dims=d, points=n, steps=n - 1, form="printed")),
    _updates(lambda d, n: ShermanMorrison(dims=d, points=n, steps=n - 1), updates_in_turn),
    _updates(lambda d, n: ShermanMorrison(dims=d, points=n, steps=n - 1, norm="mlp-only")),
    _updates(lambda d, n: ShermanMorrison(dims=d, points=n, steps=n - 1, form="printed")),
)
"""Both norms and both forms; pre and tight are the circuits' defaults."""
