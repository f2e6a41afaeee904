"""What is refused of a blueprint before any weight is built."""

from innerloop.circuits.blueprint import Blueprint
from innerloop.circuits.parts import Layer
from innerloop.circuits.residual import Slot
from innerloop.core.errors import ConfigurationError

MOST_WEIGHTS = 200_000_000
"""1.6 GB in float64: more is a mistake in a size rather than a circuit."""


def validate(blueprint: Blueprint) -> None:
    """Refuse what cannot be compiled; the sentence names the layer and what to change."""
    _check_shape(blueprint)
    _check_tokens(blueprint)
    for where, layer in blueprint.all_layers():
        _check_layer(blueprint, layer, f"layer {where} ({layer.title})")
    blueprint.residual.require(blueprint.answer, f"the answer of {blueprint.name}")
    if blueprint.answer.rows != blueprint.outputs:
        raise ConfigurationError(
            f"the answer of {blueprint.name} has {blueprint.answer.rows} numbers, expected "
            f"{blueprint.outputs}: one per output."
        )
    _check_weights(blueprint)


def _check_shape(blueprint: Blueprint) -> None:
    name = blueprint.name
    if blueprint.points < 1 or blueprint.steps < 0 or not blueprint.body:
        raise ConfigurationError(
            f"{name} has {blueprint.points} points, {blueprint.steps} steps and "
            f"{len(blueprint.body)} layers: expected at least 1, 0 and 1."
        )
    if not blueprint.looped and (blueprint.steps < 1 or len(blueprint.body) % blueprint.steps):
        raise ConfigurationError(
            f"{name} has {len(blueprint.body)} layers for {blueprint.steps} steps: expected as "
            "many layers for each step."
        )
    if blueprint.looped and blueprint.tokens.positions and not blueprint.pre:
        raise ConfigurationError(
            f"{name} is a loop with positions and no pre-transformer: positions would come in at "
            "every loop. Give it a layer before the loop."
        )
    if (blueprint.norm == "none") != (blueprint.norm_slot is None) or (
        blueprint.norm_slot is not None and blueprint.norm_scale <= 0
    ):
        raise ConfigurationError(
            f"{name} has the norm {blueprint.norm!r}: a circuit with a norm needs a slot and a "
            "scale above 0 to pass it, a circuit without has none."
        )


def _check_tokens(blueprint: Blueprint) -> None:
    tokens, start = blueprint.tokens, int(blueprint.tokens.start)
    length = start + (2 * blueprint.points - 1 if blueprint.layout == "pairs" else blueprint.points)
    expected = (
        (tokens.inputs, (blueprint.dims,), "x"),
        (tokens.outputs, (blueprint.outputs,), "y"),
        (tokens.constants, (), "constants"),
    )
    for table, behind, what in expected:
        for slot, values in table.items():
            _check_write(blueprint, slot, tuple(values.shape), (slot.size, *behind), what)
    for slot, values in tokens.positions.items():
        _check_write(blueprint, slot, tuple(values.shape), (length, slot.size), "positions")


def _check_layer(blueprint: Blueprint, layer: Layer, where: str) -> None:
    residual = blueprint.residual
    for head in layer.heads:
        for affine in (head.query, head.key, *head.values.values()):
            residual.require(affine, where)
        if head.query.rows != head.key.rows:
            raise ConfigurationError(
                f"{where} compares {head.query.rows} numbers with {head.key.rows}: a query and a "
                "key have as many."
            )
        for slot, value in head.values.items():
            _check_write(blueprint, slot, (value.rows,), (slot.size,), where)
    for part in layer.neurons:
        residual.require(part.inputs, where)
        for slot, matrix in part.outputs.items():
            shape = (slot.size, part.inputs.rows)
            _check_write(blueprint, slot, tuple(matrix.shape), shape, where)
        for slot, values in part.constants.items():
            _check_write(blueprint, slot, tuple(values.shape), (slot.size,), where)


def _check_write(
    blueprint: Blueprint, slot: Slot, shape: tuple[int, ...], expected: tuple[int, ...], where: str
) -> None:
    """Refuse a write to a slot that is not the circuit's, or of another shape than the slot's."""
    if blueprint.residual.slots.get(slot.name) is not slot:
        raise ConfigurationError(
            f"{where} of {blueprint.name} writes slot {slot.name!r}, which is not declared: "
            "declare it first."
        )
    if shape != expected:
        raise ConfigurationError(
            f"{where} of {blueprint.name} writes {shape} numbers to slot {slot.name!r}, expected "
            f"{expected}."
        )


def _check_weights(blueprint: Blueprint) -> None:
    """Refuse a circuit that would not fit into memory."""
    width = blueprint.residual.width * (1 if blueprint.norm == "none" else 2)
    weights = 0
    for _, layer in blueprint.all_layers():
        size = layer.size
        weights += width * (4 * size.head_size * size.heads + 2 * size.hidden)
    if weights > MOST_WEIGHTS:
        raise ConfigurationError(
            f"{blueprint.name} would have {weights:,} weights in {len(blueprint.body)} layers of "
            f"width {width}, more than {MOST_WEIGHTS:,}: take fewer dimensions or fewer points."
        )
