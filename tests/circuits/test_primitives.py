"""Akyurek et al. (2022), lemma 1: mov, mul, div and aff, each in one layer, under both norms."""

from dataclasses import replace
from itertools import pairwise
from typing import Literal

import numpy as np
import pytest
import torch
from torch import Tensor

from innerloop.circuits.circuit import TransformerCircuit
from innerloop.circuits.gelu import Form, best_scale, gelu_add, gelu_products, product_error
from innerloop.circuits.parts import Neurons
from innerloop.circuits.primitives import Aff, Div, Group, Mov, Mul, clear
from innerloop.circuits.program import Program, Register
from innerloop.circuits.program_layers import program_blueprint
from innerloop.circuits.residual import Residual
from innerloop.core.errors import ConfigurationError
from innerloop.core.prompt import Prompt
from innerloop.core.tolerances import EXACT_CIRCUIT
from tests.circuits.interpreter import compiled, interpret, run
from tests.learners.references import normal

Norm = Literal["pre", "mlp-only"]
NORMS: tuple[Norm, ...] = ("pre", "mlp-only")
FORMS: tuple[Form, ...] = ("tight", "printed")
POINTS = 5
TOKENS = 2 * POINTS
EPS = float(torch.finfo(torch.float64).eps)


def random_register(name: str, size: int, seed: int, largest: float = 3.0) -> Register:
    """Uniform numbers within the bound, on every token."""
    generator = torch.Generator().manual_seed(seed)
    drawn = torch.rand(TOKENS, size, generator=generator, dtype=torch.float64)  # (T, size)
    return Register(name=name, size=size, largest=largest, places=largest * (2 * drawn - 1))


def program(
    *groups: Group, registers: tuple[Register, ...], norm: Norm = "pre", form: Form = "tight"
) -> Program:
    flag = Register(name="flag", size=1, largest=1.0)
    return Program(
        name="test", dims=2, points=POINTS, registers=(*registers, flag), groups=groups,
        norm=norm, form=form,
    )  # fmt: skip


def a_prompt(batch: int = 2) -> Prompt:
    return Prompt(xs=normal(0, batch, POINTS, 2), ys=normal(1, batch, POINTS, 1))


def distance(found: dict[str, np.ndarray], expected: dict[str, np.ndarray], name: str) -> float:
    return float(np.abs(found[name] - expected[name]).max())


def in_one_layer(one: Program) -> TransformerCircuit:
    circuit = compiled(one)
    assert circuit.blueprint.layers == 1
    return circuit


@pytest.mark.parametrize("norm", NORMS)
@pytest.mark.parametrize("add", [False, True])
@pytest.mark.parametrize("place", [0, 3, TOKENS - 1])
def test_mov_from_a_place(norm: Norm, add: bool, place: int) -> None:
    a, b = random_register("a", 3, 0), random_register("b", 3, 1)
    mov = Mov(source="a", to="b", place=place, factor=-0.5, add=add)
    found = run(in_one_layer(program((mov,), registers=(a, b), norm=norm)), a_prompt())[-1]["b"]
    assert a.places is not None
    assert b.places is not None
    for token in range(TOKENS):
        source = a.places[place if place <= token else 0]
        expected = -0.5 * source + (b.places[token] if add else 0)
        assert float(np.abs(found[:, token] - expected.numpy()).max()) < EXACT_CIRCUIT


@pytest.mark.parametrize("norm", NORMS)
@pytest.mark.parametrize("back", [0, 1, 4])
def test_mov_from_a_distance(norm: Norm, back: int) -> None:
    a, b = random_register("a", 2, 0), random_register("b", 2, 1)
    mov = Mov(source="a", to="b", back=back)
    found = run(in_one_layer(program((mov,), registers=(a, b), norm=norm)), a_prompt())[-1]["b"]
    assert a.places is not None
    for token in range(TOKENS):
        expected = a.places[max(0, token - back)].numpy()
        assert float(np.abs(found[:, token] - expected).max()) < EXACT_CIRCUIT


@pytest.mark.parametrize("norm", NORMS)
@pytest.mark.parametrize("form", FORMS)
def test_aff(norm: Norm, form: Form) -> None:
    registers = (random_register("a", 3, 0), random_register("b", 2, 1), random_register("c", 4, 2))
    first, second, shift = normal(3, 4, 3), normal(4, 4, 2), normal(5, 4)
    aff = Aff(to="c", terms=((first, "a"), (second, "b")), constant=shift)
    one = program((aff,), registers=registers, norm=norm, form=form)
    one = replace(
        one, registers=(*registers[:2], replace(registers[2], largest=30), one.registers[3])
    )
    found = run(in_one_layer(one), a_prompt())[-1]
    a, b = registers[0].places, registers[1].places
    assert a is not None
    assert b is not None
    expected = a @ first.T + b @ second.T + shift  # (T, 4)
    assert float(np.abs(found["c"] - expected.numpy()).max()) < EXACT_CIRCUIT


@pytest.mark.parametrize("norm", NORMS)
@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("shape", [(1, 1, 1), (1, 4, 1), (3, 1, 2), (2, 3, 2)])
def test_mul(norm: Norm, form: Form, shape: tuple[int, int, int]) -> None:
    a, b, c = shape
    one = program(
        (Mul(left="left", right="right", to="out", shape=shape, factor=2.0),),
        registers=(
            random_register("left", a * b, 0),
            random_register("right", b * c, 1, largest=50.0),
            random_register("out", a * c, 2),
        ),
        norm=norm,
        form=form,
    )
    found = run(in_one_layer(one), a_prompt())[-1]["out"]
    left, right = (register.places for register in one.registers[:2])
    assert left is not None
    assert right is not None
    product = left.reshape(-1, a, b) @ right.reshape(-1, b, c)  # (T, a, c)
    error = float(np.abs(found - 2 * product.flatten(1).numpy()).max())
    assert error <= 2 * b * 3 * 50 * one.unit_error.total


@pytest.mark.parametrize("norm", NORMS)
@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("sign", [1.0, -1.0])
def test_div_by_the_absolute_value(norm: Norm, form: Form, sign: float) -> None:
    """One layer; what follows it reads and moves as if nothing had happened."""
    value, old = random_register("value", 3, 0), random_register("out", 3, 1)
    drawn = random_register("c", 1, 2, largest=2.0).places
    assert drawn is not None
    divisor = drawn.abs().clamp(min=0.05) * sign  # (T, 1)
    registers = (
        value,
        replace(old, largest=60.0),
        Register(name="c", size=1, largest=2.0, places=divisor),
        Register(name="square", size=1, largest=2.0, places=divisor.square() / 2),
        Register(name="later", size=3, largest=60.0),
    )
    square = "square" if norm == "pre" else None
    groups = (
        (Div(value="value", divisor="c", to="out", square=square, square_factor=0.5),),
        (Mov(source="out", to="later", back=1),),
        (Mul(left="later", right="c", to="later", shape=(3, 1, 1)),),
    )
    one = program(*groups, registers=registers, norm=norm, form=form)
    circuit = compiled(one)
    assert circuit.blueprint.layers == 3
    found, expected = run(circuit, a_prompt()), interpret(one, a_prompt())
    assert value.places is not None
    np.testing.assert_allclose(
        expected[1][0]["out"][0], (value.places / divisor.abs()).numpy(), rtol=1e-12
    )
    assert distance(found[1], expected[1][0], "out") < EXACT_CIRCUIT
    assert distance(found[2], expected[2][0], "later") < EXACT_CIRCUIT
    error = distance(found[3], expected[3][0], "later")
    assert error <= 2 * 60 * 2 * one.unit_error.total


@pytest.mark.parametrize("norm", NORMS)
def test_divisions_one_after_the_other(norm: Norm) -> None:
    """The second puts its divisor into the slot that the first has to be cleared from."""
    number = torch.tensor([1.7], dtype=torch.float64)  # (1,)
    divisor = Register(name="c", size=1, largest=2.0, constant=number)
    square = Register(name="square", size=1, largest=4.0, constant=number.square())
    registers = (random_register("a", 3, 0), random_register("b", 3, 1), divisor, square)
    there = Div(value="a", divisor="c", to="b", square="square" if norm == "pre" else None)
    back = replace(there, value="b", to="a")
    one = program((there,), (back,), (there,), (back,), registers=registers, norm=norm)
    found = run(compiled(one), a_prompt())
    assert registers[0].places is not None
    expected = (registers[0].places / 1.7**4).numpy()
    assert float(np.abs(found[-1]["a"] - expected).max()) < EXACT_CIRCUIT


def units(neurons: Neurons, values: Tensor) -> Tensor:
    """What neurons add, as the model computes it: (m, size) from (m, slots)."""
    before = values @ torch.cat(list(neurons.inputs.terms.values()), dim=1).T
    (outward,) = neurons.outputs.values()
    after = torch.nn.functional.gelu(before + neurons.inputs.constant) @ outward.T
    (shift,) = neurons.constants.values() or (torch.zeros(outward.shape[0]).double(),)
    return after + shift


def product_distance(scale: float, form: Form) -> float:
    """The worst error of a product of operands up to 1, corners included."""
    residual = Residual()
    u, v, out = (residual.slot(name, 1) for name in ("u", "v", "out"))
    eye = torch.ones(1, 1, dtype=torch.float64)  # (1, 1)
    neurons = gelu_products(
        u, v, {out: eye}, largest=(1.0, 1.0), scale=scale, form=form, says="u v"
    )
    values = 2 * torch.rand(5000, 2, generator=torch.Generator().manual_seed(0)).double() - 1
    values[:4] = torch.tensor([[1, 1], [1, -1], [-1, 1], [-1, -1]])
    return float((units(neurons, values)[:, 0] - values.prod(dim=1)).abs().max())


@pytest.mark.parametrize(("form", "order"), [("tight", 8), ("printed", 2)])
def test_truncation_falls_with_the_scale(form: Form, order: int) -> None:
    """By 2^-order a doubling, from as much as is stated."""
    scales = [2.0, 4.0, 8.0] if form == "tight" else [64.0, 128.0, 256.0, 512.0]
    found = [product_distance(scale, form) for scale in scales]
    for scale, error in zip(scales, found, strict=True):
        stated = product_error(scale, form).truncation
        # Orders beyond the first one have the other sign, and count where the scale is small.
        assert error <= stated + product_error(scale, form).rounding
        assert error >= stated / 2
    for coarse, fine in pairwise(found):
        assert fine < coarse / 2 ** (order - 0.5)


@pytest.mark.parametrize("form", FORMS)
def test_rounding_grows_with_the_scale(form: Form) -> None:
    """Beyond the best scale the error grows as the scale does: there is a floor."""
    best = best_scale(form)
    floor = product_distance(best, form)
    assert floor <= product_error(best, form).total <= 100 * floor
    for scale in (16 * best, 256 * best):
        error = product_distance(scale, form)
        assert floor < error <= product_error(scale, form).total <= 100 * error


def test_the_tight_product_is_a_thousand_times_better() -> None:
    tight, printed = (product_distance(best_scale(form), form) for form in FORMS)
    assert tight < 1e-13
    assert printed > 1000 * tight


@pytest.mark.parametrize("form", FORMS)
def test_numbers_pass_the_mlp(form: Form) -> None:
    residual = Residual()
    neurons = gelu_add(
        residual.slot("a", 3), residual.slot("b", 3), largest=50, form=form, says="a"
    )
    values = 50 * (2 * torch.rand(1000, 3, generator=torch.Generator().manual_seed(0)).double() - 1)
    error = float((units(neurons, values) - values).abs().max())
    assert error <= (EPS * 50 if form == "tight" else 2 * EPS * 109)


@pytest.mark.parametrize("norm", NORMS)
def test_what_the_norm_takes_away_falls_as_the_square_of_its_number(norm: Norm) -> None:
    registers = (random_register("a", 3, 0), random_register("b", 3, 1))
    found: list[float] = []
    for number in (1e2, 1e3, 1e4):
        eye = torch.eye(3, dtype=torch.float64)  # (3, 3)
        one = program((Aff(to="b", terms=((eye, "a"),)),), registers=registers, norm=norm)
        one = replace(one, norm_scale=number)
        assert registers[0].places is not None
        error = np.abs(run(compiled(one), a_prompt())[-1]["b"] - registers[0].places.numpy()).max()
        # a, and the b that is taken away, are read a little too small
        assert error <= 2 * 3 * (one.size / number) ** 2 / 2
        found.append(float(error))
    assert found[1] < found[0] / 50
    assert found[2] < found[1] / 50


A, B = random_register("a", 2, 0), random_register("b", 2, 1)
C = Register(name="c", size=1, largest=2.0, constant=torch.ones(1).double())
Q = Register(name="q", size=1, largest=2.0, constant=torch.ones(1).double())
X = Register(name="x", size=1, largest=2.0, inputs=torch.ones(1, 2).double())
Z = Register(name="z", size=1, largest=2.0)
ONE = Mov(source="a", to="b", back=1)


@pytest.mark.parametrize(
    ("groups", "complaint"),
    [
        ((), "has no groups"),
        (((),), "group 0 of test is empty"),
        (((Mov(source="d", to="b", back=1),),), "unknown register 'd'"),
        (((Mov(source="a", to="B", back=1),),), "unknown register 'B': did you mean 'b'"),
        (((Mov(source="a", to="c", back=1),),), r"sizes \[1\], expected \[2\]"),
        (((Mov(source="a", to="b"),),), "from place None and None back: give either"),
        (((Mov(source="a", to="b", place=1, back=1),),), "give either of them"),
        (((ONE,), (Mov(source="a", to="b", place=TOKENS),)), "group 1 .* from 10, of 10 places"),
        (((Mov(source="a", to="b", back=-1),),), "from -1, of 10 places"),
        (((Mul(left="a", right="b", to="c", shape=(2, 1, 2)),),), r"expected \[2, 2, 4\]"),
        (((Aff(to="c", terms=((torch.ones(2, 1), "a"),)),),), r"sizes \[\(2, 1\)\]"),
        (((Aff(to="c", constant=torch.ones(2)),),), r"sizes \[\(2,\)\]"),
        (((ONE, ONE),), "writes 'b' twice at once"),
        (((*clear("b"), Mul(left="a", right="c", to="b", shape=(2, 1, 1), add=True)),), "twice"),
        (((Div(value="a", divisor="c", to="b"),),), "give the register of its square"),
        (((Div(value="a", divisor="b", to="a", square="q"),),), r"sizes \[2, 2, 1\]"),
        (((Div(value="a", divisor="c", to="b", square="q"), *clear("a")),), "group of its own"),
        (
            (
                (
                    Div(value="a", divisor="c", to="b", square="q"),
                    Div(value="a", divisor="x", to="a", square="q"),
                ),
            ),
            "divides by 2 registers: take a group for each",
        ),
        (((Div(value="z", divisor="q", to="c", square="c"),),), "by 'q' and writes it"),
        (((Div(value="a", divisor="c", to="a", square="q"),),), "divide into another register"),
        (((ONE, Div(value="a", divisor="c", to="b", square="q")),), "or moves to it"),
        (((Div(value="a", divisor="c", to="b", square="q", square_factor=0.0),),), "above 0"),
        (((Div(value="a", divisor="z", to="b", square="q"),),), "'z' is zero at the start token"),
        (((Div(value="a", divisor="c", to="b", square="z"),),), "'z' is zero at the start token"),
        (
            (clear("c"), (Div(value="a", divisor="c", to="b", square="q"),)),
            "group 1 of test divides by 'c', but 'c' is zero at the start token",
        ),
        (
            (
                (Mov(source="x", to="z", place=1, add=True),),
                (Mov(source="q", to="z", place=0, add=True),),
                (Mul(left="z", right="x", to="z", shape=(1, 1, 1)),),
                (Aff(to="z", terms=((torch.ones(1, 1).double(), "c"),), add=True),),
                (Mul(left="z", right="x", to="z", shape=(1, 1, 1)),),
                (Div(value="a", divisor="z", to="b", square="q"),),
            ),
            "group 5 of test divides by 'z', but 'z' is zero at the start token",
        ),
        (((Div(value="a", divisor="y", to="b", square="q"),),), "is zero at the token y_0"),
    ],
)
def test_what_does_not_fit_is_refused(groups: tuple[Group, ...], complaint: str) -> None:
    y = replace(X, name="y", places=torch.eye(TOKENS, 1).double())  # on x tokens, and the start
    one = program(*groups, registers=(A, B, C, Q, X, Z, y))
    with pytest.raises(ConfigurationError, match=complaint):
        compiled(one)


@pytest.mark.parametrize(
    ("register", "complaint"),
    [
        (replace(A, name="b"), "declared twice"),
        (replace(A, name="norm"), "named as one of"),
        (replace(A, name="c", largest=0.0), "a finite number above 0"),
        (replace(A, name="c", places=torch.ones(3, 2)), r"shape \(3, 2\), expected \(10, 2\)"),
        (replace(A, name="c", inputs=torch.ones(2, 3)), r"shape \(2, 3\), expected \(2, 2\)"),
    ],
)
def test_registers_that_do_not_fit_are_refused(register: Register, complaint: str) -> None:
    with pytest.raises(ConfigurationError, match=complaint):
        compiled(program((ONE,), registers=(A, B, register)))


def test_a_divisor_that_was_moved_from_where_it_is_not_zero_is_taken() -> None:
    groups = (
        (Mov(source="c", to="z", back=2),),
        (Div(value="a", divisor="z", to="b", square="q"),),
    )
    one = program(*groups, registers=(A, B, C, Q, Z))
    assert A.places is not None
    assert float(np.abs(run(compiled(one), a_prompt())[-1]["b"] - A.places.numpy()).max()) < 1e-10


def test_a_program_says_what_its_layers_do() -> None:
    from innerloop.circuits.explain import layer_table

    one = program(
        (Mov(source="a", to="b", back=1),),
        (Div(value="a", divisor="c", to="b", square="q"),),
        registers=(A, B, C, Q),
    )
    blueprint = program_blueprint(
        one, source="", algorithm="", pre=1, steps=1, answer="flag", bound=lambda _: one.unit_error
    )
    rows = layer_table(blueprint)
    assert "of 1 back: a to b" in [row.algebra for row in rows]
    assert any("N c in its place" in row.algebra for row in rows)
