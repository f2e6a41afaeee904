"""Chen et al. (2025): what its studies measure, on loops whose answers are known."""

import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from innerloop.analysis import Measured, estimate
from innerloop.core.learner import Learner
from innerloop.core.prompt import Prompt
from innerloop.learners import OLS, GradientDescent
from innerloop.models.linear_looped import LinearLoopedConfig, LinearLoopedTransformer
from innerloop.studies.chen2025 import fig1, thm45
from innerloop.studies.chen2025.condition_numbers import Descents, descend
from innerloop.studies.chen2025.definition import (
    draw_examples,
    generated,
    generated_by_whole_matrices,
    spectra,
)
from innerloop.studies.chen2025.theorems import bound_ratios, start_differences
from innerloop.studies.chen2025.training import (
    APART_P,
    APART_Q,
    NULLS,
    ORDER,
    RATIO_P,
    RATIO_Q,
    last_predictions,
    matrix_parts,
    nearest_descent,
    train,
    vector_errors,
)
from innerloop.studies.claim import Control, control
from innerloop.studies.lab import Lab
from innerloop.studies.study import premises
from innerloop.tasks import VectorGeneration
from innerloop.training.run import Run


@pytest.fixture
def lab() -> Lab:
    return Lab(study="chen2025/test", scale="smoke")


def test_the_loop_is_what_gradient_descent_is_in_closed_form(lab: Lab) -> None:
    xs, ys, theta = draw_examples(lab, "closed form", dims=3, examples=7, prompts=5)
    alpha = torch.tensor([2.0, -1.0, 0.5, 3.0, 1.0]).double()
    start = torch.randn(5, 3, generator=lab.generator("start")).double()
    rates = 1 / spectra(xs)[0]
    for run in (generated, generated_by_whole_matrices):
        vectors = run(xs, ys, query=-alpha[:, None] * start, alpha=alpha, rates=rates, loops=6)
        shrink = torch.eye(3).double() - rates[:, None, None] * (xs.mT @ xs)
        left = torch.linalg.matrix_power(shrink, 6) @ (start - theta)[..., None]
        expected = alpha[:, None] * (theta + left[..., 0])
        assert float((vectors[-1] - expected).abs().amax()) < 1e-12
        assert vectors.shape == (7, 5, 3)


def test_the_condition_number_is_that_of_the_squares() -> None:
    xs = torch.diag(torch.tensor([3.0, 1.0]).double())[None]
    largest, kappa = spectra(xs)
    assert largest.tolist() == pytest.approx([9.0])
    assert kappa.tolist() == pytest.approx([9.0])


@pytest.mark.parametrize("alpha", [-2.0, 0.5])
def test_the_model_starts_anywhere(lab: Lab, alpha: float) -> None:
    from_descent, from_definition = start_differences(lab, dims=3, examples=6, alpha=alpha)
    assert from_descent < 1e-12
    assert from_definition < 1e-12


def test_the_bound_holds_at_1_over_l_and_is_broken_by_steps_that_are_too_long(lab: Lab) -> None:
    kept, bounds = bound_ratios(lab, dims=3, examples=6, prompts=50)
    assert float(kept.amax()) <= 1
    assert float(kept.amax()) > 0.1  # a bound, not a world apart
    assert bounds.shape == kept.shape == (200, 50)
    broken, _ = bound_ratios(lab, dims=3, examples=6, prompts=50, rate=2.5)
    assert float(broken.amax()) > 1
    slow, _ = bound_ratios(lab, dims=3, examples=6, prompts=50, rate=0.05)
    assert float(slow.amax()) > 1


def test_decay_is_measured_above_rounding() -> None:
    loops = torch.arange(201).double()[:, None]
    rates = torch.tensor([0.1, 0.5, 2.0]).double()
    errors = (-loops * rates).exp().clamp(min=1e-30)
    descents = Descents(errors, torch.ones(3).double())
    assert descents.rates.tolist() == pytest.approx(rates.tolist())
    assert float(descents.bounds[3, 0]) == pytest.approx(math.exp(-3))


def test_decay_in_the_long_run_is_that_of_the_slowest_direction(lab: Lab) -> None:
    """-2 log(1 - 1/kappa) per loop, or more while faster directions are still there."""
    descents = descend(lab, 16, prompts=200)
    slowest = -2 * (1 - 1 / descents.kappa).log()
    assert bool((descents.rates >= slowest - 1e-9).all())
    assert bool((descents.rates <= 2 * slowest + 0.5).all())
    assert float((descents.errors / descents.bounds.clamp(min=1e-24)).amax()) <= 1


def test_derived_weights_are_recognised(lab: Lab) -> None:
    model = LinearLoopedTransformer.gradient_descent(dims=4, loops=5, step_size=2.0**-5)
    prompt = VectorGeneration(dims=4, dtype="float64").sample(
        64, 17, generator=torch.Generator().manual_seed(0)
    )
    right = {APART_Q: 0.0, RATIO_Q: 1.0, APART_P: 0.0, RATIO_P: 0.0}
    assert matrix_parts(model) == pytest.approx(right)
    descent = nearest_descent(lab, model, prompt)
    assert descent == GradientDescent(5, step_size=2.0**-5)
    assert float(unexplained(model, descent, prompt)) < 1e-20
    assert float(vector_errors(OLS(), prompt).amax()) < 1e-10
    difference = vector_errors(model, prompt) - vector_errors(descent, prompt)
    assert float(difference.abs().amax()) < 1e-12


def test_every_part_of_the_matrices_counts() -> None:
    model = LinearLoopedTransformer(LinearLoopedConfig(dims=4, loops=5))
    with torch.no_grad():
        model.query_key.copy_(-2 * torch.eye(5))  # the sign is shared with P, the size with eta
        model.query_key[-1, -1] = -3.3
        model.value_output.copy_(-torch.eye(5))
        model.value_output[0, -1] = 0.4
    expected = {APART_Q: 0.0, RATIO_Q: 1.65, APART_P: 0.2, RATIO_P: 1.0}
    assert matrix_parts(model) == pytest.approx(expected)
    with torch.no_grad():  # the spread of a diagonal is a distance, too
        model.query_key[0, 0], model.query_key[1, 1] = -2.2, -1.8
    assert matrix_parts(model)[APART_Q] == pytest.approx(math.sqrt(2) * 0.1 / 2)


def stand_in(learners: Mapping[str, Learner[Any]]) -> Lab:
    """A lab of the laptop's runs, none of which is trained, with other models in their places."""
    runs = {label: Run(Path("none"), config) for label, config in train.runs("laptop").items()}
    return Lab(study=train.name, scale="laptop", runs=runs, learners=learners)


def controls(lab: Lab) -> dict[str, Control]:
    """Every claim of `train` as it would be judged in this lab."""
    measures = train.measure(lab)
    return {
        claim.name: control(
            claim.statement, "", estimate(claim.statistic, [measures], draws=50),
            premises(claim, [measures]),
        )
        for claim in train.claims
    }  # fmt: skip


@pytest.mark.parametrize("name", NULLS)
def test_nulls_fail(name: str) -> None:
    judged = controls(stand_in({}).standing_in(NULLS[name]))
    for claim in train.claims:
        if name in claim.excludes:
            own = judged[claim.name]
            # Not by the premise alone.
            assert not claim.criterion.meets(own.value), (name, claim.name, own.value)
            assert not own.passes


def test_the_derived_weights_meet_every_claim() -> None:
    derived = {
        label: LinearLoopedTransformer.gradient_descent(
            dims=4, loops=int(label), step_size=2.0 ** (-17 / 4), dtype=torch.float32
        )
        for label in train.runs("laptop")
    }
    assert all(each.passes for each in controls(stand_in(derived)).values())


def quantity(name: str, values: Mapping[str, Tensor]) -> float:
    """What a claim of `train` is about, from numbers (P, loops) by name."""
    claim = next(claim for claim in train.claims if claim.name == name)
    measures = {
        key: Measured(values=own, axes=("loops",), average="median") for key, own in values.items()
    }
    return estimate(claim.statistic, [measures], draws=2).value


def unexplained(one: Learner[Any], other: Learner[Any], prompt: Prompt) -> float:
    own, near = (last_predictions(each, prompt)[:, None] for each in (one, other))  # (P, 1) each
    return quantity(
        "gradient-descent", {"difference": (own - near).square(), "square": own.square()}
    )


def test_another_algorithm_is_not_explained() -> None:
    prompt = VectorGeneration(dims=4, dtype="float64").sample(
        64, 17, generator=torch.Generator().manual_seed(0)
    )
    assert unexplained(OLS(), GradientDescent(1, step_size=0.01), prompt) > 0.05


def test_accuracy_is_that_of_the_worst_number_of_loops() -> None:
    ones = torch.ones(50, 2, dtype=torch.float64)  # (P, loops)
    own, descent = ORDER[:2]
    worse = torch.tensor([1.0, 3.0], dtype=torch.float64)  # (loops,)
    assert quantity("as-accurate", {own: worse * ones, descent: ones}) == 3
    assert quantity("as-accurate", {own: ones / 2, descent: ones}) == 0.5


def test_more_loops_are_compared_with_the_next_fewer() -> None:
    errors = torch.tensor([8.0, 4.0, 1.0], dtype=torch.float64).expand(50, 3)  # (P, loops)
    assert quantity("more-loops", {ORDER[0]: errors}) == 0.5


def test_exact_studies_conclude_at_every_scale() -> None:
    assert all(claim.exact for claim in (*thm45.claims, *fig1.claims))
    assert not thm45.runs("paper")
