"""Sherman-Morrison updates as a transformer, three layers an example, against ridge."""

from typing import Literal

import numpy as np
import pytest
import torch
from pydantic import ValidationError

import innerloop as il
from innerloop.analysis.verify import Verification, verify
from innerloop.circuits.circuit import TransformerCircuit
from innerloop.circuits.sherman_morrison import ShermanMorrison
from innerloop.core.prompt import Prompt
from innerloop.core.tolerances import REFERENCE
from innerloop.learners import Ridge
from innerloop.learners.in_turn import InTurn
from innerloop.learners.sherman_morrison import ShermanMorrison as Updates
from innerloop.models import load, save
from innerloop.tasks import LinearRegression
from tests.circuits.interpreter import run
from tests.learners.references import normal

Norm = Literal["pre", "mlp-only"]
NORMS: tuple[Norm, ...] = ("pre", "mlp-only")


def sample(settings: ShermanMorrison, points: int, seed: int, noise: float | None = None) -> Prompt:
    """Prompts with the noise that the penalty is right for, unless another is given."""
    spread = settings.penalty**0.5 if noise is None else noise
    task = LinearRegression(dims=settings.dims, noise=spread, dtype="float64")
    return task.sample(8, points, generator=torch.Generator().manual_seed(seed))


def compare(
    settings: ShermanMorrison, prompt: Prompt, circuit: TransformerCircuit | None = None
) -> Verification:
    circuit = circuit or TransformerCircuit(settings.blueprint())
    bound = circuit.blueprint.bound
    ridge = InTurn(Ridge(settings.penalty), settings.steps)
    return verify(circuit, ridge, prompt, tolerance=lambda step: bound(step).total)


@pytest.mark.parametrize("norm", NORMS)
@pytest.mark.parametrize("dims", [1, 2, 5, 8])
def test_every_step_and_prefix_is_ridge(dims: int, norm: Norm) -> None:
    """Within the bound, which is at most 100 times what is found over the sizes and seeds."""
    shares: list[float] = []
    for points in (4, 11):
        settings = ShermanMorrison(dims=dims, points=points, steps=points - 1, norm=norm)
        circuit = TransformerCircuit(settings.blueprint())
        for seed in range(3):
            found = compare(settings, sample(settings, points, seed), circuit)
            assert found.holds, str(found)
            assert found.steps[0].error == 0
            shares += [step.error / step.tolerance for step in found.steps[1:]]
    assert max(shares) > 0.01


@pytest.mark.parametrize("norm", NORMS)
@pytest.mark.parametrize("penalty", [0.01, 0.1, 10.0])
@pytest.mark.parametrize("factor", [0.0, 1.0, 5.0])
def test_other_penalties_and_noise(penalty: float, factor: float, norm: Norm) -> None:
    noise = factor * penalty**0.5
    settings = ShermanMorrison(
        dims=4, points=9, steps=8, penalty=penalty, norm=norm, largest_output=18 + 4 * noise
    )
    found = compare(settings, sample(settings, 9, 1, noise=noise))
    assert found.holds, str(found)


def test_it_is_ridge_and_not_another() -> None:
    """Better than 1e-8 of ridge at a penalty of 0.01, and not that of one 1e-6 larger."""
    settings = ShermanMorrison(dims=3, points=6, steps=5, penalty=0.01)
    prompt = sample(settings, 6, 0)
    circuit = TransformerCircuit(settings.blueprint())
    for learner in (Ridge(0.01), Updates(0.01)):
        assert verify(circuit, InTurn(learner, 5), prompt, tolerance=REFERENCE).holds
    assert not verify(circuit, InTurn(Ridge(0.01 + 1e-6), 5), prompt, tolerance=REFERENCE).holds


@pytest.mark.parametrize("penalty", [0.1, 1.0, 10.0])
def test_the_bound_holds_at_the_declared_limits(penalty: float) -> None:
    """Random outputs leave residuals as large as themselves, which the bound has to be told."""
    settings = ShermanMorrison(dims=3, points=9, steps=8, penalty=penalty)
    settings = ShermanMorrison(
        dims=3, points=9, steps=8, penalty=penalty, largest_residual=settings.output_bound
    )
    xs = normal(0, 16, 9, 3)  # (16, 9, 3)
    xs = 0.999 * settings.input_bound * xs / xs.norm(dim=2, keepdim=True)
    ys = 0.999 * settings.output_bound * normal(1, 16, 9, 1).sign()  # (16, 9, 1)
    prompt = Prompt(xs=xs, ys=ys)
    found = compare(settings, prompt)
    assert found.holds, str(found)
    answers = il.trajectory(InTurn(Ridge(penalty), 8), prompt).predictions
    assert float(answers.abs().max()) <= settings.largest_prediction


def test_three_layers_a_step_and_linear_width() -> None:
    """akyurek2022 theorem 2: O(1) layers a step and O(d^2) width; 16 layers for 5 examples."""
    for dims in (1, 4, 12):
        blueprint = ShermanMorrison(dims=dims, points=6, steps=5).blueprint()
        assert blueprint.layers == 16
        assert blueprint.heads == 1
        assert blueprint.residual.width == 5 * dims + 13


@pytest.mark.parametrize("norm", NORMS)
def test_registers_keep_to_their_bounds(norm: Norm) -> None:
    """At every layer, on prompts at the declared limits; and so they hold what they are named."""
    settings = ShermanMorrison(dims=3, points=5, steps=4, penalty=0.3, norm=norm)
    xs = normal(0, 16, 5, 3)  # (16, 5, 3)
    xs = 0.999 * settings.input_bound * xs / xs.norm(dim=2, keepdim=True)
    prompt = Prompt(xs=xs, ys=0.999 * settings.output_bound * normal(1, 16, 5, 1).sign())
    program, circuit = settings.program(), TransformerCircuit(settings.blueprint())
    states = run(circuit, prompt)
    for values in states:
        for register in program.registers:
            assert float(np.abs(values[register.name]).max()) <= register.largest * (1 + 1e-9)
    last = states[-1]
    x = xs[:, :4].numpy()  # (16, 4, 3)
    a = np.linalg.inv(x.swapaxes(1, 2) @ x + 0.3 * np.eye(3))  # (16, 3, 3)
    own = xs[:, 4].numpy()  # (16, 3): the last x has seen all of them
    np.testing.assert_allclose(last["A x"][:, -1], (a @ own[..., None])[..., 0], atol=1e-8)
    w = (a @ x.swapaxes(1, 2) @ prompt.ys[:, :4].numpy())[..., 0]  # (16, 3)
    np.testing.assert_allclose(last["w"][:, -1], w, atol=1e-7)


def test_truncation_falls_to_the_rounding_floor() -> None:
    base = ShermanMorrison(dims=2, points=5, steps=4)
    prompt = sample(base, 5, 0)
    ridge = InTurn(Ridge(1.0), 4)
    scales = (0.25, 0.5, 1.0, None, 4096.0)
    errors = [
        verify(
            base.model_copy(update={"scale": s}).build(), ridge, prompt, tolerance=1e3
        ).worst.error
        for s in scales
    ]
    assert errors[1] < errors[0] / 16
    assert errors[2] < errors[1] / 16
    assert errors[3] < errors[2] / 16
    assert errors[4] > 16 * errors[3]


def test_what_the_norm_takes_away_falls_with_its_number() -> None:
    base = ShermanMorrison(dims=2, points=5, steps=4)
    prompt = sample(base, 5, 0)
    errors: list[float] = []
    for number in (1e5, 1e6, 1e7):
        found = compare(base.model_copy(update={"norm_scale": number}), prompt)
        assert found.holds, str(found)
        errors.append(found.worst.error)
    assert errors[1] < errors[0] / 50
    assert errors[2] < errors[1] / 50


def test_contract() -> None:
    settings = ShermanMorrison(dims=3, points=8, steps=7, largest_input=12.0, largest_output=30.0)
    il.check_learner(
        settings.build(), dims=3, points=8, outputs=(1,), tolerance=1e-6, scale=0.3,
        waived={
            "order": "weights in general promise nothing: ridge does not depend on the order",
            "rotation": "weights in general promise nothing: ridge is rotation equivariant",
            "linearity": "weights in general promise nothing: ridge is linear in y",
        },
    )  # fmt: skip


def test_saved_and_loaded_bit_for_bit(tmp_path: object) -> None:
    settings = ShermanMorrison(dims=2, points=4, steps=3)
    circuit = TransformerCircuit(settings.blueprint())
    again = load(save(circuit, f"{tmp_path}/sm"))
    prompt = sample(settings, 4, 0)
    with torch.no_grad():
        assert torch.equal(il.predict(circuit, prompt), il.predict(again, prompt))


@pytest.mark.parametrize(
    ("settings", "complaint"),
    [
        ({"points": 3, "steps": 3}, "at most one fewer than points"),
        ({"penalty": 0.0}, "greater than 0"),
        ({"norm": "none"}, "'pre' or 'mlp-only'"),
    ],
)
def test_what_does_not_fit_is_refused(settings: dict[str, object], complaint: str) -> None:
    with pytest.raises(ValidationError, match=complaint):
        ShermanMorrison.model_validate(settings)
