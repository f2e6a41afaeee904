"""The programs of Akyurek et al. (2022) beside the learners that they must be equal to.

Theorems 1 and 2 state O(1) layers a step. The numbers here are those of the printed chains: nine
primitives for a step of gradient descent, fourteen for a Sherman-Morrison update, of which the
first moves x and is taken for the layer before the steps; and two heads a layer, which is what the
proof of lemma 1 uses.
"""

from innerloop.circuits.sgd import Sgd
from innerloop.circuits.sherman_morrison import ShermanMorrison
from innerloop.learners.in_turn import InTurn
from innerloop.learners.online_gradient_descent import OnlineGradientDescent
from innerloop.learners.ridge import Ridge
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
    """Online gradient descent, one example a step."""
    return InTurn(OnlineGradientDescent(settings.rate, settings.penalty), settings.steps)


def updates_in_turn(settings: ShermanMorrison) -> InTurn:
    """Recursive least squares, one example a step."""
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


def theorem_1(settings: Sgd) -> Limit:
    """A step of gradient descent, as it is printed."""
    return _printed("akyurek2022 theorem 1", SGD_CHAIN)


def theorem_2(settings: ShermanMorrison) -> Limit:
    """A Sherman-Morrison update, as it is printed."""
    return _printed("akyurek2022 theorem 2", UPDATE_CHAIN)


def _printed(theorem: str, chain: int) -> Limit:
    """The layers of a chain of so many primitives."""
    return Limit(theorem=theorem, pre=BEFORE, step=chain - BEFORE, post=0, heads=HEADS)


ROWS: tuple[Equality, ...] = (
    Equality(
        circuit="sgd",
        settings=lambda d, n: Sgd(dims=d, points=n, steps=n - 1),
        algorithm=gradient_descent_in_turn,
        task=clean_regression,
        limit=theorem_1,
    ),
    Equality(
        circuit="sgd",
        settings=lambda d, n: Sgd(dims=d, points=n, steps=n - 1, penalty=0.5, norm="mlp-only"),
        algorithm=gradient_descent_in_turn,
        task=clean_regression,
        limit=theorem_1,
    ),
    Equality(
        circuit="sgd",
        settings=lambda d, n: Sgd(dims=d, points=n, steps=n - 1, form="printed"),
        algorithm=gradient_descent_in_turn,
        task=clean_regression,
        limit=theorem_1,
    ),
    Equality(
        circuit="sherman-morrison",
        settings=lambda d, n: ShermanMorrison(dims=d, points=n, steps=n - 1),
        algorithm=updates_in_turn,
        task=noisy_regression,
        limit=theorem_2,
    ),
    Equality(
        circuit="sherman-morrison",
        settings=lambda d, n: ShermanMorrison(dims=d, points=n, steps=n - 1, norm="mlp-only"),
        algorithm=ridge_in_turn,
        task=noisy_regression,
        limit=theorem_2,
    ),
    Equality(
        circuit="sherman-morrison",
        settings=lambda d, n: ShermanMorrison(dims=d, points=n, steps=n - 1, form="printed"),
        algorithm=ridge_in_turn,
        task=noisy_regression,
        limit=theorem_2,
    ),
)
"""Both norms and both forms; pre and tight are the circuits' defaults."""
