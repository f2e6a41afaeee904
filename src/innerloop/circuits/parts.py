"""Heads, neurons and layers as maths on slots, before they become tensors."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from torch import Tensor

from innerloop.circuits.residual import Affine, Slot
from innerloop.models.block import BlockSize


@dataclass(frozen=True, eq=False, kw_only=True)
class Head:
    """An attention head: compares a query with keys, and adds values to slots.

    The score of token j for token i is query(i) . key(j), without any further scale.
    """

    query: Affine
    key: Affine
    values: Mapping[Slot, Affine]
    """What is taken from the tokens seen, by the slot that it is added to."""
    says: str
    """The algebra in one line, for people."""


@dataclass(frozen=True, eq=False, kw_only=True)
class Neurons:
    """Units of an MLP: activation(inputs), times matrices, is added to slots."""

    inputs: Affine
    """(units,) before the activation."""
    outputs: Mapping[Slot, Tensor]
    """(size, units) for each slot that is added to."""
    constants: Mapping[Slot, Tensor] = field(default_factory=dict)
    """(size,) added as it is."""
    says: str
    """The algebra in one line, for people."""


@dataclass(frozen=True, eq=False, kw_only=True)
class Layer:
    """One block: all heads at once, then all neurons at once."""

    heads: tuple[Head, ...] = ()
    neurons: tuple[Neurons, ...] = ()
    title: str = ""

    @property
    def size(self) -> BlockSize:
        """The heads and units that it needs; without heads it keeps one that does nothing."""
        numbers = [1]
        for head in self.heads:
            numbers += [head.query.rows, sum(value.rows for value in head.values.values())]
        units = sum(part.inputs.rows for part in self.neurons)
        return BlockSize(heads=max(1, len(self.heads)), head_size=max(numbers), hidden=units)
