"""How far circuits are from their algorithms, by their free parameters: truncation and rounding.

A free parameter makes a construction as good as one likes on paper: c of softmax products to 0, the
scale S of GELU products and the number N that passes LayerNorm to infinity. In floats rounding
grows the other way. Drawn by

    python -m benchmarks.circuit_errors docs/figures/circuit-errors
"""

import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pandas as pd
import torch
from matplotlib.figure import Figure
from torch import Tensor
from torch.nn.functional import layer_norm

from innerloop.analysis.drawing import legend, name, panels, save_figure_and_table
from innerloop.studies.circuits import compare, rows_of
from innerloop.studies.theorem_figure import draw_parameter
from innerloop.studies.theorems import DIMS, POINTS, powers

COLUMNS = ("panel", "parameter", "form", "value", "error", "truncation", "rounding")
EPS = torch.finfo(torch.float64).eps
LOWEST, HIGHEST = 1e-17, 1e2


@dataclass(frozen=True, slots=True, kw_only=True)
class Sweep:
    """A circuit at many values of one of its settings."""

    circuit: str
    title: str
    parameter: str
    """What the axis calls the setting."""
    forms: tuple[str, ...]
    """The printed form first."""
    values: tuple[float, ...]


SWEEPS = (
    Sweep(
        circuit="causal-gradient-descent",
        title="Gradient descent by softmax",
        parameter="c, the scale of scores",
        forms=("printed-scale", "sink", "antithetic"),
        values=powers(10, -8, -1, 2),
    ),
    Sweep(
        circuit="newton-softmax",
        title="Newton's method by softmax",
        parameter="c, the scale of scores",
        forms=("printed", "tight"),
        values=powers(10, -8, -1, 2),
    ),
    Sweep(
        circuit="sgd",
        title="SGD in turn, by GELU products",
        parameter="S, what operands are divided by",
        forms=("printed", "tight"),
        values=powers(2, -2, 22),
    ),
)


def circuit_errors(sweeps: Sequence[Sweep] = SWEEPS, *, seeds: int = 3) -> pd.DataFrame:
    """The worst error of all steps, and what is stated of it, at every value of every sweep.

    A row has a panel, the name of the parameter, the form, the value, the error, and the two parts
    of the bound. The last panel is the norm's.
    """
    rows: list[tuple[Any, ...]] = []
    for sweep in sweeps:
        equality = rows_of(sweep.circuit)[0]
        base = equality.settings(DIMS, POINTS)
        for form in sweep.forms:
            for value in sweep.values:
                chosen = {**dict(base), "form": form, "scale": value}
                settings = type(base).model_validate(chosen)
                case = compare(equality, settings, seeds=seeds)
                truncation = max(bound.truncation for bound in case.bounds)
                rounding = max(bound.rounding for bound in case.bounds)
                told = (f"{sweep.title}, {base.steps} steps", sweep.parameter, form, value)
                rows.append((*told, max(case.errors), truncation, rounding))
    return pd.DataFrame([*rows, *_norm_errors()], columns=list(COLUMNS))


def _norm_errors() -> list[tuple[Any, ...]]:
    """What is left of numbers that pass LayerNorm beside N, in three ways.

    printed: [x, N, -N - sum x, 0]. mirrored: [x, N, -x, -N]. half the difference: the same, read as
    half of what stands in a slot and in its mirror, so that a mean that rounding has moved cancels.
    """
    generator = torch.Generator().manual_seed(0)
    values = 3 * (2 * torch.rand(500, 6, generator=generator, dtype=torch.float64) - 1)  # (500, 6)
    size = float(values.square().sum(dim=1).amax())  # the largest |x|^2
    total = float(values.sum(dim=1).abs().amax())
    rows: list[tuple[Any, ...]] = []
    for number in powers(10, 1, 12, 2):
        # The deviation is N sqrt(2 / D) times 1 + sum / 2 N + .., or 1 + |x|^2 / 2 N^2 + ..; what
        # LayerNorm adds to the variance, 1e-5, counts as D / 2 times that beside |x|^2.
        second = (size + 0.5e-5 * 2 * (values.shape[1] + 1)) / 2 / number**2
        first = total / 2 / number
        # The mean of D numbers as large as N is off by about half a spacing. Half the difference
        # loses that, and keeps some six roundings of x itself.
        moved = EPS * number / 2
        for form, found, truncation, rounding in (
            ("printed", _printed(values, number), first, moved),
            ("mirrored", _mirrored(values, number, halved=False), second, moved),
            ("half the difference", _mirrored(values, number, halved=True), second, 3 * EPS),
        ):
            error = float(((found - values).abs() / values.abs().clamp(min=1)).amax())
            told = ("Numbers that pass LayerNorm", "N, the number beside them", form, number)
            rows.append((*told, error, truncation, rounding))
    return rows


def _printed(values: Tensor, number: float) -> Tensor:
    """What is read from the norm of [x, N, -N - sum x, 0]: (B, d)."""
    big = torch.full_like(values[:, :1], number)  # (B, 1)
    rest = -big - values.sum(dim=1, keepdim=True)  # (B, 1)
    stream = torch.cat([values, big, rest, torch.zeros_like(big)], dim=1)  # (B, D)
    width = stream.shape[1]
    return layer_norm(stream, [width])[:, : values.shape[1]] * number * (2 / width) ** 0.5


def _mirrored(values: Tensor, number: float, *, halved: bool) -> Tensor:
    """What is read from the norm of [x, N, -x, -N]: (B, d)."""
    half = torch.cat([values, torch.full_like(values[:, :1], number)], dim=1)  # (B, D / 2)
    stream = torch.cat([half, -half], dim=1)  # (B, D)
    width, dims = stream.shape[1], values.shape[1]
    normed = layer_norm(stream, [width]) * number * (2 / width) ** 0.5  # (B, D)
    own, mirror = normed[:, :dims], normed[:, width // 2 : width // 2 + dims]  # (B, d) each
    return (own - mirror) / 2 if halved else own


def draw_circuit_errors(table: pd.DataFrame) -> Figure:
    """One panel per construction: measured errors as marks, truncation dashed, rounding dotted."""
    forms = list(dict.fromkeys(table["form"]))
    constructions = list(table.groupby("panel", sort=False))
    figure, grid = panels(len(constructions), columns=2, size=(4.8, 3.4))
    for axes, (title, rows) in zip(grid, constructions, strict=True):
        draw_parameter(axes, rows, forms)
        axes.set_ylim(LOWEST, HIGHEST)
        parameter = str(rows["parameter"].iloc[0])
        name(axes, title=str(title), x=parameter, y="worst error / max(1, |answer|)")
    legend(figure, grid)
    return figure


def main(place: Path) -> None:
    """Write the figure and its numbers."""
    table = circuit_errors()
    save_figure_and_table(draw_circuit_errors(table), table, place)


if __name__ == "__main__":
    main(Path(sys.argv[1] if len(sys.argv) > 1 else "circuit-errors"))
