"""Theorem 1 and appendix B.3: Newton's method as a transformer, and as a polynomial."""

from collections.abc import Sequence
from fractions import Fraction
from math import comb
from operator import mul

import numpy as np
import pandas as pd
from matplotlib.figure import Figure

from innerloop.analysis import Measured, drawing
from innerloop.analysis.drawing import COLOURS
from innerloop.studies.circuits import rows_of
from innerloop.studies.claim import Claim, at_most
from innerloop.studies.lab import Lab
from innerloop.studies.study import Measures, Tables, declare
from innerloop.studies.theorem_figure import draw_theorem
from innerloop.studies.theorems import Theorem, measure_theorem, theorem_claims

NEWTON_LAYERS = Theorem(
    rows=rows_of("newton-relu"),
    says="A transformer with full ReLU attention runs k steps of Newton's method in k layers and a "
    "constant number more, at a width of a constant times d.",
    sizes=((20, 41),),
)


@declare(
    paper="fu2023",
    id="thm1",
    title="Newton's method in a layer a step",
    claims=theorem_claims(NEWTON_LAYERS),
    draw=draw_theorem,
    minutes={"smoke": 0.05, "laptop": 0.3, "paper": 0.3},
    smaller={"smoke": "Two sizes and one seed of prompts."},
    notes=(
        "Not as printed: the second head takes -V (eq. 20 and 27 print V, and the two heads "
        "add up to |a|), and M x asks x (eq. 26 asks the other way round, which doubles "
        "rounding outside the span at every step).",
    ),
)
def thm1(lab: Lab) -> Measures:
    """The circuit against Newton's method, step by step."""
    return measure_theorem(lab, NEWTON_LAYERS)


Polynomial = tuple[Fraction, ...]
"""Coefficients by power of S, from 0 on, at alpha = 1; alpha^j goes with S^(2j - 1)."""

ITERATIONS = 7
"""How far M_k is expanded: to the power 255."""
PRINTED: dict[int, dict[int, int]] = {1: {1: 2, 3: -4}, 2: {1: 4, 3: -12, 5: 16, 7: -16}}
"""The coefficients of appendix B.3 (eq. 36 and 37) by iteration and power of S."""
IDENTITY = at_most(0, "an identity, in exact arithmetic")


def product(first: Polynomial, second: Polynomial) -> Polynomial:
    """The product of two polynomials in one matrix, which commute."""
    coefficients = [Fraction(0)] * (len(first) + len(second) - 1)
    for i, one in enumerate(first):
        if one:
            for j, other in enumerate(second):
                coefficients[i + j] += one * other
    return tuple(coefficients)


def newton_step(inverse: Polynomial) -> Polynomial:
    """2M - M S M."""
    squared = product(product(inverse, (Fraction(0), Fraction(1))), inverse)
    padded = [*inverse, *[Fraction(0)] * (len(squared) - len(inverse))]
    return tuple(2 * own - other for own, other in zip(padded, squared, strict=True))


def expanded(iterations: int) -> list[Polynomial]:
    """M_0 = S, M_1, .. as polynomials in S, at alpha = 1."""
    polynomials: list[Polynomial] = [(Fraction(0), Fraction(1))]
    for _ in range(iterations):
        polynomials.append(newton_step(polynomials[-1]))
    return polynomials


def degree(polynomial: Sequence[Fraction]) -> int:
    """The highest power with a coefficient other than 0."""
    return max(power for power, coefficient in enumerate(polynomial) if coefficient)


def binomial(iteration: int) -> Polynomial:
    """M_k in closed form: 1 - S M_k = (1 - alpha S^2)^(2^k), so that S^(2j - 1) has a binomial."""
    steps = 2**iteration
    coefficients = [Fraction(0)] * (2 * steps)
    for j in range(1, steps + 1):
        coefficients[2 * j - 1] = Fraction((-1) ** (j + 1) * comb(steps, j))
    return tuple(coefficients)


def gradient_degree(steps: int) -> int:
    """The degree in S of p where the weights after so many gradient steps are p(S) X'y."""
    weights: Polynomial = (Fraction(0),)
    for _ in range(steps):  # w <- w - S w + X'y, at step size 1
        moved = product(weights, (Fraction(1), Fraction(-1)))
        weights = (moved[0] + 1, *moved[1:])
    return degree(weights)


Matrix = tuple[tuple[Fraction, ...], ...]


def times(first: Matrix, second: Matrix) -> Matrix:
    """The product of two matrices of fractions."""
    columns = tuple(zip(*second, strict=True))
    return tuple(tuple(sum(map(mul, row, column), Fraction(0)) for column in columns)
                 for row in first)  # fmt: skip


def combined(first: Matrix, second: Matrix, *, by: tuple[Fraction, Fraction]) -> Matrix:
    """A weighted sum of two matrices."""
    return tuple(
        tuple(by[0] * a + by[1] * b for a, b in zip(*rows, strict=True))
        for rows in zip(first, second, strict=True)
    )


def off_by(polynomial: Polynomial, gram: Matrix, alpha: Fraction, iteration: int) -> Fraction:
    """The largest entry of p(S) - M_k, with M_k from products of matrices: 0 for the right one."""
    one, zero = Fraction(1), Fraction(0)
    inverse = combined(gram, gram, by=(alpha, zero))
    for _ in range(iteration):
        inverse = combined(inverse, times(times(inverse, gram), inverse), by=(2 * one, -one))
    value = combined(gram, gram, by=(zero, zero))
    power = gram
    for exponent, coefficient in enumerate(polynomial[1:], start=1):
        if exponent > 1:
            power = times(power, gram)
        value = combined(value, power, by=(one, coefficient * alpha ** ((exponent + 1) // 2)))
    difference = combined(value, inverse, by=(one, -one))
    return max(abs(entry) for row in difference for entry in row)


def example_gram() -> Matrix:
    """S = X'X of three inputs in three dimensions, in whole numbers."""
    inputs = ((1, 0, 2), (-1, 1, 1), (0, 3, 1))
    rows = tuple(tuple(Fraction(entry) for entry in row) for row in inputs)
    return times(tuple(zip(*rows, strict=True)), rows)


def as_printed(iteration: int) -> Polynomial:
    """The polynomial that the appendix prints for M_1 or M_2."""
    powers = PRINTED[iteration]
    return tuple(Fraction(powers.get(power, 0)) for power in range(max(powers) + 1))


def _coefficients(right: Sequence[Polynomial]) -> pd.DataFrame:
    """The coefficients other than 0, for the first iterations, with those that are printed."""
    rows = [
        (k, power, float(coefficient), float(PRINTED.get(k, {}).get(power, np.nan)))
        for k, polynomial in enumerate(right[:4])
        for power, coefficient in enumerate(polynomial)
        if coefficient
    ]
    return pd.DataFrame(rows, columns=["iteration", "power", "coefficient", "printed"])


def _draw_b3(tables: Tables) -> Figure:
    figure, axes = drawing.panels(3, columns=3, size=(4.0, 3.2))
    for panel, iteration in zip(axes, (1, 2), strict=False):
        rows = drawing.rows_where(tables["coefficients"], {"iteration": iteration})
        powers = rows["power"].to_numpy(float)
        for shift, column, label, colour in (
            (-0.3, "coefficient", "expanded exactly", COLOURS[0]),
            (0.3, "printed", "as printed", COLOURS[1]),
        ):
            bars = panel.bar(powers + shift, rows[column], width=0.6, color=colour, label=label)
            panel.bar_label(bars, fmt="%g", fontsize=8, padding=1)
        panel.axhline(0, color="0.4", linewidth=0.8)
        panel.margins(y=0.15)
        drawing.plain(panel)
        panel.set_xticks(powers)
        title = f"M_{iteration}: coefficients of S^s"
        drawing.name(panel, title=title, x="s", y="coefficient / alpha^((s+1)/2)")
    degrees = tables["degrees"]
    for column, style, colour in (
        ("Newton", "o-", COLOURS[2]),
        ("gradient descent", "s-", COLOURS[3]),
        ("2^(k+1) - 1", "+", "black"),
    ):
        axes[2].plot(
            degrees["iterations"], degrees[column], style, color=colour, markersize=6, label=column
        )
    axes[2].set_yscale("symlog", linthresh=1)
    drawing.plain(axes[2])
    drawing.name(axes[2], title="degree in S after k iterations", x="k", y="highest power of S")
    drawing.legend(figure, axes, columns=5)
    return figure


@declare(
    paper="fu2023",
    id="b3",
    title="Newton's method is a sum of moments of S, of exponentially growing degree",
    claims=(
        Claim(
            name="degree",
            sentence="M_k is a polynomial in S of degree 2^(k+1) - 1, without a constant term.",
            quantity=f"M_k up to k = {ITERATIONS} that are not",
            statistic=lambda m: m["of another degree"],
            criterion=IDENTITY,
        ),
        Claim(
            name="moments",
            sentence="The same polynomial gives M_k for any S.",
            quantity="largest entry of the polynomial at S less M_k by products of matrices, k up "
            "to 4, in fractions",
            statistic=lambda m: m["off by"],
            criterion=IDENTITY,
        ),
        Claim(
            name="closed-form",
            sentence="(Beyond the paper) The coefficient of S^(2j-1) is (-1)^(j+1) (2^k over j) "
            "alpha^j.",
            quantity=f"coefficients up to k = {ITERATIONS} that differ",
            statistic=lambda m: m["not binomial"],
            criterion=IDENTITY,
        ),
        Claim(
            name="printed-coefficients",
            sentence="M_1 = 2aS - 4a^2 S^3 and M_2 = 4aS - 12a^2 S^3 + 16a^3 S^5 - 16a^4 S^7.",
            quantity="of these six coefficients, those that are not the ones of M_1 and M_2",
            statistic=lambda m: m["misprinted"],
            criterion=IDENTITY,
            paper="0",
        ),
        Claim(
            name="gradient-descent",
            sentence="After k steps of gradient descent the highest power of S is of order k only.",
            quantity=f"highest power / k, largest up to k = {ITERATIONS}",
            statistic=lambda m: m["powers per gradient step"],
            criterion=at_most(1, "a step multiplies the weights by 1 - eta S once"),
        ),
    ),
    draw=_draw_b3,
    minutes={"smoke": 0.02, "laptop": 0.02, "paper": 0.02},
    notes=(
        "M_1 = 2aS - a^2 S^3 and M_2 = 4aS - 6a^2 S^3 + 4a^3 S^5 - a^4 S^7; the printed M_1 "
        "has a factor 4 too many in M S M, and M_2 inherits it.",
    ),
)
def b3(lab: Lab) -> Measures:
    """Expand M_k in fractions, and hold it to matrices, to binomials and to what is printed."""
    lab.tell("expanding M_k")
    polynomials = expanded(ITERATIONS)
    counts = range(ITERATIONS + 1)
    degrees = [degree(polynomial) for polynomial in polynomials]
    gram, alpha = example_gram(), Fraction(1, 400)
    first_order = [gradient_degree(k) if k else 0 for k in counts]
    lab.table("coefficients", _coefficients(polynomials))
    lab.table(
        "degrees",
        {
            "iterations": counts,
            "Newton": degrees,
            "2^(k+1) - 1": [2 ** (k + 1) - 1 for k in counts],
            "gradient descent": first_order,
        },
    )
    numbers = {
        "of another degree": sum(
            degrees[k] != 2 ** (k + 1) - 1 or bool(polynomials[k][0]) for k in counts
        ),
        "off by": max(off_by(polynomials[k], gram, alpha, k) for k in range(5)),
        "not binomial": sum(
            a != b for k in counts for a, b in zip(polynomials[k], binomial(k), strict=True)
        ),
        "misprinted": sum(
            polynomials[k][power] != coefficient
            for k, powers in PRINTED.items()
            for power, coefficient in powers.items()
        ),
        "powers per gradient step": max(first_order[k] / k for k in counts[1:]),
    }
    return {key: Measured.exact(float(number)) for key, number in numbers.items()}
