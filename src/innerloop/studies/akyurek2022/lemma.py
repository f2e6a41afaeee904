"""Lemma 1: mov, mul, div and aff, each in one layer, on random hidden matrices.

Shapes: T tokens, D numbers of the residual stream.
"""

from collections.abc import Callable, Mapping
from dataclasses import replace
from itertools import product
from typing import Literal

import pandas as pd
import torch
from matplotlib.figure import Figure
from matplotlib.ticker import NullFormatter
from torch import Tensor

from innerloop.analysis import Measured, drawing
from innerloop.circuits.circuit import TransformerCircuit
from innerloop.circuits.gelu import Form
from innerloop.circuits.primitives import Aff, Div, Mov, Mul, Primitive
from innerloop.circuits.program import Program, Register
from innerloop.circuits.program_layers import program_blueprint
from innerloop.core.prompt import Prompt
from innerloop.core.tolerances import EXACT_CIRCUIT
from innerloop.studies.claim import Claim, at_most, between
from innerloop.studies.lab import Lab
from innerloop.studies.study import Measures, Tables, declare
from innerloop.studies.theorems import powers, slope_of
from innerloop.training.data import generator_for

Norm = Literal["pre", "mlp-only"]
NORMS: tuple[Norm, ...] = ("pre", "mlp-only")
"""Before attention and MLP as in GPT-2, or before the MLP alone as in the paper."""
POINTS, SIZE, LARGEST = 8, 4, 3.0
"""Points of a prompt, numbers of a register, and the bound on each of them."""
TOKENS = 2 * POINTS
BACK = 3
"""How many tokens back mov looks."""


MATRICES = torch.randn(
    2, SIZE, SIZE, dtype=torch.float64, generator=torch.Generator().manual_seed(0)
)  # (2, size, size)
"""W_1 and W_2 of aff."""
SHIFT = torch.linspace(-1, 1, SIZE, dtype=torch.float64)  # (size,)
"""b of aff."""


EXPECTED: dict[str, Callable[[Mapping[str, Tensor]], Tensor]] = {
    # A token that has none so far back takes that of the start token.
    "mov": lambda values: values["a"][(torch.arange(TOKENS) - BACK).clamp(min=0)],
    "mul": lambda values: (values["a"].view(-1, 2, 2) @ values["b"].view(-1, 2, 2)).flatten(1),
    "div": lambda values: values["a"] / values["c"].abs(),
    "aff": lambda values: values["a"] @ MATRICES[0].T + values["b"] @ MATRICES[1].T + SHIFT,
}
"""What each primitive has to write into the register `out`, by the values of all: (T, size)."""


def _primitive(kind: str, norm: Norm) -> Primitive:
    square = "square" if norm == "pre" else None
    return {
        "mov": Mov(source="a", to="out", back=BACK),
        "mul": Mul(left="a", right="b", to="out", shape=(2, 2, 2)),
        "div": Div(value="a", divisor="c", to="out", square=square),
        "aff": Aff(to="out", terms=((MATRICES[0], "a"), (MATRICES[1], "b")), constant=SHIFT),
    }[kind]


def random_program(lab: Lab, kind: str, norm: Norm, number: int) -> Program:
    """One primitive on registers of uniform numbers; c is away from zero and of either sign."""
    generator = generator_for(number, f"{lab.study}/{kind} {norm}")
    drawn = torch.rand(4, TOKENS, SIZE, dtype=torch.float64, generator=generator)  # (4, T, size)
    a, b, out, other = (LARGEST * (2 * part - 1) for part in drawn)  # (T, size) each
    signs = torch.where(other[:, :1] < 0, -1.0, 1.0)  # (T, 1)
    divisor = signs * (0.2 + other[:, 1:2].abs() / 2)  # (T, 1), from 0.2 to 1.7
    # What is written may be as large as a sum of so many products, or a quotient.
    most = {"mov": LARGEST, "mul": 2 * LARGEST**2, "div": 5 * LARGEST, "aff": 50.0}[kind]
    registers = {"a": (LARGEST, a), "b": (LARGEST, b), "out": (most, out), "c": (2.0, divisor),
                 "square": (4.0, divisor.square())}  # fmt: skip
    return Program(
        name=kind, dims=1, points=POINTS, norm=norm, groups=((_primitive(kind, norm),),),
        registers=tuple(
            Register(name=key, size=places.shape[1], largest=largest, places=places)
            for key, (largest, places) in registers.items()
        ),
    )  # fmt: skip


def layer_error(program: Program) -> tuple[float, int]:
    """How far off the layer of a `random_program` is, and the layers that it took."""
    values = {each.name: each.places for each in program.registers if each.places is not None}
    circuit = TransformerCircuit(
        program_blueprint(
            program, source="akyurek2022 lemma 1", algorithm=program.name, pre=0, steps=1,
            answer="c", bound=lambda step: program.unit_error,
        )
    )  # fmt: skip
    written, expected = _written(circuit), EXPECTED[program.name](values)  # (T, size) each
    error = float(((written - expected).abs() / expected.abs().clamp(min=1)).amax())
    return error, circuit.blueprint.layers


@torch.no_grad()
def _written(circuit: TransformerCircuit) -> Tensor:
    """The register `out` after the layer, (T, size): half of the difference to its mirror."""
    # The hidden matrix is in the positions: what the prompt holds does not matter.
    nothing = torch.zeros(1, POINTS, 1, dtype=torch.float64)  # (1, n, 1)
    prompt = Prompt(xs=nothing, ys=nothing)
    state = circuit.step(prompt, circuit.init(prompt), 0)
    stream = circuit.hidden_states.features(prompt, state)[0]  # (T, D)
    residual = circuit.blueprint.residual
    half = (stream[:, : residual.width] - stream[:, residual.width :]) / 2  # (T, D / 2)
    return half[:, residual.offsets()["out"] :][:, :SIZE]


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
