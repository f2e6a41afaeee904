"""From a program to layers: moves are heads, the rest is GELU units, division is the norm.

A norm divides all numbers by one that stands for their size: N, in a slot of its own, beside which
they do not count. A division takes N out of that slot and puts N c into another, by a head that
looks at its own token: the MLP then reads everything divided by |c|. The next layer's attention
takes N c away and puts N back, if it has no norm before it. Otherwise it would read all divided as
well, so the MLP has done both already: c reads as its sign and c^2 as |c|, whose product is c. What
that leaves of N c, which counts in the norm by its square only, is cleared by the next layer's
attention.
"""

from collections.abc import Callable
from dataclasses import dataclass, field, replace

import torch
from torch import Tensor

from innerloop.circuits.blueprint import Blueprint, ErrorBound, Tokens
from innerloop.circuits.gelu import gelu_add, gelu_products
from innerloop.circuits.parts import Head, Layer, Neurons
from innerloop.circuits.positions import SATURATED, Places
from innerloop.circuits.primitives import Aff, Div, Group, Mov, Mul
from innerloop.circuits.program import Program
from innerloop.circuits.program_checks import check_program
from innerloop.circuits.residual import Affine, Residual, Slot, constant, join, zeros

HALF_GAP = 0.5
"""By how much a place that is looked for is ahead of the start token, and that of all others."""


@dataclass(frozen=True, eq=False)
class Machine:
    """The slots of a program."""

    program: Program
    residual: Residual
    places: Places
    start: Slot
    """1 at the start token."""
    norm: Slot
    divisor: Slot | None
    """N c while something is divided by c, else 0."""

    @classmethod
    def declare(cls, program: Program) -> "Machine":
        """All registers, and what the layers need beside them."""
        residual = Residual()
        for register in program.registers:
            residual.slot(register.name, register.size)
        places = Places.declare(residual, program.tokens, unit=float(program.tokens))
        start = residual.slot("start", 1)
        divides = any(program.divisions(group) for group in program.groups)
        divisor = residual.slot("divisor", 1) if divides else None
        return cls(program, residual, places, start, residual.slot("norm", 1), divisor)

    def tokens(self) -> Tokens:
        """What stands in the registers before the first layer."""
        flag = torch.zeros(self.program.tokens, 1, dtype=torch.float64)  # (T, 1)
        flag[0] = 1
        slots, registers = self.residual, self.program.registers
        return Tokens(
            inputs={slots[r.name]: r.inputs for r in registers if r.inputs is not None},
            outputs={slots[r.name]: r.outputs for r in registers if r.outputs is not None},
            constants={slots[r.name]: r.constant for r in registers if r.constant is not None},
            positions={self.places.slot: self.places.values, self.start: flag}
            | {slots[r.name]: r.places for r in registers if r.places is not None},
            start=True,
        )

    def layers(self) -> tuple[Layer, ...]:
        """One per group."""
        return tuple(
            Layer(
                heads=self._heads(group, before),
                neurons=self._neurons(group),
                title=" ".join(f"{type(part).__name__.lower()}({part.to})" for part in group),
            )
            for group, before in zip(
                self.program.groups, ((), *self.program.groups[:-1]), strict=True
            )
        )

    def _heads(self, group: Group, before: Group) -> tuple[Head, ...]:
        """Moves from the same place share a head; one more looks at its own token."""
        looks: dict[tuple[int | None, int | None], _Values] = {}
        own = _Values()
        for part in group:
            if isinstance(part, Mov):
                source, to = self.residual[part.source], self.residual[part.to]
                values = looks.setdefault((part.place, part.back), _Values())
                values.add(to, part.factor * source, f"{part.source} to {part.to}")
            if isinstance(part, Mov | Div) and not part.add:
                own.add(self.residual[part.to], -self.residual[part.to], f"- {part.to}")
        if self.program.divisions(before):
            self._restore(own)
        for part in self.program.divisions(group)[:1]:
            self._replace_norm(part, own)
        heads = [self._head(place, back, values) for (place, back), values in looks.items()]
        return (*heads, self._head(None, 0, own)) if own.values else tuple(heads)

    def _head(self, place: int | None, back: int | None, values: "_Values") -> Head:
        query = (
            self.places.looking_back(back or 0) if place is None else self.places.looking_at(place)
        )
        # The start token's own score of its place, query[2], is replaced by minus half a gap.
        sink = -query[2] - constant(HALF_GAP)
        where = f"{back} back" if place is None else f"place {place}"
        return Head(
            query=SATURATED / HALF_GAP * join(query, sink),
            key=join(self.places.keys(), self.start),
            values=values.values,
            says=f"of {'its own token' if back == 0 else where}: {'; '.join(values.says)}",
        )

    def _replace_norm(self, part: Div, own: "_Values") -> None:
        assert self.divisor is not None
        number = self.program.norm_number
        own.add(self.norm, constant(-number), "N out of the norm")
        value = number * self.residual[part.divisor]
        own.add(self.divisor, value, f"N {part.divisor} in its place")

    def _restore(self, own: "_Values") -> None:
        assert self.divisor is not None
        own.add(self.divisor, -self.divisor, "the divisor cleared")
        if self.program.norm == "mlp-only":
            own.add(self.norm, constant(self.program.norm_number), "N back into the norm")

    def _neurons(self, group: Group) -> tuple[Neurons, ...]:
        parts: list[Neurons] = []
        for part in group:
            if isinstance(part, Mul):
                parts += self._multiply(part)
            elif isinstance(part, Aff):
                parts.append(self._affine(part))
            elif isinstance(part, Div):
                value = self.residual[part.value]  # reads as value / |c|
                parts.append(self._pass(value, part.to, f"{part.value} / |{part.divisor}|"))
        for part in self.program.divisions(group)[:1]:
            parts += self._undo(part)
        return tuple(parts)

    def _multiply(self, part: Mul) -> list[Neurons]:
        program, to = self.program, self.residual[part.to]
        a, b, c = part.shape
        number = torch.arange(a * b * c)  # (a b c,), one for each product
        row, inner, column = number // (b * c), number // c % b, number % c  # (a b c,) each
        matrix = torch.zeros(a * c, a * b * c, dtype=torch.float64)  # (a c, a b c)
        matrix[row * c + column, number] = part.factor
        product = gelu_products(
            self.residual[part.left][(row * b + inner).tolist()],
            self.residual[part.right][(inner * c + column).tolist()],
            {to: matrix},
            largest=(program.by_name[part.left].largest, program.by_name[part.right].largest),
            scale=program.product_scale,
            form=program.form,
            says=f"{'+' if part.add else '='} {part.factor:g} {part.left} {part.right}",
        )
        return [product] if part.add else [product, self._pass(-to, part.to, f"- {part.to}")]

    def _affine(self, part: Aff) -> Neurons:
        to = self.residual[part.to]
        value: Affine = zeros(to.size) if part.add else -to
        for matrix, name in part.terms:
            value = value + matrix @ self.residual[name]
        if part.constant is not None:
            value = value + Affine(part.constant.double())
        read = " + ".join(part.reads) or ("" if part.constant is not None else "0")
        return self._pass(value, part.to, f"{'+' if part.add else '='} {read}")

    def _pass(self, value: Affine, to: str, says: str) -> Neurons:
        """Add a value to a register; what is added to one is at most the old and the new number."""
        largest = 2 * self.program.by_name[to].largest
        form = self.program.form
        return gelu_add(value, self.residual[to], largest=largest, form=form, says=says)

    def _undo(self, part: Div) -> list[Neurons]:
        """N back into the norm's slot, and N c out of the divisor's, by sign(c) times |c|."""
        if self.program.norm == "mlp-only" or part.square is None:
            return []
        assert self.divisor is not None
        number, divisor = self.program.norm_number, self.residual[part.divisor]
        product = gelu_products(
            divisor,
            (1 / part.square_factor) * self.residual[part.square],
            {self.divisor: _number(-number)[:, None]},
            largest=(1.0, self.program.by_name[part.divisor].largest),
            scale=self.program.product_scale,
            form=self.program.form,
            says=f"N back; N {part.divisor} out: its sign times {part.square} / |{part.divisor}|",
        )
        return [replace(product, constants={self.norm: _number(number)})]


@dataclass
class _Values:
    """What a head takes: by the slot that it is added to, and in words."""

    values: dict[Slot, Affine] = field(default_factory=dict[Slot, Affine])
    says: list[str] = field(default_factory=list[str])

    def add(self, to: Slot, value: Affine, says: str) -> None:
        self.values[to] = self.values[to] + value if to in self.values else value
        self.says.append(says)


def _number(value: float) -> Tensor:
    return torch.tensor([value], dtype=torch.float64)


def program_blueprint(
    program: Program,
    *,
    source: str,
    algorithm: str,
    pre: int,
    steps: int,
    answer: str,
    bound: Callable[[int], ErrorBound],
    condition: str = "",
    largest_input: float | None = None,
    largest_output: float | None = None,
) -> Blueprint:
    """A program as a circuit: its first groups come before the steps, the rest is the steps'."""
    check_program(program)
    machine = Machine.declare(program)
    layers = machine.layers()
    return Blueprint(
        name=program.name, source=source, algorithm=algorithm, form=program.form,
        dims=program.dims, outputs=program.outputs, points=program.points, steps=steps,
        residual=machine.residual, tokens=machine.tokens(),
        pre=layers[:pre], body=layers[pre:], looped=False, answer=machine.residual[answer],
        norm=program.norm, norm_slot=machine.norm, norm_scale=program.norm_number,
        activation="gelu", largest_input=largest_input, largest_output=largest_output,
        condition=condition, bound=bound,
    )  # fmt: skip
