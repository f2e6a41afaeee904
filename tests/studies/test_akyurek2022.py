"""Akyurek et al. (2022): what its studies measure, on learners whose algorithm is known."""

from typing import Any

import pandas as pd
import pytest
import torch
from torch import Tensor

from innerloop.analysis.probing import ProbeErrors, Probing
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
    median_over_prefixes,
    nearer,
    prediction_distances,
    weight_distances,
)
from innerloop.studies.akyurek2022.bayes import check, growth
from innerloop.studies.akyurek2022.primitive_layers import (
    EXPECTED,
    NORMS,
    Constants,
    Norm,
    layer_error,
)
from innerloop.studies.akyurek2022.probes import (
    ByLayer,
    attention_to_last,
    both,
    lowest_over_first,
    reached,
)
from innerloop.studies.akyurek2022.sizes import phases
from innerloop.studies.akyurek2022.theorems import width_order
from innerloop.studies.lab import Lab
from innerloop.studies.quantity import Quantity
from innerloop.tasks import LinearRegression

TASK = LinearRegression(dims=3)
POINTS = 7


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


def test_almost_any_number_of_examples_is_the_median(lab: Lab) -> None:
    distances = torch.tensor([[9.0, 1.0, 2.0, 100.0]]).expand(20, -1)  # prefix 0 does not count
    assert median_over_prefixes(lab, distances, 0).value == pytest.approx(2.0)


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


def probing(errors: Tensor, attention: Tensor) -> Probing:
    """Probes with these errors (S, p) on 20 prompts, of targets of variance 2 in 4 dimensions."""
    layers, prefixes = errors.shape
    found = ProbeErrors(
        mean=errors,
        low=errors,
        high=errors,
        training=errors,
        by_prompt=errors[..., None].expand(-1, -1, 20),
    )
    return Probing(
        steps=torch.arange(layers),
        prefixes=torch.arange(1, prefixes + 1),
        errors=found,
        control=None,
        variances=torch.full((prefixes,), 2.0),
        attention=attention,
        dims=4,
    )


def test_errors_by_layer(lab: Lab) -> None:
    errors = torch.tensor([[0.5, 0.5], [0.5, 0.4], [0.2, 0.1], [0.1, 0.1]]).double()
    attention = torch.zeros(4, 2, 5).double()
    attention[3, 0, 1], attention[3, 0, 0] = 0.75, 0.25  # after one example: y_1
    attention[3, 1, 3], attention[3, 1, 4] = 0.25, 0.75  # after two: y_2
    found = probing(errors, attention)
    own = ByLayer.of(found)
    means = own.errors.mean(dim=0)
    assert means.tolist() == pytest.approx([1.0, 0.9, 0.3, 0.2])
    assert own.best == 3
    assert float(lowest_over_first(means)) == pytest.approx(0.2)
    assert float(reached(means)) == 2  # 0.3 is below the middle of 1.0 and 0.2
    assert attention_to_last(found, 3) == pytest.approx(0.5)
    assert attention_to_last(found, 0) == 0
    sooner = ByLayer.of(probing(errors[[0, 2, 3, 3]], attention))
    layers = both(lab, lambda one, other: reached(one) - reached(other), own, sooner, 0)
    assert layers == Quantity(1.0, 1.0, 1.0)


def test_what_stays_as_it_is_gains_nothing() -> None:
    flat = torch.full((3, 4), 0.5)
    assert lowest_over_first(flat).tolist() == [1.0] * 3
    assert reached(flat).tolist() == [0.0] * 3
