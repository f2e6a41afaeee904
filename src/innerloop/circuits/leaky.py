"""Leaky-ReLU networks without biases, as the MLPs of transformer layers: one layer in each, exact.

leaky(v) = ReLU(v) - slope ReLU(-v), and its inverse is the same with 1 / slope.
"""

from dataclasses import dataclass
from itertools import pairwise

import torch
from pydantic import FiniteFloat
from torch import Tensor
from torch.nn.functional import leaky_relu

from innerloop.circuits.parts import Neurons
from innerloop.circuits.residual import Affine, Residual, Slot, join
from innerloop.core.errors import ConfigurationError

Matrix = tuple[tuple[FiniteFloat, ...], ...]
"""Rows of numbers: inputs by outputs."""

_STARTS, _ASCENTS = 512, 64
_TRIED = 4096


@dataclass(frozen=True, slots=True, eq=False)
class LeakyNetwork:
    """Phi: layers h <- leaky(h W)."""

    weights: tuple[Tensor, ...]
    """(inputs, w), (w, w'), ..: one per layer, float64."""
    slope: float

    @classmethod
    def read(cls, matrices: tuple[Matrix, ...], slope: float, inputs: int) -> "LeakyNetwork":
        """A network of given weights; matrices that do not fit together are refused."""
        expected = inputs
        for number, rows in enumerate(matrices):
            lengths = {len(row) for row in rows}
            if len(rows) != expected or len(lengths) != 1 or 0 in lengths:
                raise ConfigurationError(
                    f"matrix {number} of the representation is no {expected} rows of one length: "
                    "give inputs by outputs, one matrix per layer."
                )
            expected = lengths.pop()
        if not matrices:
            raise ConfigurationError("the representation has no layer: give at least one matrix.")
        weights = tuple(torch.tensor(rows, dtype=torch.float64) for rows in matrices)
        return cls(weights, slope)

    @classmethod
    def draw(cls, inputs: int, width: int, layers: int, slope: float, seed: int) -> "LeakyNetwork":
        """Normal weights, the last layer scaled so that |Phi(x)|^2 is the width for N(0, I).

        On average over so many fixed x, that is. Without it narrow networks may be all but 0.
        """
        generator = torch.Generator().manual_seed(seed)
        sizes = [inputs] + [width] * layers
        weights = [
            torch.randn(before, after, generator=generator, dtype=torch.float64)
            for before, after in pairwise(sizes)
        ]
        tried = torch.randn(_TRIED, inputs, generator=generator, dtype=torch.float64)  # (t, d)
        square = cls(tuple(weights), slope)(tried).square().sum(dim=1).mean()  # ()
        weights[-1] = weights[-1] * (width / square).sqrt()  # (w, w)
        return cls(tuple(weights), slope)

    def __call__(self, inputs: Tensor) -> Tensor:
        """Features (.., w) of inputs (.., d)."""
        hidden = inputs
        for weight in self.weights:
            hidden = leaky_relu(hidden @ weight, self.slope)  # (.., w)
        return hidden

    @property
    def width(self) -> int:
        """How many numbers it gives."""
        return self.weights[-1].shape[1]

    def gain(self) -> float:
        """The largest |Phi(u)| of unit vectors u, found by ascent from many fixed starts.

        Phi is linear in a cone around u, so a step of the power method there never descends. What
        it ends at is a maximum nearby and no proof; the product of the layers' norms would be one,
        and several times too large.
        """
        generator = torch.Generator().manual_seed(0)
        inputs = self.weights[0].shape[0]
        starts = torch.randn(_STARTS, inputs, generator=generator, dtype=torch.float64)  # (s, d)
        unit = torch.nn.functional.normalize(starts, dim=1)  # (s, d)
        largest = 0.0
        for _ in range(_ASCENTS):
            hidden, slopes = unit, []
            for weight in self.weights:
                inner = hidden @ weight  # (s, w)
                slopes.append(torch.where(inner >= 0, 1.0, self.slope))  # (s, w)
                hidden = leaky_relu(inner, self.slope)  # (s, w)
            largest = max(largest, float(hidden.norm(dim=1).max()))
            for weight, slope in zip(reversed(self.weights), reversed(slopes), strict=True):
                hidden = (hidden * slope) @ weight.T  # (s, w)
            unit = torch.nn.functional.normalize(hidden, dim=1)  # (s, d)
        return largest

    def neurons(self, residual: Residual, inputs: Affine) -> tuple[tuple[Neurons, ...], Slot]:
        """The neurons of each layer, one layer after the other, and the slot of the features."""
        layers: list[Neurons] = []
        before, slot = inputs, None
        for number, weight in enumerate(self.weights):
            slot = residual.slot(f"h{number + 1}", weight.shape[1])
            says = f"h{number + 1} = leaky(h{number} W{number + 1})"
            layers.append(leaky_add(weight.T @ before, slot, slope=self.slope, says=says))
            before = slot
        assert slot is not None
        return tuple(layers), slot


def leaky_add(value: Affine, to: Slot, *, slope: float, factor: float = 1.0, says: str) -> Neurons:
    """Neurons that add a factor times leaky(value) to a slot; 1 / slope in its place inverts it."""
    eye = factor * torch.eye(to.size, dtype=torch.float64)  # (size, size)
    return Neurons(
        inputs=join(value, -value), outputs={to: torch.cat([eye, -slope * eye], dim=1)}, says=says
    )
