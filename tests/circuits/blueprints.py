"""Random blueprints, and an interpreter of them that knows slots and no transformer."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional

from innerloop.circuits.blueprint import Blueprint, Tokens
from innerloop.circuits.parts import Head, Layer, Neurons
from innerloop.circuits.residual import Affine, Residual, Slot, constant
from innerloop.core.prompt import Prompt

Values = dict[str, Tensor]
"""(B, T, size) of each slot."""
DIMS, OUTPUTS, POINTS = 2, 1, 4


@dataclass(frozen=True)
class Drawn:
    """Random parts of a circuit; every matrix from one generator."""

    generator: torch.Generator

    def normal(self, *shape: int) -> Tensor:
        return 0.4 * torch.randn(shape, generator=self.generator, dtype=torch.float64)

    def affine(self, rows: int, *slots: Slot) -> Affine:
        """A random function of some slots, with a constant."""
        total = constant(*self.normal(rows).tolist())
        for slot in slots:
            total = total + self.normal(rows, slot.size) @ slot
        return total

    def head(self, compared: int, reads: tuple[Slot, ...], *writes: Slot) -> Head:
        return Head(
            query=self.affine(compared, *reads),
            key=self.affine(compared, *reads),
            values={slot: self.affine(slot.size, *reads) for slot in writes},
            says="a head",
        )

    def neurons(self, units: int, reads: tuple[Slot, ...], *writes: Slot) -> Neurons:
        return Neurons(
            inputs=self.affine(units, *reads),
            outputs={slot: self.normal(slot.size, units) for slot in writes},
            constants={slot: self.normal(slot.size) for slot in writes[:1]},
            says="units",
        )


def draw(seed: int, **changes: Any) -> Blueprint:
    """A blueprint that computes nothing in particular, with layers of different sizes."""
    drawn = Drawn(torch.Generator().manual_seed(seed))
    residual = Residual()
    layout = changes.get("layout", "pairs")
    outputs = DIMS if layout == "stream" else OUTPUTS
    start = bool(changes.pop("start", False))
    x, y = residual.slot("x", DIMS), residual.slot("y", outputs)
    one, place = residual.slot("one", 1), residual.slot("place", 3)
    work, answer = residual.slot("work", 4), residual.slot("answer", outputs)
    if changes.get("norm", "none") != "none":
        changes |= {"norm_slot": residual.slot("N", 1), "norm_scale": 1e6}
    length = int(start) + (2 * POINTS - 1 if layout == "pairs" else POINTS)
    everything = (x, y, one, place, work, answer)
    step = Layer(
        heads=(drawn.head(3, (x, work), work), drawn.head(1, (y, place), work, answer)),
        neurons=(drawn.neurons(5, everything, answer), drawn.neurons(2, (work,), work, answer)),
    )
    layers = {
        "pre": (Layer(heads=(drawn.head(2, everything, work, answer),)),),
        "body": (step, Layer(neurons=(drawn.neurons(3, everything, work),))),
        "post": (Layer(heads=(drawn.head(2, (answer,), answer),), title="last"),),
    }
    settings: dict[str, Any] = {
        "name": "random",
        "source": "nobody",
        "algorithm": "none",
        "dims": DIMS,
        "outputs": outputs,
        "points": POINTS,
        "residual": residual,
        "tokens": Tokens(
            inputs={x: drawn.normal(DIMS, DIMS), work: drawn.normal(4, DIMS)},
            outputs={} if layout == "stream" else {y: drawn.normal(outputs, outputs)},
            constants={one: drawn.normal(1)},
            positions={place: drawn.normal(length, 3)},
            start=start,
        ),
        "steps": 2,
        "answer": drawn.affine(outputs, answer, x),
        **layers,
        **changes,
    }
    return Blueprint(**settings)


def interpret(blueprint: Blueprint, prompt: Prompt) -> list[Tensor]:
    """The answers after each number of steps, slot by slot: (B, n, k) each."""
    values = _embed(blueprint, prompt)
    for layer in blueprint.pre:
        values = _apply(blueprint, layer, values)
    each = len(blueprint.body) if blueprint.looped else len(blueprint.body) // blueprint.steps
    answers = [_read(blueprint, values)]
    for step in range(blueprint.steps):
        first = 0 if blueprint.looped else step * each
        for layer in blueprint.body[first : first + each]:
            values = _apply(blueprint, layer, values)
        answers.append(_read(blueprint, values))
    return answers


def _embed(blueprint: Blueprint, prompt: Prompt) -> Values:
    tokens, stride = blueprint.tokens, 2 if blueprint.layout == "pairs" else 1
    first = int(tokens.start)
    length = first + stride * (prompt.points - 1) + 1
    values = {
        name: torch.zeros(prompt.batch, length, slot.size, dtype=torch.float64)
        for name, slot in blueprint.residual.slots.items()
    }
    for slot, matrix in tokens.inputs.items():
        values[slot.name][:, first::stride] += prompt.xs @ matrix.T
    for slot, matrix in tokens.outputs.items():
        values[slot.name][:, first + 1 :: stride] += prompt.ys[:, :-1] @ matrix.T
    for slot, numbers in tokens.constants.items():
        values[slot.name] += numbers
    for slot, numbers in tokens.positions.items():
        values[slot.name] += numbers[:length]
    return values


def _apply(blueprint: Blueprint, layer: Layer, values: Values) -> Values:
    changes = {name: torch.zeros_like(value) for name, value in values.items()}
    for head in layer.heads:
        scores = _at(head.query, values) @ _at(head.key, values).mT  # (B, T, T)
        seen = torch.ones_like(scores[0], dtype=torch.bool)  # (T, T)
        seen = seen.tril() if blueprint.mask == "causal" else seen
        if blueprint.attention == "softmax":
            weights = scores.masked_fill(~seen, -torch.inf).softmax(-1)  # (B, T, T)
        else:
            weights = scores.relu() if blueprint.attention == "relu" else scores
            counts = seen.sum(dim=1, keepdim=True)  # (T, 1)
            weights = weights * seen / (blueprint.divisor or counts)  # (B, T, T)
        for slot, value in head.values.items():
            changes[slot.name] += weights @ _at(value, values)
    values = {name: value + changes[name] for name, value in values.items()}
    activation = functional.relu if blueprint.activation == "relu" else functional.gelu
    changes = {name: torch.zeros_like(value) for name, value in values.items()}
    for part in layer.neurons:
        units = activation(_at(part.inputs, values))  # (B, T, units)
        for slot, matrix in part.outputs.items():
            changes[slot.name] += units @ matrix.T
        for slot, numbers in part.constants.items():
            changes[slot.name] += numbers
    return {name: value + changes[name] for name, value in values.items()}


def _at(affine: Affine, values: Mapping[str, Tensor]) -> Tensor:
    batch, length, _ = next(iter(values.values())).shape
    total = affine.constant.expand(batch, length, -1)  # (B, T, rows)
    for name, matrix in affine.terms.items():
        total = total + values[name] @ matrix.T
    return total


def _read(blueprint: Blueprint, values: Values) -> Tensor:
    for layer in blueprint.post:
        values = _apply(blueprint, layer, values)
    stride = 2 if blueprint.layout == "pairs" else 1
    return _at(blueprint.answer, values)[:, int(blueprint.tokens.start) :: stride]


def a_prompt(blueprint: Blueprint, generator: torch.Generator) -> Prompt:
    """Fewer points than there are positions for."""
    shape = (3, POINTS - 1, DIMS)
    xs = torch.randn(shape, generator=generator, dtype=torch.float64)  # (3, n, d)
    last = torch.randn(3, 1, DIMS, generator=generator, dtype=torch.float64)  # (3, 1, d)
    ys = torch.cat([xs[:, 1:], last], dim=1)  # (3, n, d)
    return Prompt(xs=xs, ys=ys[..., : blueprint.outputs], layout=blueprint.layout)
