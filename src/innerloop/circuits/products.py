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


def relu_add(value: Affine, to: Slot, *, says: str) -> Neurons:
    """Neurons that add an affine function to a slot: ReLU(v) - ReLU(-v) = v."""
    eye = torch.eye(to.size, dtype=torch.float64)  # (size, size)
    return Neurons(
        inputs=join(value, -value), outputs={to: torch.cat([eye, -eye], dim=1)}, says=says
    )
