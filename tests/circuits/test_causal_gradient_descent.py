"""Gradient descent on all prefixes as causal softmax attention, against the learner."""

from pathlib import Path
from typing import Any

import pytest
import torch
from pydantic import ValidationError
from torch import Tensor

from innerloop.circuits.causal_descent_error import extrapolation
from innerloop.circuits.causal_gradient_descent import CausalGradientDescent
from innerloop.circuits.circuit import TransformerCircuit
from innerloop.core.errors import PromptError
from innerloop.core.iterate import iterate, predict, trajectory
from innerloop.core.learner import Learner
from innerloop.core.prompt import Prompt
from innerloop.learners import GradientDescent
from innerloop.models.checkpoint import load, save
from innerloop.studies.gradient_circuits import (
    CAUSAL_DESCENT,
    CAUSAL_DESCENT_PRINTED,
    CAUSAL_DESCENT_SINK,
)
from innerloop.tasks import LinearRegression

FORMS: list[dict[str, Any]] = [
    {"form": "antithetic"},
    {"form": "sink"},
    {"form": "sink", "average": False},
    {"form": "printed-scale"},
]


def make(**values: Any) -> CausalGradientDescent:
    return CausalGradientDescent.model_validate(values)


def draw(dims: int, points: int, *, seed: int = 0, batch: int = 3) -> Prompt:
    task = LinearRegression(dims=dims, noise=0.5, dtype="float64")
    return task.sample(batch, points, generator=torch.Generator().manual_seed(seed))


def errors(
    settings: CausalGradientDescent, prompt: Prompt, *, model: Learner | None = None
) -> Tensor:
    """The worst error after each step, divided by max(1, the answer): (K + 1,)."""
    with torch.no_grad():
        found = trajectory(model or settings.build(), prompt).predictions
    learner = GradientDescent(settings.steps, step_size=settings.rate, average=settings.average)
    expected = trajectory(learner, prompt).predictions
    assert found.shape == expected.shape
    return ((found - expected).abs() / expected.abs().clamp(min=1)).flatten(1).amax(dim=1)


def within(found: Tensor, settings: CausalGradientDescent) -> bool:
    bound = settings.blueprint().bound
    return all(float(error) <= bound(step).total for step, error in enumerate(found))


@pytest.mark.parametrize("form", FORMS, ids=str)
@pytest.mark.parametrize(("dims", "points"), [(1, 1), (1, 9), (2, 4), (5, 11), (8, 30)])
def test_every_step_and_prefix_is_gradient_descent(
    dims: int, points: int, form: dict[str, Any]
) -> None:
    settings = make(dims=dims, points=points, steps=20, **form)
    assert within(errors(settings, draw(dims, points)), settings)


@pytest.mark.parametrize("form", FORMS, ids=str)
def test_queries_in_one_pass_have_the_same_answers(form: dict[str, Any]) -> None:
    """A query takes the place of x_i, and with it the example that x_i holds."""
    settings = make(dims=3, points=7, steps=10, **form)
    generator = torch.Generator().manual_seed(1)
    queries = torch.randn(3, 7, 4, 3, generator=generator, dtype=torch.float64)  # (B, n, q, d)
    assert within(errors(settings, draw(3, 7).ask(queries)), settings)


@pytest.mark.parametrize("form", FORMS, ids=str)
def test_step_sizes_up_to_the_limit(form: dict[str, Any]) -> None:
    """2 / L for inputs as long as declared, with outputs as large."""
    settings = make(dims=2, points=6, largest_input=1.0, largest_output=3.0, steps=12, **form)
    settings = settings.model_copy(update={"step_size": 2 * settings.rate})
    prompt = draw(2, 6)
    xs = prompt.xs / prompt.xs.norm(dim=2, keepdim=True)  # (3, 6, 2)
    xs[0] = xs[0, :1]
    assert within(errors(settings, Prompt(xs=0.999 * xs, ys=3 * prompt.ys.sign())), settings)


def test_a_prefix_without_examples_answers_zero() -> None:
    settings = make(dims=3, points=5, steps=4)
    with torch.no_grad():
        found = trajectory(settings.build(), draw(3, 5)).predictions  # (5, 3, 5, 1)
    assert bool((found[:, :, 0] == 0).all())
    assert bool((found[1:, :, 1:] != 0).all())


@pytest.mark.parametrize("form", ["antithetic", "sink"])
def test_tokens_of_outputs_keep_weights_of_zero(form: str) -> None:
    """They hold half a pair, or an example that is not theirs to learn from."""
    circuit = TransformerCircuit(make(dims=2, points=5, steps=6, form=form).blueprint())
    offset = circuit.blueprint.residual.offsets()["w"]
    prompt = draw(2, 5)
    with torch.no_grad():
        *_, state = iterate(circuit, prompt)
        stream = circuit.hidden_states.features(prompt, state)  # (3, 10, D)
        weights = stream[..., offset : offset + 2]  # (3, 10, 2)
    assert float(weights[:, 0::2].abs().max()) < 1e-12  # the start token and all y
    assert float(weights[:, 3::2].abs().amin(dim=2).min()) > 0


@pytest.mark.parametrize("row", [CAUSAL_DESCENT, CAUSAL_DESCENT_SINK, CAUSAL_DESCENT_PRINTED])
@pytest.mark.parametrize("steps", [0, 1, 20])
def test_no_larger_than_theorem_4_2(row, steps: int) -> None:
    """One layer before, one a step, two after, two heads each."""
    settings = row.settings(5, 11).model_copy(update={"steps": steps})
    limit, blueprint = row.limit(settings), settings.blueprint()
    assert len(blueprint.pre) <= limit.pre == 1
    assert len(blueprint.body) <= limit.step == 1
    assert len(blueprint.post) <= limit.post == 2
    assert blueprint.heads <= min(limit.heads) == 2
    assert blueprint.layers == steps + 3
    assert blueprint.mask == "causal"


def test_truncation_falls_to_the_floor_of_rounding() -> None:
    """As c^4, c^2 and c; the antithetic form's floor is the lowest, since no logit is large."""
    prompt = draw(5, 11)

    def worst(scale: float, form: str) -> float:
        settings = make(dims=5, points=11, steps=20, scale=scale, form=form)
        found = errors(settings, prompt)
        assert within(found, settings)
        return float(found.max())

    scales = (1e-2, 3e-3, 1e-3)
    falls: dict[str, list[float]] = {}
    for form, order in (("antithetic", 4), ("sink", 2), ("printed-scale", 1)):
        found = falls[form] = [worst(scale, form) for scale in scales]
        for i in range(2):
            expected = (scales[i] / scales[i + 1]) ** order
            assert found[i] / found[i + 1] == pytest.approx(expected, rel=0.3)
    assert falls["antithetic"][2] < falls["sink"][2] / 100 < falls["printed-scale"][2] / 1e4
    for form in falls:
        floor = [worst(scale, form) for scale in (1e-9, 1e-10)]
        assert 2 < floor[1] / floor[0] < 50  # rounding, ten times as much at c / 10
    assert 10 * worst(1e-9, "antithetic") < worst(1e-9, "sink")


def test_the_orders_after_the_first_cancel() -> None:
    for multiples in ((1, 2), (1, 2, 3, 4)):
        factors = extrapolation(multiples)
        assert sum(factors.values()) == pytest.approx(1)
        for power in range(1, len(multiples)):
            assert sum(f * m ** (2 * power) for m, f in factors.items()) == pytest.approx(0)


def test_settings_that_do_not_fit_are_refused() -> None:
    with pytest.raises(ValidationError, match="take average=true, or form=sink"):
        make(average=False)
    with pytest.raises(ValidationError, match="declare a smaller largest_input"):
        make(dims=5, step_size=0.1)
    make(dims=5, step_size=0.1, largest_input=4.0)


def test_prompts_beyond_the_declared_bounds_are_refused() -> None:
    settings = make(dims=2, points=4, steps=2, largest_input=2.0, largest_output=1.0)
    circuit = settings.build()
    xs, ys = torch.ones(1, 4, 2), torch.ones(1, 4, 1)
    predict(circuit, Prompt(xs=xs, ys=ys))
    for prompt in (
        Prompt(xs=2 * xs, ys=ys),
        Prompt(xs=xs, ys=2 * ys),
        Prompt(xs=xs, ys=ys, queries=2 * xs[:, :, None]),
    ):
        with pytest.raises(PromptError, match="make a model for larger numbers"):
            predict(circuit, prompt)
    with pytest.raises(PromptError, match="take fewer points"):
        predict(circuit, Prompt(xs=xs.repeat(1, 2, 1), ys=ys.repeat(1, 2, 1)))


def test_a_perturbed_weight_is_caught() -> None:
    """The step size of one coordinate in one head, off by one part in a million."""
    settings = make(dims=3, points=7, steps=6)
    circuit, prompt = settings.build(), draw(3, 7)
    assert within(errors(settings, prompt, model=circuit), settings)
    with torch.no_grad():
        weight = circuit.get_parameter("backbone.blocks.0.attention.inward.weight")  # (3 h s, D)
        weight.view(-1)[weight.abs().argmax()] *= 1 + 1e-6
    assert not within(errors(settings, prompt, model=circuit), settings)


def test_saved_and_loaded_bit_for_bit(tmp_path: Path) -> None:
    circuit, prompt = make(dims=3, points=5, steps=4).build(), draw(3, 5)
    again = load(save(circuit, tmp_path))
    assert again.dtype == torch.float64
    for name, value in circuit.state_dict().items():
        assert torch.equal(value, again.state_dict()[name]), name
    with torch.no_grad():
        assert torch.equal(predict(circuit, prompt), predict(again, prompt))
