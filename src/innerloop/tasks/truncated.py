"""Fewer dimensions for a start: the curriculum of Garg et al. (2022)."""

from typing import Any

import torch
from pydantic import Field

from innerloop.core.errors import ShiftError
from innerloop.tasks.shifts import Inputs, Shift


class Truncated(Shift):
    """Inputs with zeros beyond their first coordinates.

    Labels are computed at the truncated inputs; function and noise are drawn as ever. Errors are
    still divided by the scale of the whole task.
    """

    active: int = Field(ge=1, description="coordinates that are not zero")

    def __init__(self, **values: Any) -> None:
        super().__init__(**values)
        if self.active > self.dims:
            raise ShiftError(
                f"active is {self.active}, expected at most dims, {self.dims}: no more coordinates "
                "can be kept than there are."
            )

    def draw_inputs(self, batch: int, points: int, generator: torch.Generator) -> Inputs:
        """The task's inputs, cut off."""
        xs = self.task.draw_inputs(batch, points, generator)  # (B, n, d)
        kept = torch.arange(self.dims, device=xs.device) < self.active  # (d,)
        return xs * kept, None
