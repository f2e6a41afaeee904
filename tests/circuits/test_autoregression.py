"""Theorem 3.2 of Gao et al. (2025): copies of the last tokens, then as theorem 3.1."""

import math
from pathlib import Path

import pytest
import torch
from pydantic import ValidationError

from innerloop.analysis.verify import verify
from innerloop.circuits.autoregression import Autoregression
from innerloop.circuits.circuit import TransformerCircuit
from innerloop.circuits.softmax_products import Form
from innerloop.core.errors import PromptError
from innerloop.core.iterate import predict, trajectory
from innerloop.core.prompt import Prompt
from innerloop.core.tolerances import EXACT_CIRCUIT
from innerloop.models import load, save
from innerloop.studies.circuits import LOOSEST, Summary, verify_circuit
from innerloop.studies.equality import Equality
from innerloop.studies.gao_representation import ROWS, autoregression_learner

OWN = [row for row in ROWS if row.circuit == "autoregression"]


def draw(settings: Autoregression, seed: int, batch: int = 4) -> Prompt:
    generator = torch.Generator().manual_seed(seed)
    return OWN[0].task(settings).sample(batch, settings.points, generator=generator)


def worst(settings: Autoregression, prompt: Prompt) -> float:
    learner = autoregression_learner(settings)
    return verify(settings.build(), learner, prompt, tolerance=math.inf).worst.error


@pytest.mark.parametrize("row", OWN, ids=["tight", "printed"])
def test_every_step_is_gradient_descent_within_the_bound(row: Equality) -> None:
    """At every size, prefix and step; the bound is not idle; no more layers than the theorem's."""
    cases = list(verify_circuit(row, points=(4, 11)))
    assert len(cases) == 8
    for case in cases:
        assert case.holds, str(case)
        assert (
            case.shape.beyond(row.limit(row.settings(case.blueprint.dims, case.blueprint.points)))
            == []
        )
    loose = Summary(cases).looseness
    assert loose is not None
    assert loose <= LOOSEST


@pytest.mark.parametrize("order", [1, 4])
@pytest.mark.parametrize("layers", [1, 3])
def test_layers_and_heads_of_the_theorem(order: int, layers: int) -> None:
    """gao2025 theorem 3.2: a layer of q heads and L + 1 of one; here L, but at least 2, in all."""
    settings = Autoregression(dims=2, points=7, steps=3, order=order, layers=layers)
    blueprint = settings.blueprint()
    assert [len(layer.heads) for layer in blueprint.pre] == [order, 1, 0][: max(2, layers)]
    assert [len(layer.heads) for layer in blueprint.body] == [2]
    assert blueprint.post == ()
    assert blueprint.layers == max(2, layers) + 3


def test_the_history_is_copied_exactly_and_only_where_it_is_complete() -> None:
    settings = Autoregression(dims=2, points=7, steps=1, order=3)
    circuit, prompt = TransformerCircuit(settings.blueprint()), draw(settings, 0)
    with torch.no_grad():
        hidden = circuit.hidden_states.features(prompt, circuit.init(prompt))[:, 1:]  # (B, n, D)
    offsets = circuit.blueprint.residual.offsets()
    for lag in range(3):
        start = offsets[f"x[{lag}]"]
        found = hidden[..., start : start + 2]  # (B, n, 2)
        assert float(found[:, :2].abs().max()) < EXACT_CIRCUIT
        back = 2 - lag
        expected = prompt.xs[:, 2 - back : 7 - back]  # (B, 5, 2)
        assert float((found[:, 2:] - expected).abs().max()) < EXACT_CIRCUIT
    start = offsets["r"]
    target = hidden[..., start : start + 2]  # (B, n, 2)
    assert float((target[:, :-1] + prompt.xs[:, 1:]).abs().max()) < EXACT_CIRCUIT
    assert float(target[:, -1].abs().max()) < EXACT_CIRCUIT  # nothing follows the last token


def test_answers_are_zero_before_the_first_complete_history() -> None:
    settings = Autoregression(dims=2, points=7, steps=3, order=3)
    prompt = draw(settings, 1)
    with torch.no_grad():
        found = predict(settings.build(), prompt)  # (B, n, 2)
    expected = predict(autoregression_learner(settings), prompt)
    # Two histories are not complete, the third is the first and has no example before it.
    assert float(found[:, :3].abs().max()) < EXACT_CIRCUIT
    assert float(expected[:, :3].abs().max()) == 0.0
    assert float(expected[:, 3].abs().min()) > 0.0


@pytest.mark.parametrize(("form", "order"), [("tight", 2), ("printed", 1)])
def test_truncation_falls_with_the_scale_down_to_the_rounding_floor(form: Form, order: int) -> None:
    base = Autoregression(dims=3, points=8, steps=5, order=2, form=form)
    prompt = draw(base, 1)
    errors: dict[float, float] = {}
    for scale in (1e-3, 1e-4, 1e-5, 1e-9, 1e-10):
        settings = base.model_copy(update={"scale": scale})
        errors[scale] = worst(settings, prompt)
        assert errors[scale] <= settings.descent().bound(5).total
    assert abs(math.log10(errors[1e-3] / errors[1e-4]) - order) < 0.1
    assert errors[1e-4] > errors[1e-5]
    assert errors[1e-9] < errors[1e-10]


def test_what_does_not_fit_is_refused() -> None:
    with pytest.raises(ValidationError, match="take at least 4 points"):
        Autoregression(dims=2, points=3, order=3)
    circuit = Autoregression(dims=2, points=4, steps=1, order=1, largest_input=1.0).build()
    large = torch.full((1, 4, 2), 2.0, dtype=torch.float64)
    with pytest.raises(PromptError, match="made for at most"):
        circuit.init(Prompt(xs=large, ys=large, layout="stream"))


def test_saved_and_loaded_bit_for_bit(tmp_path: Path) -> None:
    settings = Autoregression(dims=2, points=5, steps=3, order=2)
    circuit, prompt = settings.build(), draw(settings, 5)
    again = load(save(circuit, tmp_path / "circuit"))
    with torch.no_grad():
        assert torch.equal(
            trajectory(circuit, prompt).predictions, trajectory(again, prompt).predictions
        )
