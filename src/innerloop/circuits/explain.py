"""A circuit for people: its slots, and what each layer reads, writes and means."""

from collections.abc import Iterable
from dataclasses import dataclass

from innerloop.circuits.blueprint import Blueprint
from innerloop.circuits.residual import Affine


@dataclass(frozen=True, slots=True)
class Row:
    """A head, or a group of neurons."""

    layer: str
    """Which layer: pre 0, step 0, post 0."""
    part: str
    """head 0, or mlp."""
    reads: str
    writes: str
    says: str


def layer_table(blueprint: Blueprint) -> list[Row]:
    """What every head and every group of neurons does, in order."""
    rows: list[Row] = []
    body = "loop" if blueprint.looped else "step"
    each = 1 if blueprint.looped else max(1, len(blueprint.body) // max(1, blueprint.steps))
    for part, layers in (("pre", blueprint.pre), (body, blueprint.body), ("post", blueprint.post)):
        for number, layer in enumerate(layers):
            where = f"{part} {number}"
            if part == "step" and each > 1:
                where = f"step {number // each}.{number % each}"
            for index, head in enumerate(layer.heads):
                reads = _read(head.query, head.key, *head.values.values())
                writes = ", ".join(slot.name for slot in head.values)
                rows.append(Row(where, f"head {index}", reads, writes, head.says))
            for neurons in layer.neurons:
                written = dict.fromkeys(
                    slot.name for slot in (*neurons.outputs, *neurons.constants)
                )
                what = f"mlp ({neurons.inputs.rows})"
                reads = _read(neurons.inputs)
                rows.append(Row(where, what, reads, ", ".join(written), neurons.says))
    return rows


def slot_table(blueprint: Blueprint) -> list[tuple[str, int, int]]:
    """Each slot: its name, where it begins in the residual stream, its size."""
    offsets = blueprint.residual.offsets()
    return [(name, offsets[name], slot.size) for name, slot in blueprint.residual.slots.items()]


def _read(*functions: Affine) -> str:
    """The slots that affine functions read."""
    return ", ".join(_names(functions))


def _names(functions: Iterable[Affine]) -> dict[str, None]:
    return dict.fromkeys(
        name
        for function in functions
        for name, matrix in function.terms.items()
        if bool((matrix != 0).any())
    )
