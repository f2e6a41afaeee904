"""Random programs of primitives as transformers, against an interpreter in numpy."""

from collections.abc import Callable
from typing import Any, Literal

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from innerloop.circuits.gelu import Form
from innerloop.circuits.primitives import Aff, Div, Group, Mov, Mul, Primitive
from innerloop.circuits.program import Program, Register
from innerloop.core.iterate import trajectory
from innerloop.core.prompt import Prompt
from innerloop.models import load, save
from tests.circuits.interpreter import bounded, compiled, interpret, run
from tests.learners.references import normal

Draw = Callable[[Any], Any]
POINTS, DIMS = 4, 2
TOKENS = 2 * POINTS
SIZES = {"one": 1, "two": 2, "three": 3, "four": 4, "another": 2}
DIVISORS = ("c", "moved c")
SHAPES = [(1, 1, 1), (1, 2, 1), (2, 1, 1), (1, 1, 2), (2, 2, 1), (1, 3, 1), (2, 1, 2), (1, 1, 3)]


def draw_registers(draw: Draw) -> tuple[Register, ...]:
    """Numbers on all tokens, or x, or y, or nothing; divisors that are nowhere zero."""
    seed = draw(st.integers(0, 1000))
    registers: list[Register] = []
    for number, (name, size) in enumerate(SIZES.items()):
        kind = draw(st.sampled_from(["places", "inputs", "outputs", "constant", "empty"]))
        shape = {
            "places": (TOKENS, size), "inputs": (size, DIMS), "outputs": (size, 1),
            "constant": (size,),
        }.get(kind)  # fmt: skip
        values = {} if shape is None else {kind: normal(seed + number, *shape)}
        registers.append(Register(name=name, size=size, largest=1.0, **values))
    places = normal(seed + 50, TOKENS, 1)  # (T, 1)
    places = places.sign() * (0.5 + places.abs())
    return (
        *registers,
        Register(name="c", size=1, largest=1.0, places=places),
        Register(name="moved c", size=1, largest=1.0),
        Register(name="square of c", size=1, largest=1.0),
        Register(name="square of moved c", size=1, largest=1.0),
    )


def prepared(back: int) -> tuple[Group, Group]:
    """Another divisor, from other tokens; and the squares of both."""
    squares = tuple(
        Mul(left=name, right=name, to=f"square of {name}", shape=(1, 1, 1)) for name in DIVISORS
    )
    return (Mov(source="c", to="moved c", back=back),), squares


def draw_mov(draw: Draw) -> Mov:
    source = draw(st.sampled_from(list(SIZES)))
    to = draw(st.sampled_from([name for name in SIZES if SIZES[name] == SIZES[source]]))
    by_place = draw(st.booleans())
    return Mov(
        source=source,
        to=to,
        place=draw(st.integers(0, TOKENS - 1)) if by_place else None,
        back=None if by_place else draw(st.integers(0, 4)),
        factor=draw(st.sampled_from([1.0, -0.5, 2.0])),
        add=draw(st.booleans()),
    )


def draw_mul(draw: Draw) -> Mul:
    a, b, c = draw(st.sampled_from(SHAPES))

    def of(size: int) -> str:
        return draw(st.sampled_from([name for name in SIZES if SIZES[name] == size]))

    return Mul(
        left=of(a * b), right=of(b * c), to=of(a * c), shape=(a, b, c),
        factor=draw(st.sampled_from([1.0, -0.25, 0.5])), add=draw(st.booleans()),
    )  # fmt: skip


def draw_aff(draw: Draw) -> Aff:
    to = draw(st.sampled_from(list(SIZES)))
    reads = draw(st.lists(st.sampled_from([*SIZES, *DIVISORS]), max_size=2))
    seed = draw(st.integers(0, 1000))
    terms = tuple(
        (0.5 * normal(seed + number, SIZES[to], SIZES.get(name, 1)), name)
        for number, name in enumerate(reads)
    )
    constant = normal(seed + 9, SIZES[to]) if draw(st.booleans()) else None
    return Aff(to=to, terms=terms, constant=constant, add=draw(st.booleans()))


def draw_group(draw: Draw, norm: str) -> Group:
    """Moves, and then either products and sums or divisions by one number; nothing collides."""
    parts: list[Primitive] = []
    moves = [draw_mov(draw) for _ in range(draw(st.integers(0, 2)))]
    if draw(st.integers(0, 3)) == 0:
        divisor = draw(st.sampled_from(DIVISORS))
        value = draw(st.sampled_from(list(SIZES)))
        to = draw(st.sampled_from([name for name in SIZES if SIZES[name] == SIZES[value]]))
        used = {value, *(move.to for move in moves)}
        square = f"square of {divisor}" if norm == "pre" or draw(st.booleans()) else None
        add = to in used or draw(st.booleans())
        rest: list[Primitive] = [Div(value=value, divisor=divisor, to=to, square=square, add=add)]
    else:
        kinds = [draw_mul, draw_aff]
        rest = [draw(st.sampled_from(kinds))(draw) for _ in range(draw(st.integers(1, 3)))]
    for half in (moves, rest):
        for part in half:
            writers = [other for other in parts if other.to == part.to and (other in half)]
            if not writers or (part.add and all(other.add for other in writers)):
                parts.append(part)
    return tuple(parts)


@st.composite
def programs(draw: Draw, norm: Literal["pre", "mlp-only"], form: Form) -> Program:
    groups = [draw_group(draw, norm) for _ in range(draw(st.integers(1, 5)))]
    return Program(
        name="random", dims=DIMS, points=POINTS, registers=draw_registers(draw), norm=norm,
        form=form, groups=(*prepared(draw(st.integers(0, 3))), *groups),
    )  # fmt: skip


def check(program: Program) -> None:
    """Every register of every token after every layer, within its bound."""
    prompt = Prompt(xs=normal(7, 2, POINTS, DIMS), ys=normal(8, 2, POINTS, 1))
    program = bounded(program, prompt)
    circuit = compiled(program)
    assert circuit.blueprint.layers == len(program.groups)
    found, expected = run(circuit, prompt), interpret(program, prompt)
    for values, (exact, allowed) in zip(found, expected, strict=True):
        for name, value in exact.items():
            assert (np.abs(values[name] - value) <= allowed[name]).all(), name


@pytest.mark.parametrize("norm", ["pre", "mlp-only"])
@settings(max_examples=40)
@given(data=st.data())
def test_random_programs(norm: Literal["pre", "mlp-only"], data: st.DataObject) -> None:
    check(data.draw(programs(norm, "tight")))


@pytest.mark.parametrize("norm", ["pre", "mlp-only"])
@settings(max_examples=15)
@given(data=st.data())
def test_random_programs_in_the_printed_form(
    norm: Literal["pre", "mlp-only"], data: st.DataObject
) -> None:
    check(data.draw(programs(norm, "printed")))


def test_a_wrong_interpreter_is_found_out() -> None:
    """The bounds are small enough to tell: a factor that is off by 1e-9 does not pass."""
    registers = (Register(name="one", size=1, largest=1.0, inputs=normal(0, 1, DIMS)),)
    prompt = Prompt(xs=normal(7, 2, POINTS, DIMS), ys=normal(8, 2, POINTS, 1))
    right, wrong = (
        Program(
            name="square", dims=DIMS, points=POINTS, registers=registers,
            groups=((Mul(left="one", right="one", to="one", shape=(1, 1, 1), factor=factor),),),
        )
        for factor in (1.0, 1 + 1e-9)
    )  # fmt: skip
    found = run(compiled(bounded(right, prompt)), prompt)[-1]["one"]
    for program, holds in ((right, True), (wrong, False)):
        values, allowed = interpret(bounded(program, prompt), prompt)[-1]
        assert bool((np.abs(found - values["one"]) <= allowed["one"]).all()) == holds


def test_a_program_is_a_model_that_is_saved_bit_for_bit(tmp_path: Any) -> None:
    registers = (
        Register(name="one", size=1, largest=4.0, inputs=normal(0, 1, DIMS)),
        Register(name="c", size=1, largest=2.0, constant=torch.full((1,), 2.0).double()),
        Register(name="square", size=1, largest=4.0, constant=torch.full((1,), 4.0).double()),
        Register(name="out", size=1, largest=4.0),
    )
    groups = ((Div(value="one", divisor="c", to="out", square="square"),),)
    program = Program(name="half", dims=DIMS, points=POINTS, registers=registers, groups=groups)
    circuit = compiled(program)
    prompt = Prompt(xs=normal(7, 2, POINTS, DIMS), ys=normal(8, 2, POINTS, 1))
    again = load(save(circuit, tmp_path / "half"))
    with torch.no_grad():
        one, other = (trajectory(model, prompt).predictions for model in (circuit, again))
    assert torch.equal(one, other)
