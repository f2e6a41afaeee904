"""Akyurek et al. (2022): what its studies measure, on learners whose algorithm is known."""

from typing import Any

import pandas as pd
import pytest
import torch
from torch import Tensor

from innerloop.core.learner import Learner
from innerloop.core.prompt import Prompt
from innerloop.core.tolerances import EXACT_CIRCUIT
from innerloop.learners import OLS, Ridge
from innerloop.studies.akyurek2022.agreement import (
    ALGORITHMS,
    LEAST_SQUARES,
    NEAREST,
    PASS,
    RIDGE,
    STEP,
    algorithms,
    fig1,
    nearer,
    prediction_distances,
    share_that_agrees,
    weight_distances,
)
from innerloop.studies.akyurek2022.bayes import check, distance, fig2, growth
from innerloop.studies.akyurek2022.primitive_layers import (
    EXPECTED,
    NORMS,
    Constants,
    Norm,
    layer_error,
)
from innerloop.studies.akyurek2022.sizes import DEPTHS, WIDTHS, fig3, phases
from innerloop.studies.akyurek2022.theorems import thm1, thm2, width_order
from innerloop.studies.akyurek_circuits import theorem_1, theorem_2
from innerloop.studies.claim import Claim, Verdict, judge
from innerloop.studies.lab import Lab
from innerloop.studies.quantity import Quantity
from innerloop.studies.study import Study
from innerloop.tasks import LinearRegression

TASK = LinearRegression(dims=3)
POINTS = 7


def claim_of(study: Study, name: str) -> Claim:
    return next(claim for claim in study.claims if claim.name == name)


def verdict(study: Study, name: str, *measured: Quantity) -> Verdict:
    """The verdict on what each seed came to, at a scale at which something is concluded."""
    return judge(claim_of(study, name), measured, "laptop").verdict


@pytest.fixture
def lab() -> Lab:
    return Lab(study="akyurek2022/test", scale="smoke")


@pytest.fixture
def prompt(lab: Lab) -> Prompt:
    return lab.draw(TASK, POINTS)


@pytest.fixture
def others(lab: Lab) -> dict[str, Learner[Any]]:
    return algorithms(lab, TASK, POINTS)


@pytest.mark.parametrize("norm", NORMS)
@pytest.mark.parametrize("kind", EXPECTED)
def test_a_primitive_takes_one_layer(lab: Lab, kind: str, norm: Norm) -> None:
    error, layers = layer_error(lab, kind, norm, 0, Constants())
    assert layers == 1
    assert error < EXACT_CIRCUIT
    careless, _ = layer_error(lab, kind, norm, 0, Constants(norm_number=1e3))
    # The attention of mov has no norm before it where only the MLP has one.
    assert (careless > 1e-6) == ((kind, norm) != ("mov", "mlp-only"))


def test_printed_products_are_less_precise(lab: Lab) -> None:
    printed, tight = (
        layer_error(lab, "mul", "pre", 0, Constants(form=form))[0] for form in ("printed", "tight")
    )
    assert printed > 100 * tight


def test_the_order_of_a_width() -> None:
    dims = [2, 4, 8, 8]
    shapes = pd.DataFrame({"dims": dims, "width": [3 * d**2 for d in dims]})
    assert width_order(shapes) == pytest.approx(2.0)


def test_step_sizes_are_those_that_err_least(lab: Lab, others: dict[str, Learner[Any]]) -> None:
    """One step is better than none, and a pass over all examples is better than one step."""
    fresh = lab.draw(TASK, POINTS, prompts=500, purpose="fresh")
    errors = {label: float(lab.errors(others[label], fresh, TASK).mean()) for label in others}
    assert errors[LEAST_SQUARES] < errors[PASS] < errors[STEP] < 1
    assert set(others) == set(ALGORITHMS)


@pytest.mark.parametrize("label", [LEAST_SQUARES, RIDGE, STEP, NEAREST])
def test_an_algorithm_is_nearest_to_itself(
    lab: Lab, prompt: Prompt, others: dict[str, Learner[Any]], label: str
) -> None:
    found = prediction_distances(lab, others[label], others, prompt, TASK)
    assert nearer(lab, found, (label,), 0) == Quantity(0.0, 0.0, 0.0)
    another = RIDGE if label != RIDGE else LEAST_SQUARES
    assert nearer(lab, found, (another,), 0).low > 1


def test_implicit_weights_of_least_squares(lab: Lab, prompt: Prompt) -> None:
    compared = {LEAST_SQUARES: OLS(), RIDGE: Ridge(0.1)}
    found = weight_distances(lab, OLS(), compared, prompt, seed=0)
    assert float(found[LEAST_SQUARES].amax()) < 1e-8
    # Ridge is known in closed form as well.
    difference = (OLS().weights(prompt) - Ridge(0.1).weights(prompt)).square().sum(dim=(2, 3))
    assert float((found[RIDGE] - difference / 3).abs().amax()) < 1e-5


@pytest.mark.parametrize("name", ["predictions", "implicit-weights"])
def test_almost_any_number_of_examples_is_nine_in_ten(lab: Lab, name: str) -> None:
    """Four of ten prefixes are off, and the median over prefixes is within 0.01 all the same."""
    means = torch.tensor([9.0, *[0.005] * 6, *[0.05] * 4])  # prefix 0 does not count
    distances = means.expand(20, -1)  # (P, n)
    assert float(distances[:, 1:].mean(dim=0).quantile(0.5)) < 0.01
    half = share_that_agrees(lab, distances, 0)
    assert half == Quantity(0.6, 0.6, 0.6)
    assert verdict(fig1, name, half) == "not confirmed"
    most = share_that_agrees(lab, distances[:, [0, 1, 2, 3, 4, 5, 6, 1, 2, 3, 7]], 0)
    assert verdict(fig1, name, most) == "confirmed"


def test_the_share_that_agrees_has_an_interval_over_prompts(lab: Lab) -> None:
    """A prefix at the very edge is on either side of it, as prompts are drawn."""
    distances = torch.full((20, 3), 0.001)
    distances[::2, 2], distances[1::2, 2] = 0.0, 0.0199  # a mean of 0.00995
    found = share_that_agrees(lab, distances, 0)
    assert (found.value, found.low, found.high) == (1.0, 0.5, 1.0)
    assert verdict(fig1, "predictions", found) == "inconclusive"


def test_phases_by_depth(lab: Lab, prompt: Prompt, others: dict[str, Learner[Any]]) -> None:
    learners = {
        ("layers", 1): others[STEP],
        ("layers", 2): Ridge(0.12),
        ("width", 8): OLS(),
        ("width", 16): Ridge(1e-6),
    }
    found = {
        key: prediction_distances(lab, learner, others, prompt, TASK)
        for key, learner in learners.items()
    }
    seen = phases(lab, found, 0)
    assert seen["shallow"].high == 0
    assert seen["deeper"].high < 1
    assert seen["deepest"].low > 1
    assert seen["modest-width"].high < 1


def sized(nearest: dict[tuple[str, int], str]) -> dict[tuple[str, int], dict[str, Tensor]]:
    """Distances (P, n) at laptop scale, at which an algorithm is nearer by half than all others."""
    sizes = [("layers", size) for size in DEPTHS["laptop"]]
    sizes += [("width", size) for size in WIDTHS["laptop"]]
    return {
        size: {
            label: torch.full((20, 4), 0.5 if nearest.get(size) == label else 1.0)
            for label in ALGORITHMS
        }
        for size in sizes
    }


def test_one_pass_is_not_one_step() -> None:
    lab = Lab(study="akyurek2022/test", scale="laptop")
    seen = phases(lab, sized({("layers", 1): PASS}), 0)
    assert seen["shallow"] == Quantity(2.0, 2.0, 2.0)
    assert verdict(fig3, "shallow", seen["shallow"]) == "not confirmed"
    seen = phases(lab, sized({("layers", 1): STEP}), 0)
    assert verdict(fig3, "shallow", seen["shallow"]) == "confirmed"


def test_slightly_deeper_is_the_next_depth_and_not_the_best_one() -> None:
    lab = Lab(study="akyurek2022/test", scale="laptop")
    seen = phases(lab, sized({("layers", 2): LEAST_SQUARES, ("layers", 4): RIDGE}), 0)
    assert verdict(fig3, "deeper", seen["deeper"]) == "not confirmed"
    seen = phases(lab, sized({("layers", 2): RIDGE, ("layers", 4): LEAST_SQUARES}), 0)
    assert verdict(fig3, "deeper", seen["deeper"]) == "confirmed"


def test_the_penalty_of_least_risk_is_found(lab: Lab) -> None:
    tasks = [LinearRegression(dims=3, noise=noise) for noise in (0.5, 1.0)]
    right = [
        check(lab, Ridge(task.noise**2), lab.draw(task, POINTS, prompts=200), task)
        for task in tasks
    ]
    for one in right:
        assert one.factor == Quantity(1.0, 1.0, 1.0)
        assert one.agreement.high == 0
    assert growth(right).value == pytest.approx(4.0)
    wrong = [check(lab, Ridge(8.0), lab.draw(task, POINTS, prompts=200), task) for task in tasks]
    assert [one.factor.value for one in wrong] == pytest.approx([32.0, 8.0])
    assert wrong[0].factor.low > 2
    assert growth(wrong).high < 2**0.5 + 1e-9
    assert wrong[0].agreement.low > 0.01


def test_equivalence_is_measured_as_in_figure_1(lab: Lab) -> None:
    """Over d and from one example on; over E[y^2] with prefix 0, 0.011 would be 0.0073."""
    ridge = torch.zeros(20, 5, 1)  # (P, n, k)
    answers = torch.full((20, 5, 1), 0.033**0.5)  # off by 0.011 d at d = 3
    answers[:, 0] = 0
    assert float((answers - ridge).square().mean()) / (3 + 1.0**2) < 0.01
    found = lab.mean(distance(answers, ridge, 3))
    assert found.value == pytest.approx(0.011)
    assert verdict(fig2, "equivalent", found) == "not confirmed"


def test_prefix_0_is_left_out_of_the_grid_of_penalties(lab: Lab) -> None:
    """So that the table and the claim have one measure."""
    task = LinearRegression(dims=3, noise=1.0)
    prompt = lab.draw(task, POINTS)
    found = check(lab, Ridge(2.0), prompt, task)
    table = found.check.table
    at_expected = float(table.loc[table["penalty"] == 1.0, "mean"].iloc[0])
    assert at_expected / 3 == pytest.approx(found.agreement.value)


@pytest.mark.parametrize(("study", "limit", "chain"), [(thm1, theorem_1, 9), (thm2, theorem_2, 14)])
def test_the_note_and_the_limit_have_one_count(study: Study, limit: Any, chain: int) -> None:
    allowed = limit(None)
    assert allowed.pre + allowed.step + allowed.post == chain
    assert "printed in the proof" in claim_of(study, "within-the-theorem").criterion.reason
    found = study.measure(Lab(study=study.name, scale="smoke"))
    told = next(note for note in found.notes if "O(1)" in note)
    assert f"{chain} primitives" in told
    assert f"{allowed.pre} before the steps" in told
    assert f"{allowed.step} a step" in told
    shapes = found.tables["shapes"]
    steps = shapes.loc[shapes["part"] == "step", :]
    assert set(steps["layers allowed"]) == {allowed.step}
    (layers,) = set(steps["layers"])
    assert f"{'one' if layers == 1 else 'three'} layer" in told
