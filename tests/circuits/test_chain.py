"""Theorem 3.3 of Gao et al. (2025): the regression of the last token's level of a chain."""

import math
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from pydantic import ValidationError
from torch import Tensor

from innerloop.analysis.verify import verify
from innerloop.circuits.chain import Chain
from innerloop.circuits.circuit import TransformerCircuit
from innerloop.circuits.softmax_products import Form
from innerloop.core.errors import PromptError
from innerloop.core.iterate import predict, trajectory
from innerloop.core.prompt import Prompt
from innerloop.core.tolerances import EXACT_CIRCUIT
from innerloop.learners import GradientDescent
from innerloop.models import load, save
from innerloop.studies.circuits import LOOSEST, Summary, verify_circuit
from innerloop.studies.equality import Equality
from innerloop.studies.gao_representation import ROWS, chain_learner

OWN = [row for row in ROWS if row.circuit == "chain"]


def draw(settings: Chain, seed: int, batch: int = 4) -> Prompt:
    generator = torch.Generator().manual_seed(seed)
    return OWN[0].task(settings).sample(batch, settings.points, generator=generator)


def worst(settings: Chain, prompt: Prompt) -> float:
    learner = chain_learner(settings)
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


def test_the_learner_is_plain_gradient_descent_on_one_level() -> None:
    """Written out by hand: the tokens of one level, the next ones without their activation."""
    settings = Chain(dims=2, points=12, steps=7, layers=3, slope=0.2)
    prompt = draw(settings, 0)
    found = predict(chain_learner(settings), prompt)  # (B, n, d)
    size = settings.descent().step_size
    for i in range(12):
        level = i % 4
        if level == 3:
            assert float(found[:, i].abs().max()) == 0.0
            continue
        before = list(range(level, i, 4))
        after = prompt.ys[:, before]  # (B, m, d)
        targets = torch.where(after < 0, after / 0.2, after)  # (B, m, d)
        last = targets.new_zeros(4, 1, 2)  # (B, 1, d)
        part = Prompt(xs=prompt.xs[:, [*before, i]], ys=torch.cat([targets, last], dim=1))
        answer = predict(GradientDescent(7, step_size=size), part)[:, -1]  # (B, d)
        expected = torch.where(answer < 0, 0.2 * answer, answer)  # (B, d)
        assert float((found[:, i] - expected).abs().max()) < EXACT_CIRCUIT


@pytest.mark.parametrize("layers", [1, 6])
def test_layers_and_heads_of_the_theorem(layers: int) -> None:
    """gao2025 theorem 3.3: 7 layers of two heads, one of two, one of one; here 1, 1 and 1."""
    blueprint = Chain(dims=2, points=9, steps=3, layers=layers).blueprint()
    parts = (blueprint.pre, blueprint.body, blueprint.post)
    assert [[len(layer.heads) for layer in part] for part in parts] == [[1], [2], [0]]
    assert blueprint.layers == 5


def test_the_inverse_is_exact_and_the_last_token_has_no_target() -> None:
    settings = Chain(dims=3, points=8, steps=1, layers=2)
    circuit, prompt = TransformerCircuit(settings.blueprint()), draw(settings, 0)
    with torch.no_grad():
        hidden = circuit.hidden_states.features(prompt, circuit.init(prompt))[:, 1:]  # (B, n, D)
    start = circuit.blueprint.residual.offsets()["r"]
    found = hidden[..., start : start + 3]  # (B, n, 3)
    after = prompt.xs[:, 1:]  # (B, n - 1, 3)
    expected = -torch.where(after < 0, after / settings.slope, after)  # (B, n - 1, 3)
    assert float((found[:, :-1] - expected).abs().max()) < EXACT_CIRCUIT
    assert float(found[:, -1].abs().max()) < EXACT_CIRCUIT


@pytest.mark.parametrize("level", [0, 1])
def test_the_filter_is_exact(level: int) -> None:
    """Tokens of no part in the last token's regression may be anything: its answer stays."""
    settings = Chain(dims=2, points=9 + level, steps=5, layers=3)
    circuit, prompt = settings.build(), draw(settings, 2)
    place = torch.arange(settings.points) % 4  # (n,)
    assert int(place[-1]) == level
    idle = (place != level) & (place != level + 1)  # (n,)
    other = prompt.xs.clone()  # (B, n, d)
    other[:, idle] = 0.3
    answers: list[Tensor] = []
    for tokens in (prompt.xs, other):
        ys = torch.cat([tokens[:, 1:], torch.zeros_like(tokens[:, :1])], dim=1)  # (B, n, d)
        with torch.no_grad():
            answers.append(predict(circuit, Prompt(xs=tokens, ys=ys, layout="stream"))[:, -1])
    assert float(answers[0].abs().max()) > 0.0
    assert float((answers[0] - answers[1]).abs().max()) < EXACT_CIRCUIT


def test_the_last_level_has_no_next_state_and_answers_zero() -> None:
    settings = Chain(dims=2, points=12, steps=4, layers=2)
    prompt = draw(settings, 3)
    assert prompt.scored is not None
    with torch.no_grad():
        found = predict(settings.build(), prompt)  # (B, n, 2)
    assert float(found[~prompt.scored].abs().max()) < EXACT_CIRCUIT
    everywhere = replace(prompt, scored=None)
    bound = settings.descent().bound
    found = verify(
        settings.build(),
        chain_learner(settings),
        everywhere,
        tolerance=lambda step: bound(step).total,
    )
    assert found.holds, str(found)


@pytest.mark.parametrize(("form", "order"), [("tight", 2), ("printed", 1)])
def test_truncation_falls_with_the_scale_down_to_the_rounding_floor(form: Form, order: int) -> None:
    base = Chain(dims=3, points=13, steps=5, layers=2, form=form, largest_input=4.0)
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
    with pytest.raises(ValidationError, match="has no inverse"):
        Chain(dims=2, slope=0.0)
    with pytest.raises(ValidationError, match="take at least 8 points"):
        Chain(dims=2, points=7, layers=6)
    circuit = Chain(dims=2, points=8, steps=1, layers=2, largest_input=1.0).build()
    large = torch.full((1, 4, 2), 2.0, dtype=torch.float64)
    with pytest.raises(PromptError, match="made for at most"):
        circuit.init(Prompt(xs=large, ys=large, layout="stream"))


def test_saved_and_loaded_bit_for_bit(tmp_path: Path) -> None:
    settings = Chain(dims=2, points=7, steps=3, layers=2)
    circuit, prompt = settings.build(), draw(settings, 5)
    again = load(save(circuit, tmp_path / "circuit"))
    with torch.no_grad():
        assert torch.equal(
            trajectory(circuit, prompt).predictions, trajectory(again, prompt).predictions
        )
