"""What studies cost to train, before anything is trained."""

import json
from pathlib import Path

import pytest

from innerloop.cli.plan import PEAK, UTILISATION
from innerloop.studies.budget import training_costs
from innerloop.studies.table import STUDIES, find_studies
from innerloop.training.estimate import RunCost
from tests.cli.command import run_flat
from tests.snippets import ROOT

TWO = (*find_studies("yang2024/fig2"), *find_studies("yang2024/fig8"))


def test_a_run_that_two_studies_need_is_counted_once() -> None:
    first, second = training_costs(TWO, "laptop", (0, 1))
    runs = list(TWO[0].seeded_runs("laptop", (0, 1)).values())
    assert first.runs == len(runs)
    assert first.operations == pytest.approx(sum(RunCost(run).whole for run in runs))
    assert first.largest == max(RunCost(run).whole for run in runs)
    assert (second.shared, second.operations) == (second.runs, 0)
    (alone,) = training_costs(TWO[1:], "laptop", (0, 1))
    assert alone.shared == 0
    assert alone.operations > 0
    # Twice the seeds, twice the cost.
    assert training_costs(TWO, "laptop", (0,))[0].operations == pytest.approx(first.operations / 2)


def test_the_plan_is_a_table_of_hours(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    file = tmp_path / "plan.json"
    words = ("plan", "yang2024/fig2", "--scale", "paper", "--seeds", "1", "--json", str(file))
    code, out, _ = run_flat(capsys, *words, "--peak", "10", "--utilisation", "0.5")
    assert code == 0
    (row,) = json.loads(file.read_text())
    assert row["gpu_hours"] == pytest.approx(row["operations"] / 5e12 / 3600)
    assert f"{row['gpu_hours']:,.1f}" in out
    assert "10 TFLOP/s at a utilisation of 50%" in out


def test_the_plan_of_a_small_scale_is_not_zero(capsys: pytest.CaptureFixture[str]) -> None:
    code, out, _ = run_flat(capsys, "plan", "yang2024/fig3", "--scale", "smoke", "--seeds", "1")
    (row,) = (line for line in out.split("│ yang2024/fig3")[1:2])
    _, _, _, operations, hours, *_ = (cell.strip() for cell in row.split("│"))
    assert code == 0
    assert 0 < float(hours) < float(operations) < 0.01


@pytest.mark.slow
def test_the_plan_in_the_documentation_is_what_the_command_prints() -> None:
    rate = 1e12 * PEAK * UTILISATION * 3600
    page = (ROOT / "docs" / "scale.md").read_text()
    costs = training_costs(STUDIES, "paper", (0, 1, 2))
    for cost in costs:
        row = f"| {cost.study} | {cost.runs} | {cost.shared} | {cost.operations / 1e15:,.0f} |"
        hours = f"{cost.operations / rate:,.1f} | {cost.largest / rate:,.1f} h |"
        assert (f"{row} {hours}" in page) == (cost.runs > 0), cost.study
    total = sum(cost.operations for cost in costs)
    assert f"| 0 | {total / 1e15:,.0f} | {total / rate:,.1f} |" in page
