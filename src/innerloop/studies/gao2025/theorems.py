"""Theorems 3.1 to 3.3, 4.1 and 4.2: AlgoFormers whose weights run gradient descent and Newton."""

from functools import partial

from innerloop.studies import theorems
from innerloop.studies.circuits import rows_of
from innerloop.studies.lab import Lab
from innerloop.studies.study import Measures, declare
from innerloop.studies.theorem_figure import draw_theorem
from innerloop.studies.theorems import FreeParameter, Order, Theorem, measure_theorem

SIZES = ((20, 41),)
"""The paper's own: 20 dimensions, 40 examples and a question."""
declare_theorem = partial(
    declare, paper="gao2025", draw=draw_theorem,
    minutes={"smoke": 0.05, "laptop": 0.3, "paper": 0.3},
    smaller={
        "smoke": "Two sizes instead of thirteen, prompts of one seed instead of two, and only "
        "those values of c that an order is fitted to."
    },
)  # fmt: skip

FULL_MASK = (
    "Full attention: every prefix is a prompt of its own, and its last token is asked about; the "
    "residual that a token carries belongs to one prefix."
)


def _theorem(circuit: str, says: str, *orders: tuple[str, float, float, float]) -> Theorem:
    """A theorem whose free parameter is c, with the form, power and range of each order."""
    parameter = FreeParameter(
        name="c, the scale of scores",
        orders=tuple(Order(form=form, power=power, between=(low, high))
                     for form, power, low, high in orders),
        values=theorems.powers(10, -8, -1, 2),
    )  # fmt: skip
    return Theorem(rows=rows_of(circuit), says=says, parameter=parameter, sizes=SIZES)


# Theorems 3.1 to 3.3 share a loop. Its scores are c A at most, A the largest |f|^2 of features.
# From c A = 0.001 to 0.2 what follows the first term does not count, and rounding, of about
# 1e-15 / c A, counts even less.
REPRESENTATION = _theorem(
    "representation",
    "An AlgoFormer runs gradient descent on regression through a representation: after every loop "
    "its answer is that of the algorithm.",
    ("tight", 2, 1e-5, 1e-3),  # A = 78
    ("printed", 1, 1e-5, 1e-3),
)
AUTOREGRESSION = _theorem(
    "autoregression",
    "An AlgoFormer runs gradient descent on a series through a representation of its last q "
    "tokens, which q heads copy: after every loop its answer is that of the algorithm.",
    ("tight", 2, 1e-4, 1e-2),  # A = 14
    ("printed", 1, 1e-4, 1e-2),
)
CHAIN = _theorem(
    "chain",
    "An AlgoFormer filters the tokens of one level of a chain of thought and runs gradient "
    "descent on them: after every loop its answer is that of the algorithm.",
    ("tight", 2, 1e-4, 1e-2),  # A = 18
    ("printed", 1, 1e-4, 1e-2),
)
NEWTON = _theorem(
    "newton-softmax",
    "An AlgoFormer runs Newton's method: after every loop its answer is that of the algorithm.",
    # Scores are c times at most 1, as X M X' has no larger eigenvalue.
    ("tight", 2, 1e-3, 1e-1),
    ("printed", 1, 1e-4, 1e-2),
)
CAUSAL = _theorem(
    "causal-gradient-descent",
    "A causal AlgoFormer runs gradient descent at every position on the examples before it: "
    "after every loop its answers are those of the algorithm.",
    # c^5 of the antithetic heads, divided by the c that products are taken out with, falls so fast
    # that it is below rounding at 1e-4.
    ("antithetic", 4, 1e-3, 1e-2),
    ("sink", 2, 1e-4, 1e-2),
    ("printed-scale", 1, 1e-4, 1e-2),
)


@declare_theorem(
    id="thm3.1",
    title="AlgoFormers run gradient descent through a representation",
    claims=theorems.theorem_claims(REPRESENTATION),
    notes=(
        FULL_MASK,
        "Phi has two layers and there are two outputs; L layers before the loop are enough of "
        "the L + 1 that are stated, and none after it.",
    ),
)
def thm31(lab: Lab) -> Measures:
    """L layers of the L + 1 allowed: pairing x and y shares a layer with the first one of Phi."""
    return measure_theorem(lab, REPRESENTATION)


@declare_theorem(
    id="thm3.2",
    title="AlgoFormers run gradient descent on series through a representation",
    claims=theorems.theorem_claims(AUTOREGRESSION),
    notes=(FULL_MASK, "The series depends on its last two tokens, q = 2."),
)
def thm32(lab: Lab) -> Measures:
    """Heads of the first layer copy the last tokens, one each."""
    return measure_theorem(lab, AUTOREGRESSION)


@declare_theorem(
    id="thm3.3",
    title="AlgoFormers run gradient descent on one level of a chain of thought",
    claims=theorems.theorem_claims(CHAIN),
    notes=(
        FULL_MASK,
        "It equals gradient descent, which does not mean that it solves deep levels: their "
        "inputs have gone through leaky ReLUs and are ill-conditioned.",
    ),
)
def thm33(lab: Lab) -> Measures:
    """The filter takes one layer of the seven that are allowed, on our tokens."""
    return measure_theorem(lab, CHAIN)


@declare_theorem(
    id="thm4.1",
    title="AlgoFormers run Newton's method",
    claims=theorems.theorem_claims(NEWTON),
    notes=(
        FULL_MASK,
        "The paper's range for Newton's start includes 2 / |S S'|, at which the iteration does "
        "not converge; here it is a smaller number, the same for all prompts.",
    ),
)
def thm41(lab: Lab) -> Measures:
    """The start of the iteration is a weight, one for all prompts, as in the learner beside it."""
    return measure_theorem(lab, NEWTON)


@declare_theorem(
    id="thm4.2",
    title="Causal AlgoFormers run gradient descent at every position",
    claims=theorems.theorem_claims(CAUSAL),
    notes=(
        "Causal attention: one pass answers every prefix.",
        "As it is printed the construction does not work (its first head counts the question "
        "among the examples, the first position cannot see the sink); the form printed-scale "
        "has its heads, at c and 0, with these mended.",
    ),
)
def thm42(lab: Lab) -> Measures:
    """Tokens carry weights of their own; three ways to take their products."""
    return measure_theorem(lab, CAUSAL)
