"""Activation patching: what of one prompt's run makes its predictions, put into another's.

The model runs on a corrupted prompt, and at one place its value is replaced by the one that the
clean prompt has there. How much of the clean prediction comes back says what the place carries.

Shapes: P prompts, k outputs; ".." are the axes of the heatmap: step, then head, then token.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from innerloop.analysis.measured import Measured
from innerloop.analysis.places import (
    Component,
    Grid,
    Tokens,
    cut,
    make_grid,
    record,
    rows_at_once,
    run_at_last,
)
from innerloop.core.chunks import in_parts
from innerloop.core.components import Place
from innerloop.core.errors import ConfigurationError, PromptError
from innerloop.core.expects import expect_learner, expect_prompt
from innerloop.core.learner import Learner
from innerloop.core.prompt import Prompt


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class Patching:
    """The predictions of a corrupted run with one place after the other from the clean one."""

    predictions: Tensor
    """(P, .., k)."""
    clean: Tensor
    """(P, k): those of the clean prompts."""
    corrupted: Tensor
    """(P, k): those of the corrupted prompts."""
    grid: Grid
    component: Component
    label: str
    """The learner's name."""

    @property
    def restored(self) -> Measured:
        """The share of the change between both predictions that each place brings back, (P, ..).

        0 is the corrupted prediction, 1 the clean one. The value of a prompt is in units of the
        mean squared change over all prompts: the mean over prompts is the share of all change, and
        a prompt whose two predictions hardly differ does not outweigh the rest.
        """
        change, moved, size = self._changes()
        return self._measured((moved * change).sum(dim=-1) / size)

    @property
    def moved(self) -> Measured:
        """The squared movement that each place causes, over the same mean squared change, (P, ..).

        A share of 0 may be movement in both directions, on some prompts and on others: this is 0
        only where nothing moves.
        """
        _, moved, size = self._changes()
        return self._measured(moved.square().sum(dim=-1) / size)

    def _changes(self) -> tuple[Tensor, Tensor, Tensor]:
        """Corrupted to clean (P, 1.., k) and to patched (P, .., k); the mean square of one."""
        change = (self.clean - self.corrupted).double()  # (P, k)
        size = change.square().sum(dim=1).mean()  # ()
        if not size > 0:
            raise PromptError(
                "the clean and the corrupted prompts have the same predictions, so nothing can be "
                "restored: take prompts that differ."
            )
        shape = (len(change), *(1 for _ in self.grid.axes), -1)
        return change.reshape(shape), self.predictions - self.corrupted.reshape(shape), size

    def _measured(self, values: Tensor) -> Measured:
        missing = values.isnan()  # (P, ..): blocks with fewer heads than others
        return Measured(
            values=values, axes=self.grid.axes, ticks=self.grid.ticks, label=self.label,
            counted=~missing if bool(missing.any()) else None,
        )  # fmt: skip


@torch.no_grad()
def patch(
    learner: Learner[Any],
    clean: Prompt,
    corrupted: Prompt,
    *,
    component: Component = "head",
    at_steps: Sequence[int] | None = None,
    tokens: Tokens | None = None,
    numbers: Sequence[int] | None = None,
    prefix: int = -1,
    steps: int | None = None,
) -> Patching:
    """Run corrupted prompts with one component after the other as it is on the clean prompts.

    The prediction is the one after `prefix` examples, by default at the last point. A row of the
    result is a step (a layer or a loop, from 0); of the residual stream, what it is after the step,
    and first what is embedded. Then follow heads, for the component "head", and tokens: all at
    once, each, or each of some. By default that is each token of the residual stream, and all
    tokens of everything else. `numbers` are those of the residual stream to be replaced, such as a
    circuit's `slot_numbers("M x")`; all by default.

    Pairs that differ in one thing say most: other weights with the same inputs, or one other y.
    """
    expect_learner(learner)
    for one in (clean, corrupted):
        expect_prompt(one)
    if clean.xs.shape != corrupted.xs.shape or clean.ys.shape != corrupted.ys.shape:
        raise PromptError(
            f"the clean prompts have xs of shape {tuple(clean.xs.shape)}, the corrupted ones "
            f"{tuple(corrupted.xs.shape)}: give pairs of prompts of the same shape."
        )
    if numbers is not None and component != "residual":
        raise ConfigurationError(
            f"numbers are those of the residual stream, and the component is {component!r}: take "
            "component='residual', or leave them out."
        )
    clean, _ = cut(clean, prefix)
    corrupted, _ = cut(corrupted, prefix)
    if tokens is None:
        tokens = "each" if component == "residual" else "all"
    grid = make_grid(learner, clean, component, steps=steps, at_steps=at_steps, tokens=tokens)
    cells = grid.cells(numbers)
    parts: list[tuple[Tensor, Tensor, Tensor]] = []
    for which, wrong in in_parts(corrupted, rows_at_once(learner, clean, grid.places)):
        right = clean.select(which)
        values, wanted = record(learner, right, grid.places, steps)  # (b, T, ..), (b, k)
        before = _unchanged(learner, wrong, grid, steps)  # (b, k)

        def source(place: Place, value: Tensor, values: dict[Place, Tensor] = values) -> Tensor:
            return values[place]

        patched = [
            torch.full_like(before, torch.nan)
            if cell is None
            else run_at_last(learner, wrong, cell.edit(source), grid.places[0].kind, steps)
            for cell in cells
        ]  # (b, k) each
        shape = (len(before), *grid.shape, before.shape[1])
        parts.append((torch.stack(patched, dim=1).reshape(shape), wanted, before))
    predictions, wanted, before = (torch.cat(several) for several in zip(*parts, strict=True))
    return Patching(
        predictions=predictions, clean=wanted, corrupted=before, grid=grid, component=component,
        label=learner.name,
    )  # fmt: skip


def _unchanged(learner: Learner[Any], prompt: Prompt, grid: Grid, steps: int | None) -> Tensor:
    return run_at_last(learner, prompt, lambda place, value: None, grid.places[0].kind, steps)
