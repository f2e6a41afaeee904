"""Pairs of heads and of neurons that compute without approximation, by ReLU or linearly."""

from collections.abc import Mapping

import torch

from innerloop.circuits.parts import Head, Neurons
from innerloop.circuits.residual import Affine, Slot, join


def relu_products(
    *, query: Affine, key: Affine, values: Mapping[Slot, Affine], says: str
) -> tuple[Head, Head]:
    """Two heads of ReLU attention: the sum over j of (query(i) . key(j)) value(j), exactly.

    ReLU(a) v + ReLU(-a) (-v) = a v: the second head has both its query and its values negated.
    """
    negated = {slot: -value for slot, value in values.items()}
    return (
        Head(query=query, key=key, values=values, says=says),
        Head(query=-query, key=key, values=negated, says="the same, where the product is below 0"),
    )


def paired_add(value: Affine, to: Slot, *, gate: Affine | None = None, says: str) -> Neurons:
    """Neurons that add an affine function to a slot: f(v) - f(-v) = v for ReLU and for GELU.

    A gate is added to v and to -v: 0 where the neurons are open, far below 0 where they are shut.
    """
    inputs = (value, -value) if gate is None else (value + gate, -value + gate)
    eye = torch.eye(to.size, dtype=torch.float64)  # (size, size)
    return Neurons(inputs=join(*inputs), outputs={to: torch.cat([eye, -eye], dim=1)}, says=says)
