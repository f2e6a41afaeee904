"""A circuit for people: its slots, and what each layer reads, writes and means."""

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
    algebra: str


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
                slots = (*neurons.outputs, *neurons.constants)
                writes = ", ".join(dict.fromkeys(slot.name for slot in slots))
                what = f"mlp ({neurons.inputs.rows})"
                rows.append(Row(where, what, _read(neurons.inputs), writes, neurons.says))
    return rows


def slot_table(blueprint: Blueprint) -> list[tuple[str, int, int]]:
    """Each slot: its name, where it begins in the residual stream, its size."""
    offsets = blueprint.residual.offsets()
    return [(name, offsets[name], slot.size) for name, slot in blueprint.residual.slots.items()]


def _read(*functions: Affine) -> str:
    """The slots that affine functions read."""
    terms = [term for function in functions for term in function.terms.items()]
    return ", ".join(dict.fromkeys(name for name, matrix in terms if bool(matrix.any())))
