"""Errors by free parameter: truncation falls, and rounding grows the other way."""

import numpy as np
import pandas as pd
import pytest

from benchmarks.circuit_errors import SWEEPS, Sweep, circuit_errors, draw_circuit_errors
from innerloop.studies.circuits import compare, rows_of


@pytest.fixture(scope="module")
def norms() -> pd.DataFrame:
    """The panel of the norm, which needs no circuit."""
    return circuit_errors(())


def errors(table: pd.DataFrame, form: str, values: list[float]) -> np.ndarray:
    """The errors of a form at some values."""
    rows = table[table["form"] == form]
    found = [rows.loc[np.isclose(rows["value"], value), "error"].to_numpy() for value in values]
    return np.concatenate(found)


def swept(circuit: str, form: str, values: tuple[float, ...]) -> pd.DataFrame:
    """The rows of one circuit in one form."""
    sweep = Sweep(circuit=circuit, title="one", parameter="c", forms=(form,), values=values)
    return circuit_errors([sweep], seeds=1).iloc[: len(values)]


def test_first_and_second_order_of_the_norm(norms: pd.DataFrame) -> None:
    values = [1e3, 1e4, 1e5]
    ratios = {
        form: errors(norms, form, values)[:-1] / errors(norms, form, values)[1:]
        for form in ("printed", "mirrored", "half the difference")
    }
    assert ratios["printed"] == pytest.approx([10, 10], rel=0.01)
    assert ratios["mirrored"] == pytest.approx([100, 100], rel=0.01)
    assert ratios["half the difference"] == pytest.approx([100, 100], rel=0.01)


def test_half_the_difference_has_no_rounding_that_grows(norms: pd.DataFrame) -> None:
    large = [1e10, 1e11, 1e12]
    for form in ("printed", "mirrored"):
        grown = errors(norms, form, large)
        assert (grown[1:] > 5 * grown[:-1]).all()
    assert (errors(norms, "half the difference", large) < 1e-15).all()


def test_the_norms_errors_are_within_what_is_stated(norms: pd.DataFrame) -> None:
    stated = norms["truncation"].to_numpy(float) + norms["rounding"].to_numpy(float)
    assert (norms["error"].to_numpy(float) <= stated).all()


SOFTMAX = (1e-3, 10**-2.5, 1e-2)
ORDERS = [
    ("causal-gradient-descent", "printed-scale", SOFTMAX, 1),
    ("causal-gradient-descent", "sink", SOFTMAX, 2),
    ("causal-gradient-descent", "antithetic", SOFTMAX, 4),
    ("newton-softmax", "printed", SOFTMAX, 1),
    ("newton-softmax", "tight", SOFTMAX, 2),
    ("sgd", "printed", (16.0, 32.0, 64.0), -2),
    ("sgd", "tight", (1.0, 2**0.5, 2.0), -8),
]
"""Each form's order, at values where neither rounding nor the next order counts."""


@pytest.mark.parametrize(
    ("circuit", "form", "values", "order"), ORDERS, ids=[f"{row[0]}-{row[1]}" for row in ORDERS]
)
def test_truncation_falls_with_the_order_of_the_form(
    circuit: str, form: str, values: tuple[float, ...], order: int
) -> None:
    table = swept(circuit, form, values)
    for column in ("error", "truncation"):
        found = table[column].to_numpy(float)
        slopes = np.diff(np.log(found)) / np.diff(np.log(np.asarray(values)))
        assert slopes == pytest.approx([order, order], abs=0.25), column


FLOORS = [
    ("causal-gradient-descent", "antithetic", (1e-6, 1e-7, 1e-8)),
    ("newton-softmax", "tight", (1e-6, 1e-7, 1e-8)),
    ("sgd", "tight", (2.0**12, 2.0**16, 2.0**20)),
]


@pytest.mark.parametrize(("circuit", "form", "values"), FLOORS, ids=[row[0] for row in FLOORS])
def test_rounding_grows_beyond_the_best_value(
    circuit: str, form: str, values: tuple[float, ...]
) -> None:
    found = errors(swept(circuit, form, values), form, list(values))
    assert (found[1:] > 2 * found[:-1]).all()  # ten times, were it not for chance


@pytest.mark.parametrize("sweep", SWEEPS, ids=lambda sweep: sweep.circuit)
def test_the_printed_form_is_worse_where_both_are_best(sweep: Sweep) -> None:
    row = rows_of(sweep.circuit)[0]
    worst: dict[str, float] = {}
    for form in (sweep.forms[0], sweep.forms[-1]):
        base = row.settings(3, 6)
        settings = type(base).model_validate({**dict(base), "form": form})
        worst[form] = max(compare(row, settings, seeds=1).errors)
    assert worst[sweep.forms[-1]] < worst[sweep.forms[0]]


def test_a_panel_has_marks_and_two_lines_a_form(norms: pd.DataFrame) -> None:
    figure = draw_circuit_errors(norms)
    (drawn,) = figure.axes
    labels = [str(line.get_label()) for line in drawn.get_lines()]
    assert [label for label in labels if not label.startswith("_")][:3] == [
        "printed: measured", "mirrored: measured", "half the difference: measured",
    ]  # fmt: skip
    marks = next(line for line in drawn.get_lines() if line.get_label() == "mirrored: measured")
    expected = norms.loc[norms["form"] == "mirrored", "error"].to_numpy()
    assert np.array_equal(np.asarray(marks.get_ydata()), expected)
    assert (drawn.get_xscale(), drawn.get_yscale()) == ("log", "log")
