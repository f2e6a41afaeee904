"""Fewer dimensions for a start: the curriculum of Garg et al. (2022)."""

from typing import Any, Protocol, runtime_checkable

import torch
from pydantic import Field
from torch import Tensor

from innerloop.core.errors import ShiftError
from innerloop.core.prompt import Prompt
from innerloop.tasks.shifts import Inputs, Shift


@runtime_checkable
class LooksAtFew(Protocol):
    """What a task has beside whose functions depend on few coordinates, drawn at random."""

    def draw_function_of_first(
        self, dims: int, batch: int, generator: torch.Generator
    ) -> dict[str, Tensor]:
        """Functions as `draw_function` draws them, of the first so many coordinates alone."""
        ...


class Truncated(Shift):
    """Inputs with zeros beyond their first coordinates.

    Labels are computed at the truncated inputs; function and noise are drawn as ever. But functions
    that depend on few coordinates depend on some that are kept: most would be zero otherwise.
    Errors are still divided by the scale of the whole task.
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

    def draw(self, batch: int, points: int, generator: torch.Generator) -> Prompt:
        """The task's own pieces in the task's own order."""
        xs, _ = self.draw_inputs(batch, points, generator)  # (B, n, d)
        if isinstance(self.task, LooksAtFew):
            function = self.task.draw_function_of_first(self.active, batch, generator)
        else:
            function = self.task.draw_function(batch, generator)
        ys = self.label(function, xs, generator)  # (B, n, k)
        return Prompt(xs=xs, ys=ys, truth=self.task.truth(function, xs))
