"""Studies of theorems: what they measure of circuits, right ones and wrong ones."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from innerloop.analysis import Averages
from innerloop.learners import GradientDescent
from innerloop.studies.circuits import rows_of
from innerloop.studies.equality import Equality, Limit
from innerloop.studies.lab import Lab
from innerloop.studies.study import Findings
from innerloop.studies.theorem_figure import draw_theorem
from innerloop.studies.theorems import (
    FreeParameter,
    Order,
    Theorem,
    form_of,
    measure_theorem,
    powers,
    slope_of,
    theorem_claims,
)

CAUSAL = rows_of("causal-gradient-descent")
ANTITHETIC = CAUSAL[0]
PARAMETER = FreeParameter(
    name="c, the scale of scores",
    orders=(Order(form="antithetic", power=4, between=(1e-3, 1e-2)),),
    values=powers(10, -8, -1, 2),
)


def measured(*rows: Equality, parameter: FreeParameter | None = PARAMETER) -> Findings:
    """What the smallest study of these rows measures."""
    theorem = Theorem(rows=rows, says="It is gradient descent.", parameter=parameter)
    lab = Lab(study="test", scale="smoke")
    return Findings.of([(lab, measure_theorem(lab, theorem))])


def value(findings: Findings, name: str) -> float:
    """The quantity of the claim of this name."""
    rows = Theorem(rows=(ANTITHETIC,), says="It is gradient descent.", parameter=PARAMETER)
    claims = {claim.name: claim for claim in theorem_claims(rows)}
    return float(claims[name].statistic(Averages(findings.seeds[0])))


@pytest.fixture(scope="module")
def right() -> Findings:
    """A circuit that is its algorithm."""
    return measured(ANTITHETIC)


def test_a_circuit_is_its_algorithm_and_falls_as_it_should(right: Findings) -> None:
    assert 0 < value(right, "equals-the-algorithm") <= 1
    assert value(right, "within-the-theorem") == 0
    assert value(right, "falls-antithetic") == pytest.approx(4, abs=0.25)


def test_another_algorithm_is_found_out() -> None:
    other = replace(
        ANTITHETIC,
        algorithm=lambda s: GradientDescent(s.steps, step_size=1.001 * s.rate, average=s.average),
    )
    assert value(measured(other), "equals-the-algorithm") > 1000


def test_what_is_larger_than_the_theorem_is_counted() -> None:
    def limit(settings: object) -> Limit:
        return Limit(theorem="one too few", pre=1, step=1, post=1, heads=(2, 1, 2))

    # Layers after the steps, and heads of a step, at both sizes.
    larger = measured(replace(ANTITHETIC, limit=limit))
    assert value(larger, "within-the-theorem") == 4


def test_an_exact_circuit_has_no_parameter() -> None:
    rows = rows_of("newton-relu")
    theorem = Theorem(rows=rows, says="It is Newton's method.")
    findings = measured(*rows, parameter=None)
    claims = {claim.name: claim for claim in theorem_claims(theorem)}
    assert set(claims) == {"equals-the-algorithm", "within-the-theorem"}
    error = value(findings, "equals-the-algorithm")
    assert claims["equals-the-algorithm"].criterion.judge(error, error) == "confirmed"
    assert len(draw_theorem(findings.tables).axes) == 1


def test_a_theorem_says_where_its_numbers_come_from() -> None:
    theorem = Theorem(rows=CAUSAL, says="It is gradient descent.")
    _, usual = theorem_claims(theorem)
    assert usual.criterion.reason == "the theorem states the numbers"
    _, other = theorem_claims(replace(theorem, stated_by="the printed chain"))
    assert other.criterion.reason == "the printed chain states the numbers"
    assert "larger than the printed chain allows" in other.quantity


def test_each_form_has_a_claim_of_its_own() -> None:
    theorem = Theorem(rows=CAUSAL, says="It is gradient descent.", parameter=PARAMETER)
    claim = theorem_claims(theorem)[-1]
    assert claim.name == "falls-antithetic"
    assert claim.criterion.judge(4.0, 4.0) == "confirmed"
    assert claim.criterion.judge(2.0, 2.0) == "contradicted"


def test_forms_that_differ_by_their_norm_are_told_apart() -> None:
    names = [form_of(row) for row in rows_of("sgd")]
    assert names == ["tight, pre", "tight, mlp-only", "printed, pre"]


def test_the_slope_of_a_power() -> None:
    values = powers(10, -3, -1, 2)
    assert slope_of(values, [5 * own**2 for own in values]) == pytest.approx(2)
    assert slope_of((1.0, 2.0, 4.0), (8.0, 4.0, 2.0)) == pytest.approx(-1)
    assert powers(10, -3, -1, 2) == pytest.approx((1e-3, 10**-2.5, 1e-2, 10**-1.5, 1e-1))


def test_tables_hold_every_step_and_part(right: Findings) -> None:
    by_step, shapes = right.tables["by-step"], right.tables["shapes"]
    assert len(by_step) == 2 * 21  # two sizes, 20 steps and before them
    assert shapes["part"].tolist() == ["before", "step", "after"] * 2
    assert (shapes["layers"].to_numpy() <= shapes["layers allowed"].to_numpy()).all()
    assert set(right.tables["by-parameter"]["value"].round(6)) == {1e-3, 0.003162, 1e-2}


def test_the_figure_is_drawn_from_what_was_written(right: Findings, tmp_path: Path) -> None:
    for name, table in right.tables.items():
        table.to_csv(tmp_path / f"{name}.csv", index=False)
    figure = draw_theorem({name: pd.read_csv(tmp_path / f"{name}.csv") for name in right.tables})
    steps, parameter = figure.axes
    assert (steps.get_yscale(), parameter.get_xscale()) == ("log", "log")
    marks = next(line for line in steps.get_lines() if line.get_label() == "antithetic: measured")
    by_step = right.tables["by-step"]
    last = by_step.loc[by_step["step"] == by_step["step"].max(), "error"]
    assert np.asarray(marks.get_ydata())[-1] == pytest.approx(last.max())
