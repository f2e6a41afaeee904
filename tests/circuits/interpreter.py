"""Programs of primitives in plain numpy, with a bound on what their circuit may be off."""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import torch

from innerloop.circuits.circuit import TransformerCircuit
from innerloop.circuits.gelu import LINEAR_FROM
from innerloop.circuits.primitives import Aff, Div, Mov, Mul, Primitive
from innerloop.circuits.program import Program, Register
from innerloop.circuits.program_layers import program_blueprint
from innerloop.core.prompt import Prompt

EPS = float(np.finfo(float).eps)
Values = dict[str, np.ndarray]
"""(B, T, size) by register."""


def at_first(program: Program, prompt: Prompt) -> Values:
    """What stands in the registers before the first layer."""
    batch, tokens = prompt.batch, 2 * prompt.points
    values: Values = {}
    for register in program.registers:
        own = np.zeros((batch, tokens, register.size))
        if register.inputs is not None:
            own[:, 1::2] += prompt.xs.numpy() @ register.inputs.numpy().T
        if register.outputs is not None:
            own[:, 2::2] += prompt.ys.numpy()[:, :-1] @ register.outputs.numpy().T
        if register.constant is not None:
            own += register.constant.numpy()
        if register.places is not None:
            own += register.places.numpy()[:tokens]
        values[register.name] = own
    return values


def interpret(program: Program, prompt: Prompt) -> list[tuple[Values, Values]]:
    """Values, and how far off they may be, before the first group and after each."""
    return _halves(program, prompt)[::2]


def _halves(program: Program, prompt: Prompt) -> list[tuple[Values, Values]]:
    """The same, with what stands between the moves of a group and the rest."""
    values = at_first(program, prompt)
    # What stands in a token is itself a sum, of a few numbers of order 1.
    errors = {name: 8 * EPS * (value != 0) * (1 + np.abs(value)) for name, value in values.items()}
    states = [(values, errors)]
    for group in program.groups:
        for half in (
            [part for part in group if isinstance(part, Mov)],
            [part for part in group if not isinstance(part, Mov)],
        ):
            states.append(_at_once(program, half, *states[-1]))
    return states


def _at_once(
    program: Program, parts: Sequence[Primitive], values: Values, errors: Values
) -> tuple[Values, Values]:
    after, off = dict(values), dict(errors)
    for part in parts:
        if not part.add:  # what is overwritten is read to be taken away
            after[part.to] = np.zeros_like(values[part.to])
            off[part.to] = _read(program, values[part.to]) + _passed(program, part)
    for part in parts:
        value, error = _apply(program, part, values, errors)
        if isinstance(part, Aff | Div):
            error = error + _passed(program, part)
        after[part.to] = after[part.to] + value
        off[part.to] = off[part.to] + error + 4 * EPS * np.abs(after[part.to])
    return after, off


def _read(program: Program, value: np.ndarray) -> np.ndarray:
    """What reading through a norm adds to an error: a few roundings, and what N is too small for.

    The mean is off by about EPS N, and by what products leave of N c, differently in a slot and its
    mirror; both share that, up to a rounding.
    """
    number = program.norm_number
    divided = [
        program.by_name[part.divisor].largest
        for group in program.groups
        for part in group
        if isinstance(part, Div)
    ]
    left = 4 * program.unit_error.total * max(1, *divided, 0) ** 2  # of N c, for c above 1 / 2
    mean = (EPS + left) * number
    return ((program.size / number) ** 2 / 2 + 8 * EPS) * np.abs(value) + 4 * EPS * mean


def _passed(program: Program, part: Primitive) -> float:
    """What the printed way through the MLP adds: roundings of a number beside a large one."""
    if program.form == "tight" or isinstance(part, Mov):
        return 0.0
    return 2 * EPS * (2 * 2 * program.by_name[part.to].largest + LINEAR_FROM)


def _apply(
    program: Program, part: Primitive, values: Values, errors: Values
) -> tuple[np.ndarray, np.ndarray]:
    if isinstance(part, Mov):
        own = np.arange(values[part.source].shape[1])
        wanted = own - part.back if part.back is not None else np.full_like(own, part.place)
        source = np.where((wanted >= 0) & (wanted <= own), wanted, 0)
        value, error = values[part.source][:, source], errors[part.source][:, source]
        return part.factor * value, abs(part.factor) * (error + _read(program, value))
    if isinstance(part, Mul):
        return _multiply(program, part, values, errors)
    if isinstance(part, Div):
        value, divisor = values[part.value], np.abs(values[part.divisor])
        error = errors[part.value] + _read(program, value) / np.minimum(1, divisor) ** 2
        return value / divisor, 2 * (
            error + np.abs(value) * errors[part.divisor] / divisor
        ) / divisor
    value, error = np.zeros_like(values[part.to]), np.zeros_like(values[part.to])
    for matrix, name in part.terms:
        own = matrix.numpy().T
        value = value + values[name] @ own
        error = error + (errors[name] + _read(program, values[name])) @ np.abs(own)
    if part.constant is not None:
        value = value + part.constant.numpy()
    return value, error


def _multiply(
    program: Program, part: Mul, values: Values, errors: Values
) -> tuple[np.ndarray, np.ndarray]:
    a, b, c = part.shape
    left, right = (
        value.reshape(*value.shape[:2], *shape)
        for value, shape in ((values[part.left], (a, b)), (values[part.right], (b, c)))
    )
    e_left, e_right = (
        error.reshape(*error.shape[:2], *shape)
        for error, shape in ((errors[part.left], (a, b)), (errors[part.right], (b, c)))
    )
    floor = program.unit_error.total
    for name in (part.left, part.right):
        floor = floor * program.by_name[name].largest
    error = np.abs(left) @ e_right + e_left @ np.abs(right) + e_left @ e_right + b * floor
    flat = (*left.shape[:2], a * c)
    return part.factor * (left @ right).reshape(flat), abs(part.factor) * error.reshape(flat)


def bounded(program: Program, prompt: Prompt, least: float = 0.1) -> Program:
    """The program with the bounds that its registers keep to on this prompt."""
    states = [values for values, _ in _halves(program, prompt)]

    def fit(register: Register) -> Register:
        found = max(float(np.abs(values[register.name]).max()) for values in states)
        return replace(register, largest=max(least, found))

    return replace(program, registers=tuple(fit(register) for register in program.registers))


def compiled(program: Program) -> TransformerCircuit:
    """The program as a circuit of one step a group."""
    one = next(register.name for register in program.registers if register.size == 1)
    blueprint = program_blueprint(
        program, source="a test", algorithm="a program", pre=0, steps=len(program.groups),
        answer=one, bound=lambda step: program.unit_error,
    )  # fmt: skip
    return TransformerCircuit(blueprint)


def run(circuit: TransformerCircuit, prompt: Prompt) -> list[Values]:
    """The registers before the first layer and after each step, as they are read: (B, T, size)."""
    with torch.no_grad():
        state = circuit.init(prompt)
        states = [read(circuit, circuit.hidden_states.features(prompt, state))]
        for k in range(circuit.steps):
            state = circuit.step(prompt, state, k)
            states.append(read(circuit, circuit.hidden_states.features(prompt, state)))
    return states


def read(circuit: TransformerCircuit, stream: torch.Tensor) -> Values:
    """Half the difference of each slot and its mirror in a residual stream (B, T, D)."""
    residual = circuit.blueprint.residual
    half = (stream[..., : residual.width] - stream[..., residual.width :]) / 2  # (B, T, D / 2)
    return {
        name: half[..., start : start + residual[name].size].numpy()
        for name, start in residual.offsets().items()
    }
