"""Theorem 3.1 of Gao et al. (2025): a representation by MLPs, then gradient descent by softmax."""

import math
from pathlib import Path

import pytest
import torch
from torch import Tensor

from innerloop.analysis.verify import verify
from innerloop.circuits.circuit import TransformerCircuit
from innerloop.circuits.leaky import LeakyNetwork
from innerloop.circuits.representation import Representation
from innerloop.circuits.softmax_products import Form
from innerloop.core.errors import ConfigurationError, PromptError
from innerloop.core.iterate import predict, trajectory
from innerloop.core.prompt import Prompt
from innerloop.core.tolerances import EXACT_CIRCUIT
from innerloop.models import load, save
from innerloop.studies.circuits import LOOSEST, Summary, verify_circuit
from innerloop.studies.equality import Equality
from innerloop.studies.gao_representation import ROWS, representation_learner

OWN = [row for row in ROWS if row.circuit == "representation"]


def draw(settings: Representation, seed: int, batch: int = 4) -> Prompt:
    generator = torch.Generator().manual_seed(seed)
    return OWN[0].task(settings).sample(batch, settings.points, generator=generator)


def worst(settings: Representation, prompt: Prompt) -> float:
    learner = representation_learner(settings)
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


@pytest.mark.parametrize("layers", [1, 3])
def test_layers_and_heads_of_the_theorem(layers: int) -> None:
    """gao2025 theorem 3.1: L + 1 layers of two heads, one of two, one of one; here L, 1 and 0."""
    blueprint = Representation(dims=3, points=6, steps=5, layers=layers).blueprint()
    assert [len(layer.heads) for layer in blueprint.pre] == [1, 0, 0][:layers]
    assert [len(layer.heads) for layer in blueprint.body] == [2]
    assert blueprint.post == ()
    assert blueprint.layers == layers + 5


def test_the_representation_is_exact_and_paired() -> None:
    """The token of y_j holds Phi(x_j), as that of x_j does."""
    settings = Representation(dims=4, points=6, steps=1)
    circuit, prompt = TransformerCircuit(settings.blueprint()), draw(settings, 0)
    with torch.no_grad():
        hidden = circuit.hidden_states.features(prompt, circuit.init(prompt))  # (B, T, D)
    at = circuit.blueprint.residual.offsets()["h3"]
    found = hidden[:, 1:, at : at + 4]  # (B, 11, 4)
    expected: Tensor = prompt.xs
    for weight in settings.network.weights:
        expected = torch.nn.functional.leaky_relu(expected @ weight, settings.slope)  # (B, n, 4)
    assert float((found[:, 0::2] - expected).abs().max()) < EXACT_CIRCUIT
    assert float((found[:, 1::2] - expected[:, :-1]).abs().max()) < EXACT_CIRCUIT


@pytest.mark.parametrize(("form", "order"), [("tight", 2), ("printed", 1)])
def test_truncation_falls_with_the_scale_down_to_the_rounding_floor(form: Form, order: int) -> None:
    base = Representation(dims=5, points=8, steps=6, outputs=2, form=form)
    prompt = draw(base, 1)
    errors: dict[float, float] = {}
    # Below 1e-3 the largest score times c is far below 1, so that the next order does not show.
    for scale in (1e-3, 1e-4, 1e-5, 1e-9, 1e-10):
        settings = base.model_copy(update={"scale": scale})
        errors[scale] = worst(settings, prompt)
        assert errors[scale] <= settings.descent().bound(6).total
    assert abs(math.log10(errors[1e-3] / errors[1e-4]) - order) < 0.1
    assert errors[1e-4] > errors[1e-5]
    assert errors[1e-9] < errors[1e-10]
    chosen = worst(base, prompt)
    assert chosen < errors[1e-4]
    assert chosen < errors[1e-10]


def test_the_printed_form_is_worse() -> None:
    tight = Representation(dims=3, points=8, steps=6)
    prompt = draw(tight, 2)
    printed = tight.model_copy(update={"form": "printed"})
    assert worst(tight, prompt) < worst(printed, prompt) / 10
    assert tight.descent().bound(6).total < printed.descent().bound(6).total / 10


@pytest.mark.parametrize("form", ["tight", "printed"])
def test_the_bound_holds_at_the_edge_of_what_is_declared(form: Form) -> None:
    """All inputs of the largest size in the direction of the largest gain, all outputs alike."""
    settings = Representation(
        dims=2, points=9, steps=10, form=form, largest_input=3.0, largest_output=5.0
    )
    angle = torch.linspace(0, 2 * math.pi, 4001, dtype=torch.float64)  # (a,)
    circle = torch.stack([angle.cos(), angle.sin()], dim=1)  # (a, 2)
    size = circle
    for weight in settings.network.weights:
        size = torch.nn.functional.leaky_relu(size @ weight, settings.slope)  # (a, 2)
    lengths = size.norm(dim=1)  # (a,)
    assert settings.network.gain() == pytest.approx(float(lengths.max()), rel=1e-5)
    best = 3 * (1 - 1e-9) * circle[lengths.argmax()]  # (2,)
    ys = torch.full((1, 9, 1), 5.0, dtype=torch.float64)
    alternating = ys * torch.tensor([1.0, -1.0] * 5, dtype=torch.float64)[:9, None]  # (1, 9, 1)
    bound = settings.descent().bound
    for outputs in (ys, alternating):
        prompt = Prompt(xs=best.expand(1, 9, 2), ys=outputs)
        found = verify(
            settings.build(),
            representation_learner(settings),
            prompt,
            tolerance=lambda step: bound(step).total,
        )
        assert found.holds, str(found)


def test_queries_are_answered_as_inputs_are() -> None:
    settings = Representation(dims=3, points=5, steps=4, outputs=2)
    generator = torch.Generator().manual_seed(3)
    asked = torch.randn(4, 5, 3, 3, generator=generator, dtype=torch.float64)
    prompt = draw(settings, 3).ask(asked)
    with torch.no_grad():
        found = predict(settings.build(), prompt)  # (B, n, q, k)
    expected = predict(representation_learner(settings), prompt)
    assert float((found - expected).abs().max()) <= settings.descent().bound(4).total


def test_prompts_beyond_the_bounds_are_refused() -> None:
    settings = Representation(dims=2, points=4, steps=2, largest_input=2.0, largest_output=3.0)
    circuit = settings.build()
    for xs, ys in ((5.0, 0.0), (0.0, 5.0)):
        prompt = Prompt(
            xs=torch.full((1, 4, 2), xs, dtype=torch.float64),
            ys=torch.full((1, 4, 1), ys, dtype=torch.float64),
        )
        with pytest.raises(PromptError, match="made for at most"):
            circuit.init(prompt)


def test_matrices_that_do_not_fit_are_refused() -> None:
    for matrices in ((), (((1.0, 2.0),),), (((1.0,), (1.0, 2.0)),), (((1.0,), (1.0,)),) * 2):
        with pytest.raises(ConfigurationError, match=r"representation has no layer|rows of one"):
            Representation(dims=2, representation=matrices).build()
    with pytest.raises(ConfigurationError, match="0 for all inputs"):
        Representation(dims=1, representation=(((0.0,),),)).build()


def test_a_scale_whose_scores_reach_the_sink_is_refused() -> None:
    with pytest.raises(ConfigurationError, match="take a scale below"):
        Representation(dims=2, points=4, scale=1.0).build()


def test_a_given_representation_is_used() -> None:
    """That of the drawn network, given as numbers, makes the same weights."""
    drawn = Representation(dims=3, points=5, steps=2, layers=2, seed=4)
    matrices = tuple(tuple(map(tuple, weight.tolist())) for weight in drawn.network.weights)
    given = Representation(dims=3, points=5, steps=2, layers=2, representation=matrices)
    other = given.build().state_dict()
    for name, value in drawn.build().state_dict().items():
        assert torch.equal(value, other[name])


def test_a_drawn_representation_keeps_the_size_of_inputs() -> None:
    """E|Phi(x)|^2 is the width, up to the sampling error of the draws, well below a tenth."""
    generator = torch.Generator().manual_seed(9)
    inputs = torch.randn(20_000, 2, generator=generator, dtype=torch.float64)
    for seed in range(3):
        phi = LeakyNetwork.draw(2, 4, 3, 0.01, seed)
        assert float(phi(inputs).square().sum(dim=1).mean()) == pytest.approx(4, rel=0.1)


def test_the_gain_of_a_linear_network_is_its_norm() -> None:
    generator = torch.Generator().manual_seed(0)
    first = torch.randn(4, 6, generator=generator, dtype=torch.float64)
    second = torch.randn(6, 3, generator=generator, dtype=torch.float64)
    network = LeakyNetwork((first, second), slope=1.0)
    assert network.gain() == pytest.approx(float(torch.linalg.matrix_norm(first @ second, 2)))


def test_saved_and_loaded_bit_for_bit(tmp_path: Path) -> None:
    settings = Representation(dims=3, points=5, steps=3)
    circuit, prompt = settings.build(), draw(settings, 5)
    again = load(save(circuit, tmp_path / "circuit"))
    with torch.no_grad():
        assert torch.equal(
            trajectory(circuit, prompt).predictions, trajectory(again, prompt).predictions
        )
