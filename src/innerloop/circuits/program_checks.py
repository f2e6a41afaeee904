"""What is refused of a program before any weight is built."""

from collections.abc import Sequence

import torch
from torch import Tensor

from innerloop.circuits.primitives import Aff, Div, Group, Mov, Mul, Primitive
from innerloop.circuits.program import Program, Register
from innerloop.core.errors import ConfigurationError, unknown

RESERVED = ("place", "start", "norm", "divisor")
"""The slots that a program's layers have of their own."""


def check_program(program: Program) -> None:
    """Refuse what cannot be compiled; the sentence names the group and what to change."""
    _check_registers(program)
    for number, group in enumerate(program.groups):
        where = f"group {number} of {program.name}"
        if not group:
            raise ConfigurationError(f"{where} is empty: give it a primitive, or leave it out.")
        for part in group:
            _check_names(program, part, where)
            _check_sizes(program, part, where)
        _check_collisions(group, where)
        _check_divisions(program, group, where)
    _check_divisors(program)


def _check_registers(program: Program) -> None:
    if not program.groups:
        raise ConfigurationError(f"{program.name} has no groups: give it at least one.")
    seen: set[str] = set()
    for register in program.registers:
        if register.name in seen or register.name in RESERVED:
            raise ConfigurationError(
                f"register {register.name!r} of {program.name} is declared twice, or named as one "
                f"of {', '.join(RESERVED)}: choose another name."
            )
        seen.add(register.name)
        if register.size < 1 or not 0 < register.largest < float("inf"):
            raise ConfigurationError(
                f"register {register.name!r} of {program.name} has size {register.size} and the "
                f"bound {register.largest}: expected at least 1, and a finite number above 0."
            )
        _check_start(program, register)


def _check_start(program: Program, register: Register) -> None:
    expected = (
        (register.inputs, (register.size, program.dims), "inputs"),
        (register.outputs, (register.size, program.outputs), "outputs"),
        (register.constant, (register.size,), "constant"),
        (register.places, (program.tokens, register.size), "places"),
    )
    for values, shape, what in expected:
        if values is not None and tuple(values.shape) != shape:
            raise ConfigurationError(
                f"{what} of register {register.name!r} of {program.name} have shape "
                f"{tuple(values.shape)}, expected {shape}."
            )


def _check_names(program: Program, part: Primitive, where: str) -> None:
    for name in (*part.reads, part.to):
        if name not in program.by_name:
            raise ConfigurationError(
                f"{where} names {unknown('register', name, program.by_name)} Declare it first."
            )


def _check_sizes(program: Program, part: Primitive, where: str) -> None:
    size = {name: program.by_name[name].size for name in (*part.reads, part.to)}
    if isinstance(part, Mov):
        expected, given = [size[part.source]], [size[part.to]]
        _check_places(program, part, where)
    elif isinstance(part, Mul):
        a, b, c = part.shape
        expected = [a * b, b * c, a * c]
        given = [size[part.left], size[part.right], size[part.to]]
    elif isinstance(part, Div):
        expected, given = [size[part.value], 1], [size[part.to], size[part.divisor]]
        if part.square is not None:
            expected, given = [*expected, 1], [*given, size[part.square]]
    else:
        expected = [(size[part.to], size[name]) for name in part.reads]
        given = [tuple(matrix.shape) for matrix, _ in part.terms]
        if part.constant is not None:
            expected, given = [*expected, (size[part.to],)], [*given, tuple(part.constant.shape)]
    if expected != given:
        raise ConfigurationError(
            f"{where} has a {type(part).__name__.lower()} to {part.to!r} of sizes {given}, "
            f"expected {expected}: give registers that fit."
        )


def _check_places(program: Program, part: Mov, where: str) -> None:
    if (part.place is None) == (part.back is None):
        raise ConfigurationError(
            f"{where} moves {part.source!r} from place {part.place} and {part.back} back: give "
            "either of them."
        )
    far = part.place if part.place is not None else part.back
    if far is not None and not 0 <= far < program.tokens:
        raise ConfigurationError(
            f"{where} moves {part.source!r} from {far}, of {program.tokens} places: take a place "
            "below that, or more points."
        )


def _check_collisions(group: Group, where: str) -> None:
    """Moves write first and all at once, the rest after them and all at once."""
    for half in (
        [part for part in group if isinstance(part, Mov)],
        [part for part in group if not isinstance(part, Mov)],
    ):
        for name in {part.to for part in half}:
            writers = [part for part in half if part.to == name]
            if len(writers) > 1 and not all(part.add for part in writers):
                raise ConfigurationError(
                    f"{where} writes {name!r} twice at once: let both add, or take a group for "
                    "each."
                )


def _check_divisions(program: Program, group: Group, where: str) -> None:
    divisions = program.divisions(group)
    if not divisions:
        return
    if any(isinstance(part, Mul | Aff) for part in group):
        raise ConfigurationError(
            f"{where} divides, and multiplies or adds at once: all that its MLP reads is divided, "
            "so give the rest a group of its own."
        )
    divisors = {(part.divisor, part.square, part.square_factor) for part in divisions}
    if len(divisors) > 1:
        raise ConfigurationError(
            f"{where} divides by {len(divisors)} registers: take a group for each."
        )
    divisor, square, factor = divisors.pop()
    if not factor > 0:
        raise ConfigurationError(f"{where} has the square_factor {factor}, expected one above 0.")
    if program.norm == "pre" and square is None:
        raise ConfigurationError(
            f"{where} divides by {divisor!r} under a norm before attention: give the register of "
            "its square, by a mul in an earlier group, or take the norm mlp-only."
        )
    # A head overwrites before the MLP reads: what is divided, or was moved, would be lost.
    used = {part.value for part in divisions} | {part.to for part in group if isinstance(part, Mov)}
    replaced = {part.to for part in divisions if not part.add} & used
    if replaced:
        raise ConfigurationError(
            f"{where} overwrites {min(replaced)!r} by a division, and divides it or moves to it in "
            "the same layer: divide into another register."
        )
    written = {part.to for part in group}
    if written & {divisor, square}:
        raise ConfigurationError(
            f"{where} divides by {divisor!r} and writes it, or its square, in the same layer: "
            "write it in an earlier group."
        )


def _check_divisors(program: Program) -> None:
    """Refuse a divisor that is zero at a token, as far as that follows from what is written."""
    filled = {register.name: _filled_at_first(program, register) for register in program.registers}
    for number, group in enumerate(program.groups):
        for part in program.divisions(group):
            for what in (part.divisor, *([] if part.square is None else [part.square])):
                empty = (~filled[what]).nonzero()[:, 0].tolist()
                if empty:
                    raise ConfigurationError(
                        f"group {number} of {program.name} divides by {part.divisor!r}, but "
                        f"{what!r} is zero at {_token(empty[0])}: write a number there first, on "
                        "every token."
                    )
        _fill(filled, [part for part in group if isinstance(part, Mov)])
        _fill(filled, [part for part in group if not isinstance(part, Mov)])


def _filled_at_first(program: Program, register: Register) -> Tensor:
    """Where a register may be other than zero before the first layer: (T,) bool."""
    place = torch.arange(program.tokens)  # (T,)
    filled = torch.zeros(program.tokens, dtype=torch.bool)  # (T,)
    if register.inputs is not None and bool(register.inputs.any()):
        filled |= place % 2 == 1
    if register.outputs is not None and bool(register.outputs.any()):
        filled |= (place % 2 == 0) & (place > 0)
    if register.constant is not None and bool(register.constant.any()):
        filled |= torch.ones_like(filled)
    if register.places is not None:
        filled |= (register.places != 0).any(dim=1)
    return filled


def _fill(filled: dict[str, Tensor], parts: Sequence[Primitive]) -> None:
    """What may be other than zero after primitives that run at once."""
    before = dict(filled)
    for name in {part.to for part in parts if not part.add}:
        filled[name] = torch.zeros_like(filled[name])  # (T,)
    for part in parts:
        if isinstance(part, Mov):
            own = torch.arange(len(before[part.to]))  # (T,)
            wanted = own - part.back if part.back is not None else own * 0 + (part.place or 0)
            visible = (wanted >= 0) & (wanted <= own)  # (T,)
            new = before[part.source][torch.where(visible, wanted, 0)]  # (T,)
        elif isinstance(part, Mul):
            new = before[part.left] & before[part.right]  # (T,)
        elif isinstance(part, Div):
            new = before[part.value]  # (T,)
        else:
            new = torch.zeros_like(before[part.to])  # (T,)
            for matrix, name in part.terms:
                new = new | before[name] if bool(matrix.any()) else new  # (T,)
            if part.constant is not None and bool(part.constant.any()):
                new = torch.ones_like(new)  # (T,)
        filled[part.to] = filled[part.to] | new  # (T,)


def _token(place: int) -> str:
    if place == 0:
        return "the start token"
    return f"the token {'x' if place % 2 else 'y'}_{(place - 1) // 2}"
