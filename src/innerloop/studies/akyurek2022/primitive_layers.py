"""One primitive of akyurek2022 as one layer, run on a random hidden matrix, and how far off it is.

Shapes: T tokens, D numbers of the residual stream.
"""

from collections.abc import Callable, Mapping
from typing import Literal

import torch
from torch import Tensor

from innerloop.circuits.circuit import TransformerCircuit
from innerloop.circuits.primitives import Aff, Div, Mov, Mul, Primitive
from innerloop.circuits.program import Program, Register
from innerloop.circuits.program_layers import program_blueprint
from innerloop.core.prompt import Prompt
from innerloop.studies.lab import Lab
from innerloop.training.data import generator_for

Norm = Literal["pre", "mlp-only"]
NORMS: tuple[Norm, ...] = ("pre", "mlp-only")
"""Before attention and MLP as in GPT-2, or before the MLP alone as in the paper."""
POINTS, SIZE, LARGEST = 8, 4, 3.0
"""Points of a prompt, numbers of a register, and the bound on each of them."""
TOKENS = 2 * POINTS
BACK = 3
"""How many tokens back mov looks."""
Values = Mapping[str, Tensor]
"""(T, size) by register."""


MATRICES = torch.randn(
    2, SIZE, SIZE, dtype=torch.float64, generator=torch.Generator().manual_seed(0)
)  # (2, size, size)
"""W_1 and W_2 of aff."""
SHIFT = torch.linspace(-1, 1, SIZE, dtype=torch.float64)  # (size,)
"""b of aff."""


def _multiplied(values: Values) -> Tensor:
    left, right = (values[key].reshape(TOKENS, 2, 2) for key in ("a", "b"))  # (T, 2, 2) each
    return (left @ right).flatten(1)  # (T, size)


EXPECTED: dict[str, Callable[[Values], Tensor]] = {
    # A token that has none so far back takes that of the start token.
    "mov": lambda values: values["a"][(torch.arange(TOKENS) - BACK).clamp(min=0)],
    "mul": _multiplied,
    "div": lambda values: values["a"] / values["c"].abs(),
    "aff": lambda values: values["a"] @ MATRICES[0].T + values["b"] @ MATRICES[1].T + SHIFT,
}
"""What each primitive has to write into the register `out`: (T, size)."""


def _primitive(kind: str, norm: Norm) -> Primitive:
    square = "square" if norm == "pre" else None
    return {
        "mov": Mov(source="a", to="out", back=BACK),
        "mul": Mul(left="a", right="b", to="out", shape=(2, 2, 2)),
        "div": Div(value="a", divisor="c", to="out", square=square),
        "aff": Aff(to="out", terms=((MATRICES[0], "a"), (MATRICES[1], "b")), constant=SHIFT),
    }[kind]


def random_program(lab: Lab, kind: str, norm: Norm, number: int) -> Program:
    """One primitive on registers of uniform numbers; c is away from zero and of either sign."""
    generator = generator_for(number, f"{lab.study}/{kind} {norm}")
    drawn = torch.rand(4, TOKENS, SIZE, dtype=torch.float64, generator=generator)  # (4, T, size)
    a, b, out, other = (LARGEST * (2 * part - 1) for part in drawn)  # (T, size) each
    signs = torch.where(other[:, :1] < 0, -1.0, 1.0)  # (T, 1)
    divisor = signs * (0.2 + other[:, 1:2].abs() / 2)  # (T, 1), from 0.2 to 1.7
    # What is written may be as large as a sum of so many products, or a quotient.
    most = {"mov": LARGEST, "mul": 2 * LARGEST**2, "div": 5 * LARGEST, "aff": 50.0}[kind]
    registers = {"a": (LARGEST, a), "b": (LARGEST, b), "out": (most, out), "c": (2.0, divisor),
                 "square": (4.0, divisor.square())}  # fmt: skip
    return Program(
        name=kind, dims=1, points=POINTS, norm=norm, groups=((_primitive(kind, norm),),),
        registers=tuple(
            Register(name=key, size=places.shape[1], largest=largest, places=places)
            for key, (largest, places) in registers.items()
        ),
    )  # fmt: skip


def layer_error(program: Program) -> tuple[float, int]:
    """How far off the layer of a `random_program` is, and the layers that it took."""
    values = {each.name: each.places for each in program.registers if each.places is not None}
    circuit = TransformerCircuit(
        program_blueprint(
            program, source="akyurek2022 lemma 1", algorithm=program.name, pre=0, steps=1,
            answer="c", bound=lambda step: program.unit_error,
        )
    )  # fmt: skip
    written, expected = _written(circuit), EXPECTED[program.name](values)  # (T, size) each
    error = float(((written - expected).abs() / expected.abs().clamp(min=1)).amax())
    return error, circuit.blueprint.layers


@torch.no_grad()
def _written(circuit: TransformerCircuit) -> Tensor:
    """The register `out` after the layer, (T, size): half of the difference to its mirror."""
    # The hidden matrix is in the positions: what the prompt holds does not matter.
    nothing = torch.zeros(1, POINTS, 1, dtype=torch.float64)  # (1, n, 1)
    prompt = Prompt(xs=nothing, ys=nothing)
    state = circuit.step(prompt, circuit.init(prompt), 0)
    stream = circuit.hidden_states.features(prompt, state)[0]  # (T, D)
    residual = circuit.blueprint.residual
    half = (stream[:, : residual.width] - stream[:, residual.width :]) / 2  # (T, D / 2)
    return half[:, residual.offsets()["out"] :][:, :SIZE]
