"""Theorems 1 and 2: chains of primitives run SGD and Sherman-Morrison updates."""

from dataclasses import replace

import pandas as pd

from innerloop.analysis import Measured
from innerloop.studies.akyurek_circuits import BEFORE, SGD_CHAIN, UPDATE_CHAIN
from innerloop.studies.circuits import rows_of
from innerloop.studies.claim import Claim, at_most
from innerloop.studies.lab import Lab
from innerloop.studies.study import Measures, Scale, declare
from innerloop.studies.theorem_figure import draw_theorem
from innerloop.studies.theorems import (
    FreeParameter,
    Order,
    Theorem,
    measure_theorem,
    powers,
    slope_of,
    theorem_claims,
)

MINUTES: dict[Scale, float] = {"smoke": 0.2, "laptop": 1.5, "paper": 1.5}
SMALLER: dict[Scale, str] = {
    "smoke": "Two sizes instead of thirteen, prompts of one seed instead of two, and only those "
    "values of S that an order is fitted to."
}
PRODUCTS = FreeParameter(
    name="S, what operands are divided by",
    # Four scales cancel three orders; below 1 the next one shows, and above 4 rounding. The printed
    # form's next term is of fourth order in the operands, so of second beside their product.
    orders=(
        Order(form="tight, pre", power=-8, between=(1.0, 4.0)),
        Order(form="printed, pre", power=-2, between=(32.0, 512.0)),
    ),
    values=powers(2, -2, 20),
)


def _counted(chain: int, fused: str) -> str:
    """Where the numbers of `within-the-theorem` come from."""
    return (
        f"The theorem states O(1) layers. What is allowed is the chain printed in its proof, "
        f"{chain} primitives of a layer each: {BEFORE} before the steps, which moves x, and "
        f"{chain - BEFORE} a step, with the two heads of the proof of lemma 1. {fused}"
    )


SGD = Theorem(
    rows=rows_of("sgd"),
    says="A transformer runs gradient descent on the examples in turn, with a constant number of "
    "layers a step: after every example its prediction is that of the algorithm.",
    parameter=PRODUCTS,
    sizes=((8, 41),),  # the paper's own: 8 dimensions, 40 examples and a question
    stated_by="the chain printed in the proof",  # the theorems themselves state O(1) layers
)
UPDATES = replace(
    SGD,
    rows=rows_of("sherman-morrison"),
    says="A transformer runs Sherman-Morrison updates, with a constant number of layers each: "
    "after every example its prediction is that of ridge regression.",
)


@declare(
    paper="akyurek2022",
    id="thm1",
    title="A transformer runs SGD on the examples in turn",
    claims=theorem_claims(SGD),
    draw=draw_theorem,
    minutes=MINUTES,
    smaller=SMALLER,
    notes=(
        "The gradient is that of the stated loss, with halves: the printed chain subtracts the "
        "penalty that its equation adds, and drops the factor 2 of the squared error.",
        _counted(SGD_CHAIN, "Fused, one layer a step is enough."),
    ),
)
def thm1(lab: Lab) -> Measures:
    """The whole chain, all n - 1 examples, under both norms and in both forms."""
    return measure_theorem(lab, SGD)


@declare(
    paper="akyurek2022",
    id="thm2",
    title="A transformer runs Sherman-Morrison updates: ridge regression",
    claims=(
        *theorem_claims(UPDATES),
        Claim(
            name="order-d2-width",
            sentence="A hidden space of order d^2 is enough.",
            quantity="slope of log width against log d, from the smallest to the largest d",
            statistic=lambda m: m["order of the width"],
            criterion=at_most(2.0, "the theorem states the order"),
        ),
    ),
    draw=draw_theorem,
    minutes=MINUTES,
    smaller=SMALLER,
    notes=(
        "No token holds the inverse: each carries the inverse times its own input, and the "
        "width is of order d instead of d^2.",
        _counted(UPDATE_CHAIN, "Fused, three layers a step are enough."),
    ),
)
def thm2(lab: Lab) -> Measures:
    """Against recursive least squares and against ridge regression in closed form."""
    measures = measure_theorem(lab, UPDATES)
    return {**measures, "order of the width": Measured.exact(width_order(lab.tables["shapes"]))}


def width_order(shapes: pd.DataFrame) -> float:
    """The power of d that the width grows with, between the smallest and the largest d."""
    dims, widths = (shapes[key].to_numpy(float) for key in ("dims", "width"))
    ends = [float(dims.min()), float(dims.max())]
    return slope_of(ends, [float(widths[dims == d].max()) for d in ends])
