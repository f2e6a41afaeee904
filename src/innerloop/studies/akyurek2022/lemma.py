"""Lemma 1: mov, mul, div and aff, each in one layer, on random hidden matrices."""

from dataclasses import replace
from itertools import product

import pandas as pd
from matplotlib.figure import Figure
from matplotlib.ticker import NullFormatter

from innerloop.analysis import Measured, drawing
from innerloop.circuits.gelu import Form
from innerloop.core.tolerances import EXACT_CIRCUIT
from innerloop.studies.akyurek2022.primitive_layers import (
    EXPECTED,
    NORMS,
    layer_error,
    random_program,
)
from innerloop.studies.claim import Claim, at_most, between
from innerloop.studies.lab import Lab
from innerloop.studies.study import Measures, Tables, declare
from innerloop.studies.theorems import powers, slope_of


def _draw_lemma1(tables: Tables) -> Figure:
    figure, axes = drawing.panels(3, columns=3, size=(4.0, 3.4))
    kinds, relative = list(EXPECTED), "error / max(1, |answer|)"
    for place, (norm, rows) in enumerate(tables["errors"].groupby("norm", sort=False)):
        axes[0].plot(
            range(len(kinds)), [rows["error"][rows["primitive"] == kind].max() for kind in kinds],
            linestyle="none", marker=drawing.MARKERS[place], color=drawing.COLOURS[place],
            label=f"norm {norm}",
        )  # fmt: skip
    axes[0].axhline(EXACT_CIRCUIT, color="0.5", linestyle=":", label="called exact")
    axes[0].set(yscale="log", ylim=(1e-17, 1e-9))
    axes[0].set_xticks(range(len(kinds)), kinds)
    drawing.plain(axes[0], whole=False)
    axes[0].margins(x=0.15)
    drawing.name(axes[0], title="worst error, best constants", y=relative)
    swept = tables["by-constant"].rename(columns={"error": "mean"}).assign(low=0.0, high=0.0)
    titles = {"N": "by N, which passes the norm", "S": "mul by S, which divides operands"}
    order = [*kinds, "mul, printed", "mul, tight"]
    for panel, (parameter, title) in zip(axes[1:], titles.items(), strict=True):
        rows = drawing.rows_where(swept, {"constant": parameter})
        drawing.draw_curves(panel, rows, x="value", order=order, band=False)
        panel.set_xscale("log", base=10 if parameter == "N" else 2)
        panel.xaxis.set_minor_formatter(NullFormatter())
        drawing.name(panel, title=title, x=parameter, y=relative)
    drawing.legend(figure, axes, columns=5)
    return figure


def _one_layer(kind: str, says: str) -> Claim:
    return Claim(
        name=kind,
        sentence=f"{kind} runs in one layer: {says}.",
        quantity="worst error of what is written / max(1, |answer|), random matrices, both norms",
        statistic=lambda m: m[kind],
        criterion=at_most(
            EXACT_CIRCUIT,
            "what the library calls exact: constants can be chosen so that float64's rounding is "
            "all that is left",
        ),
    )


@declare(
    paper="akyurek2022",
    id="lemma1",
    title="Four primitives, each in one transformer layer",
    claims=(
        _one_layer("mov", "it copies numbers of another token"),
        _one_layer("mul", "it multiplies two matrices"),
        _one_layer("div", "it divides by the absolute value of a number"),
        _one_layer("aff", "it applies an affine map"),
        Claim(
            name="one-layer",
            sentence="Each takes a single layer.",
            quantity="most layers of any of the four",
            statistic=lambda m: m["layers"],
            criterion=at_most(1, "the lemma's number"),
        ),
        Claim(
            name="norm-order",
            sentence="Numbers pass the norm as precisely as one likes, by a larger N.",
            quantity="slope of log error against log N, aff, from 100 to 10000",
            statistic=lambda m: m["order in N"],
            criterion=between(
                -2.25,
                -1.75,
                "beside N and -N the deviation is off by |x|^2 / 2 N^2; a quarter for the order "
                "that follows",
            ),
        ),
        Claim(
            name="product-order",
            sentence="Products are as precise as one likes, by smaller operands, as printed.",
            quantity="slope of log error against log S, mul, from 32 to 512, printed form",
            statistic=lambda m: m["order in S"],
            criterion=between(
                -2.25, -1.75, "GELU's next term is of fourth order: S^-4 beside a product of S^-2"
            ),
        ),
    ),
    draw=_draw_lemma1,
    minutes={"smoke": 0.1, "laptop": 0.2, "paper": 0.2},
    smaller={
        "smoke": "Two random matrices for each primitive and norm instead of ten, and only those "
        "values of the constants that an order is fitted to."
    },
    notes=(
        "div needs a divisor that is nowhere zero and leaves a number behind, which the next "
        "layer's attention clears; with a norm before attention it also reads the square.",
        "The products of the tight form combine four scales S, 2 S, 4 S and 8 S.",
    ),
)
def lemma1(lab: Lab) -> Measures:
    """The registers after one layer against what the primitive says."""
    rows: list[tuple[str, str, int, float, int]] = []
    for kind, norm in product(EXPECTED, NORMS):
        lab.tell(f"{kind}, norm {norm}")
        for number in range(lab.choose(smoke=2, laptop=10, paper=10)):
            program = random_program(lab, kind, norm, number)
            rows.append((kind, norm, number, *layer_error(program)))
    errors = pd.DataFrame(rows, columns=["primitive", "norm", "matrix", "error", "layers"])
    swept = _by_constant(lab)
    lab.table("errors", errors.drop(columns="layers"))
    lab.table("by-constant", swept)
    numbers = {
        **{str(kind): own["error"].max() for kind, own in errors.groupby("primitive")},
        "layers": errors["layers"].max(),
        "order in N": _order(swept, "aff", 1e2, 1e4),
        "order in S": _order(swept, "mul, printed", 32, 512),
    }
    return {key: Measured.exact(float(number)) for key, number in numbers.items()}


def _by_constant(lab: Lab) -> pd.DataFrame:
    """Errors by N of each primitive and by S of mul, worst of three matrices, norm pre."""
    few = lab.scale == "smoke"  # what orders are fitted to
    programs = {kind: [random_program(lab, kind, "pre", i) for i in range(3)] for kind in EXPECTED}
    mul = programs["mul"]
    cases = [
        (kind, "N", number, [replace(one, norm_scale=number) for one in several])
        for kind, several in programs.items()
        for number in powers(10, 2, 4 if few else 12)
    ]
    forms: tuple[Form, ...] = ("printed", "tight")
    cases += [
        (f"mul, {form}", "S", scale, [replace(one, form=form, scale=scale) for one in mul])
        for form in forms
        for scale in (powers(2, 5, 9) if few else powers(2, 0, 24))
    ]
    rows: list[tuple[str, str, float, float]] = []
    for label, constant, value, several in cases:
        lab.tell(f"{label}, {constant} {value:.2g}")
        rows.append((label, constant, value, max(layer_error(one)[0] for one in several)))
    return pd.DataFrame(rows, columns=["label", "constant", "value", "error"])


def _order(swept: pd.DataFrame, label: str, low: float, high: float) -> float:
    """The slope of logarithms between two values of the constant that a label is swept by."""
    rows = drawing.rows_where(swept, {"label": label})
    rows = rows.loc[rows["value"].between(low * (1 - 1e-9), high * (1 + 1e-9)), :]
    return slope_of(rows["value"].tolist(), rows["error"].tolist())
