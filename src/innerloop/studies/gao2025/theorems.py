"""Theorems 3.1 to 3.3, 4.1 and 4.2: AlgoFormers whose weights run gradient descent and Newton."""

from innerloop.studies import theorems
from innerloop.studies.circuits import rows_of
from innerloop.studies.lab import Lab
from innerloop.studies.study import Measures, Study, declare
from innerloop.studies.theorem_figure import draw_theorem

FULL_MASK = (
    "Full attention: every prefix is a prompt of its own, and its last token is asked about; the "
    "residual that a token carries belongs to one prefix."
)


def _study(
    id: str, title: str, *, circuit: str, says: str,
    orders: tuple[tuple[str, float, float, float], ...], notes: tuple[str, ...],
) -> Study:  # fmt: skip
    """The study of a theorem whose free parameter is c: form, power and range of each order."""
    parameter = theorems.FreeParameter(
        name="c, the scale of scores", values=theorems.powers(10, -8, -1, 2),
        orders=tuple(theorems.Order(form=form, power=power, between=(low, high))
                     for form, power, low, high in orders),
    )  # fmt: skip
    theorem = theorems.Theorem(
        rows=rows_of(circuit), says=says, parameter=parameter, sizes=((20, 41),)
    )  # with the paper's own size: 20 dimensions, 40 examples and a question

    @declare(
        paper="gao2025", id=id, title=title, claims=theorems.theorem_claims(theorem),
        draw=draw_theorem, minutes={"smoke": 0.05, "laptop": 0.3, "paper": 0.3}, notes=notes,
        smaller={
            "smoke": "Two sizes instead of thirteen, prompts of one seed instead of two, and only "
            "those values of c that an order is fitted to."
        },
    )  # fmt: skip
    def study(lab: Lab) -> Measures:
        return theorems.measure_theorem(lab, theorem)

    return study


# Theorems 3.1 to 3.3 share a loop. Its scores are c A at most, A the largest |f|^2 of features.
# From c A = 0.001 to 0.2 what follows the first term does not count, and rounding, of about
# 1e-15 / c A, counts even less.
thm31 = _study(
    "thm3.1",
    "AlgoFormers run gradient descent through a representation",
    circuit="representation",
    says="An AlgoFormer runs gradient descent on regression through a representation: after every "
    "loop its answer is that of the algorithm.",
    orders=(("tight", 2, 1e-5, 1e-3), ("printed", 1, 1e-5, 1e-3)),  # A = 78
    notes=(
        FULL_MASK,
        "Phi has two layers and there are two outputs; L layers before the loop are enough of "
        "the L + 1 that are stated, and none after it.",
    ),
)
"""L layers of the L + 1 allowed: pairing x and y shares a layer with the first one of Phi."""
thm32 = _study(
    "thm3.2",
    "AlgoFormers run gradient descent on series through a representation",
    circuit="autoregression",
    says="An AlgoFormer runs gradient descent on a series through a representation of its last q "
    "tokens, which q heads copy: after every loop its answer is that of the algorithm.",
    orders=(("tight", 2, 1e-4, 1e-2), ("printed", 1, 1e-4, 1e-2)),  # A = 14
    notes=(FULL_MASK, "The series depends on its last two tokens, q = 2."),
)
"""Heads of the first layer copy the last tokens, one each."""
thm33 = _study(
    "thm3.3",
    "AlgoFormers run gradient descent on one level of a chain of thought",
    circuit="chain",
    says="An AlgoFormer filters the tokens of one level of a chain of thought and runs gradient "
    "descent on them: after every loop its answer is that of the algorithm.",
    orders=(("tight", 2, 1e-4, 1e-2), ("printed", 1, 1e-4, 1e-2)),  # A = 18
    notes=(
        FULL_MASK,
        "It equals gradient descent, which does not mean that it solves deep levels: their "
        "inputs have gone through leaky ReLUs and are ill-conditioned.",
    ),
)
"""The filter takes one layer of the seven that are allowed, on our tokens."""
thm41 = _study(
    "thm4.1",
    "AlgoFormers run Newton's method",
    circuit="newton-softmax",
    says="An AlgoFormer runs Newton's method: after every loop its answer is that of the "
    "algorithm.",
    # Scores are c times at most 1, as X M X' has no larger eigenvalue.
    orders=(("tight", 2, 1e-3, 1e-1), ("printed", 1, 1e-4, 1e-2)),
    notes=(
        FULL_MASK,
        "The paper's range for Newton's start includes 2 / |S S'|, at which the iteration does "
        "not converge; here it is a smaller number, the same for all prompts.",
    ),
)
"""The start of the iteration is a weight, one for all prompts, as in the learner beside it."""
thm42 = _study(
    "thm4.2",
    "Causal AlgoFormers run gradient descent at every position",
    circuit="causal-gradient-descent",
    says="A causal AlgoFormer runs gradient descent at every position on the examples before it: "
    "after every loop its answers are those of the algorithm.",
    # c^5 of the antithetic heads, divided by the c that products are taken out with, falls so fast
    # that it is below rounding at 1e-4.
    orders=(
        ("antithetic", 4, 1e-3, 1e-2),
        ("sink", 2, 1e-4, 1e-2),
        ("printed-scale", 1, 1e-4, 1e-2),
    ),
    notes=(
        "Causal attention: one pass answers every prefix.",
        "As it is printed the construction does not work (its first head counts the question "
        "among the examples, the first position cannot see the sink); the form printed-scale "
        "has its heads, at c and 0, with these mended.",
    ),
)
"""Tokens carry weights of their own; three ways to take their products."""
