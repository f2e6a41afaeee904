"""From blueprints to weights, against an interpreter that knows slots and no transformer."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

from innerloop.circuits import NAMES, TransformerCircuit, compile, read_settings
from innerloop.circuits.blueprint import Blueprint, Tokens
from innerloop.circuits.parts import Head, Layer, Neurons
from innerloop.circuits.residual import Residual, constant, join
from innerloop.core.errors import ConfigurationError, PromptError
from innerloop.core.iterate import iterate
from innerloop.core.prompt import Prompt
from innerloop.models import load, save
from tests.circuits.blueprints import DIMS, OUTPUTS, POINTS, a_prompt, draw, interpret

CASES: dict[str, dict[str, Any]] = {
    "a causal loop": {},
    "a full loop": {"mask": "full"},
    "a stack, a layer a step": {"looped": False},
    "a stack, both layers in one step": {"looped": False, "steps": 1},
    "a start token": {"start": True},
    "a stream": {"layout": "stream"},
    "a stream with a start token": {"layout": "stream", "start": True, "mask": "full"},
    "ReLU attention": {"attention": "relu", "mask": "full"},
    "linear attention": {"attention": "linear"},
    "divided by the tokens seen": {"attention": "linear", "divisor": None},
    "a divisor of its own": {"attention": "relu", "divisor": 3.0},
    "GELU": {"activation": "gelu"},
    "no layers before or after": {"looped": False, "pre": (), "post": ()},
    "no steps": {"steps": 0},
    "GPT-2's norms": {"norm": "pre", "activation": "gelu"},
    "a norm before the MLP alone": {"norm": "mlp-only", "activation": "gelu"},
    "norms, a start token": {"norm": "pre", "start": True, "looped": False},
}


@pytest.mark.parametrize("kind", CASES)
def test_weights_do_what_the_slots_say(kind: str, generator: torch.Generator) -> None:
    blueprint = draw(7, **CASES[kind])
    prompt = a_prompt(blueprint, generator)
    circuit = TransformerCircuit(blueprint)
    with torch.no_grad():
        found = [circuit.read(prompt, state) for state in iterate(circuit, prompt)]
    expected = interpret(blueprint, prompt)
    assert len(found) == len(expected) == blueprint.steps + 1
    # What passes a norm is off by about (v / N)^2 and by the rounding of N: eps N.
    tolerance = 1e-8 if blueprint.norm != "none" else 1e-12
    for own, wanted in zip(found, expected, strict=True):
        assert torch.allclose(own, wanted, rtol=tolerance, atol=tolerance)
    moved = blueprint.steps == 0 or not torch.allclose(expected[0], expected[-1], atol=1e-3)
    assert moved  # or the steps would not have been tested


def test_a_circuit_is_a_float64_model_of_its_size() -> None:
    blueprint = draw(1, norm="pre")
    circuit = TransformerCircuit(blueprint)
    shape = circuit.config.backbone
    assert circuit.dtype == torch.float64
    assert circuit.steps == 2
    assert circuit.name == "random"
    assert shape.width == 2 * blueprint.residual.width  # a mirror of every slot
    assert shape.sizes is not None
    assert [size.heads for size in shape.sizes] == [1, 2, 1, 1]
    assert [size.hidden for size in shape.sizes] == [0, 7, 3, 0]
    assert (blueprint.layers, blueprint.heads) == (1 + 2 * 2 + 1, 2)


def test_every_slot_has_a_mirror_that_stays_one(generator: torch.Generator) -> None:
    circuit = TransformerCircuit(draw(3, norm="pre", activation="gelu"))
    prompt = a_prompt(circuit.blueprint, generator)
    half = circuit.blueprint.residual.width
    with torch.no_grad():
        for state in iterate(circuit, prompt):
            tokens = circuit.hidden_states.features(prompt, state)  # (B, T, D)
            own, mirror = tokens[..., :half], tokens[..., half:]  # (B, T, D / 2) each
            # Rounding of the two need not be the same; that of a value read through N is eps N.
            assert torch.allclose(own, -mirror, rtol=1e-12, atol=1e-9)


@pytest.mark.parametrize("name", NAMES)
def test_circuits_are_saved_and_loaded_bit_for_bit(name: str, tmp_path: Path) -> None:
    circuit = read_settings(name, {}).build()
    loaded = load(save(circuit, tmp_path / "circuit"))
    assert loaded.config == circuit.config
    own, other = circuit.state_dict(), loaded.state_dict()
    assert list(own) == list(other)
    for key, value in own.items():
        assert value.dtype == other[key].dtype == torch.float64
        assert torch.equal(value, other[key])


def test_prompts_beyond_the_declared_bounds_are_refused(generator: torch.Generator) -> None:
    circuit = TransformerCircuit(draw(1, largest_input=5.0, largest_output=2.0))
    xs = torch.zeros(1, 3, DIMS, dtype=torch.float64)  # (1, 3, d)
    ys = torch.zeros(1, 3, OUTPUTS, dtype=torch.float64)  # (1, 3, k)
    xs[0, 1] = torch.tensor([3.0, 4.0])
    ys[0, 2] = 100.0  # the last y is never read
    circuit.init(Prompt(xs=xs, ys=ys))
    with pytest.raises(PromptError, match=r"\|x\| = 6, the model was made for at most 5"):
        circuit.init(Prompt(xs=1.2 * xs, ys=ys))
    ys[0, 0] = -2.5
    with pytest.raises(PromptError, match=r"\|y\| = 2.5, the model was made for at most 2"):
        circuit.init(Prompt(xs=xs, ys=ys))


def test_a_prompt_with_more_points_than_positions_is_refused(generator: torch.Generator) -> None:
    circuit = TransformerCircuit(draw(1))
    xs = torch.randn(1, POINTS + 1, DIMS, generator=generator, dtype=torch.float64)
    with pytest.raises(PromptError, match="9 tokens, the model has positions for 7"):
        circuit.init(Prompt(xs=xs, ys=xs[..., :1]))


STRANGER = Residual().slot("stranger", 2)
Changes = Callable[[Blueprint], dict[str, Any]]


def _first_head(**changes: Any) -> Changes:
    """Change the head of the layer before the loop."""

    def change(blueprint: Blueprint) -> dict[str, Any]:
        head = replace(blueprint.pre[0].heads[0], **changes)
        return {"pre": (Layer(heads=(head,), title="first"),)}

    return change


REFUSED: dict[str, tuple[Changes, str]] = {
    "no layers": (lambda _: {"body": ()}, "0 layers: expected at least 1, 0 and 1"),
    "no points": (lambda _: {"points": 0}, "0 points"),
    "layers that are no steps": (
        lambda _: {"looped": False, "steps": 3}, "2 layers for 3 steps: expected as many",
    ),
    "positions that come in again": (lambda _: {"pre": ()}, "come in at every loop"),
    "a norm without its slot": (lambda _: {"norm": "pre"}, "needs a slot and a scale"),
    "a norm without its scale": (
        lambda own: {"norm": "pre", "norm_slot": own.residual["one"]}, "needs a slot and a scale",
    ),
    "a norm's slot and no norm": (
        lambda own: {"norm_slot": own.residual["one"]}, "a circuit without has none",
    ),
    "reading a stranger": (_first_head(query=STRANGER), r"pre \(first\) reads unknown slot"),
    "writing a stranger": (
        _first_head(values={STRANGER: constant(1.0, 1.0)}), "'stranger', which is not declared",
    ),
    "unequal query and key": (_first_head(query=constant(1.0)), "compares 1 numbers with 2"),
    "an answer of another size": (
        lambda _: {"answer": constant(1.0, 2.0)}, "2 numbers, expected 1: one per output",
    ),
    "an answer from a stranger": (lambda _: {"answer": STRANGER}, "answer of random reads unknown"),
    "too few places": (
        lambda _: {"points": POINTS + 1}, r"writes \(7, 3\) numbers to slot 'place'",
    ),
}  # fmt: skip


@pytest.mark.parametrize("kind", REFUSED)
def test_what_does_not_fit_is_refused_before_any_weight(
    kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def never(*_: Any) -> None:
        raise AssertionError("a weight was built")

    monkeypatch.setattr("innerloop.circuits.circuit.InContextTransformer.__init__", never)
    changes, said = REFUSED[kind]
    blueprint = draw(1)
    with pytest.raises(ConfigurationError, match=said):
        TransformerCircuit(replace(blueprint, **changes(blueprint)))


@pytest.mark.parametrize("values", [1, 3])
def test_writes_of_the_wrong_size_are_refused(values: int) -> None:
    residual = Residual()
    x, answer = residual.slot("x", DIMS), residual.slot("answer", 1)
    wrong = Head(
        query=constant(1.0), key=constant(1.0), values={x: constant(*[1.0] * values)}, says=""
    )
    blueprint = replace(
        draw(1), residual=residual, answer=answer, pre=(), looped=False, post=(),
        tokens=Tokens(inputs={x: torch.eye(DIMS, dtype=torch.float64)}),
        body=(Layer(heads=(wrong,)),), steps=1,
    )  # fmt: skip
    with pytest.raises(ConfigurationError, match=rf"writes \({values},\) numbers to slot 'x'"):
        TransformerCircuit(blueprint)


def test_a_circuit_beyond_memory_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    expected = sum(value.numel() for value in compile("newton-relu", dims=7).state_dict().values())
    # What is counted are the matrices of blocks, which are nearly all of it.
    monkeypatch.setattr("innerloop.circuits.validate.MOST_WEIGHTS", 2 * expected)
    compile("newton-relu", dims=7)
    monkeypatch.setattr("innerloop.circuits.validate.MOST_WEIGHTS", expected // 2)
    with pytest.raises(ConfigurationError, match=r"weights in 1 layers .* take fewer dimensions"):
        compile("newton-relu", dims=7)


def test_a_slot_may_be_written_by_heads_and_neurons_of_one_layer() -> None:
    residual = Residual()
    x, answer = residual.slot("x", 1), residual.slot("answer", 1)
    ones = torch.ones(1, 1, dtype=torch.float64)
    own = Head(query=constant(0.0), key=constant(0.0), values={answer: constant(1.0)}, says="")
    unit = Neurons(inputs=join(answer + x), outputs={answer: 10 * ones}, says="")
    blueprint = Blueprint(
        name="both", source="nobody", algorithm="none", dims=1, points=2, residual=residual,
        tokens=Tokens(inputs={x: ones}), body=(Layer(heads=(own, own), neurons=(unit, unit)),),
        steps=1, looped=False, answer=answer,
    )  # fmt: skip
    xs = torch.tensor([[[3.0], [-4.0]]], dtype=torch.float64)  # (1, 2, 1)
    circuit = TransformerCircuit(blueprint)
    prompt = Prompt(xs=xs, ys=xs)
    with torch.no_grad():
        *_, state = iterate(circuit, prompt)
        found = circuit.read(prompt, state)[0, :, 0].tolist()
    # Two heads give 2; the neurons read that, and each adds 10 ReLU(2 + x).
    assert found == [2.0 + 2 * 10 * 5.0, 2.0]


@pytest.mark.parametrize(
    ("name", "settings", "said"),
    [
        ("newton-rely", {}, "did you mean 'newton-relu'"),
        ("newton-relu", {"stepz": 3}, "did you mean 'steps'"),
        ("newton-relu", {"dims": 0}, "greater than or equal to 1"),
        ("newton-relu", {"start": "soon"}, "valid number"),
    ],
)
def test_unknown_names_and_settings_are_one_sentence(
    name: str, settings: dict[str, Any], said: str
) -> None:
    with pytest.raises(ConfigurationError, match=said):
        compile(name, **settings)
