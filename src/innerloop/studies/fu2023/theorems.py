"""Theorem 1 and appendix B.3: Newton's method as a transformer, and as a polynomial."""

from fractions import Fraction
from math import comb

import numpy as np
import pandas as pd
from matplotlib.figure import Figure
from numpy.polynomial import Polynomial

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
        "add up to |a|), and M x asks x (eq. 26 asks the other way round, which doubles the "
        "antisymmetric part of what rounding leaves in M at every step and, with more examples "
        "than dimensions, the part outside the column space of X).",
    ),
)
def thm1(lab: Lab) -> Measures:
    """The circuit against Newton's method, step by step."""
    return measure_theorem(lab, NEWTON_LAYERS)


S = Polynomial(np.array([0, 1], dtype=object))
"""S itself; the coefficients of its polynomials are whole numbers of any size.

M_k is expanded at alpha = 1; alpha^j goes with S^(2j - 1).
"""
ITERATIONS = 7
"""How far M_k is expanded: to the power 255."""
PRINTED: dict[int, dict[int, int]] = {1: {1: 2, 3: -4}, 2: {1: 4, 3: -12, 5: 16, 7: -16}}
"""The coefficients of appendix B.3 (eq. 36 and 37) by iteration and power of S."""
IDENTITY = at_most(0, "an identity, in exact arithmetic")


def expanded(iterations: int) -> list[Polynomial]:
    """M_0 = S, M_1, .. as polynomials in S, at alpha = 1; the next of M is 2M - M S M."""
    polynomials = [S]
    for _ in range(iterations):
        last = polynomials[-1]
        polynomials.append(2 * last - last * S * last)
    return polynomials


def binomial(iteration: int) -> Polynomial:
    """M_k in closed form: 1 - S M_k = (1 - alpha S^2)^(2^k), so that S^(2j - 1) has a binomial."""
    steps = 2**iteration
    coefficients = np.zeros(2 * steps, dtype=object)
    coefficients[1::2] = [(-1) ** (j + 1) * comb(steps, j) for j in range(1, steps + 1)]
    return Polynomial(coefficients)


def gradient_degree(steps: int) -> int:
    """The degree in S of p where the weights after so many gradient steps are p(S) X'y."""
    weights = 0 * S
    for _ in range(steps):
        weights = (1 - S) * weights + 1  # w <- w - S w + X'y, at step size 1
    return weights.degree()


def off_by(polynomial: Polynomial, iteration: int) -> Fraction:
    """The largest entry of p(S) - M_k, with M_k from products of matrices: 0 for the right one.

    In fractions, with S = X'X of three inputs in three dimensions and alpha = 1/400.
    """
    inputs = np.array([[1, 0, 2], [-1, 1, 1], [0, 3, 1]], dtype=object)  # (3, 3)
    gram, alpha = inputs.T @ inputs, Fraction(1, 400)
    inverse = alpha * gram  # (3, 3)
    for _ in range(iteration):
        inverse = 2 * inverse - inverse @ gram @ inverse
    value = sum(
        coefficient * alpha ** ((power + 1) // 2) * np.linalg.matrix_power(gram, power)
        for power, coefficient in enumerate(polynomial.coef)
    )  # (3, 3)
    return abs(value - inverse).max()


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
    styles = {"Newton": ("o-", COLOURS[2]), "gradient descent": ("s-", COLOURS[3]),
              "2^(k+1) - 1": ("+", "black")}  # fmt: skip
    for label, (style, colour) in styles.items():
        steps, powers = degrees["iterations"], degrees[label]
        axes[2].plot(steps, powers, style, color=colour, markersize=6, label=label)
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
    polynomials, counts = expanded(ITERATIONS), range(ITERATIONS + 1)
    degrees = pd.DataFrame(
        {
            "iterations": counts,
            "Newton": [polynomial.degree() for polynomial in polynomials],
            "2^(k+1) - 1": [2 ** (k + 1) - 1 for k in counts],
            "gradient descent": [gradient_degree(k) for k in counts],
        }
    )
    coefficients = [
        (k, power, float(coefficient), float(PRINTED.get(k, {}).get(power, np.nan)))
        for k, polynomial in enumerate(polynomials[:4])
        for power, coefficient in enumerate(polynomial.coef)
        if coefficient
    ]
    columns = ["iteration", "power", "coefficient", "printed"]
    lab.table("coefficients", pd.DataFrame(coefficients, columns=columns))
    lab.table("degrees", degrees)
    constant = np.array([polynomial.coef[0] != 0 for polynomial in polynomials])  # (k,)
    numbers = {
        "of another degree": ((degrees["Newton"] != degrees["2^(k+1) - 1"]) | constant).sum(),
        "off by": max(off_by(polynomials[k], k) for k in range(5)),
        "not binomial": sum((polynomials[k].coef != binomial(k).coef).sum() for k in counts),
        "misprinted": sum(
            polynomials[k].coef[power] != coefficient
            for k, powers in PRINTED.items()
            for power, coefficient in powers.items()
        ),
        # At k = 0 it is 0 / 0: no number, which `max` leaves out.
        "powers per gradient step": (degrees["gradient descent"] / degrees["iterations"]).max(),
    }
    return {key: Measured.exact(float(number)) for key, number in numbers.items()}
