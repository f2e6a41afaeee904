"""What studies of this paper share: criteria, names, and errors by loop."""

from collections.abc import Mapping, Sequence
from dataclasses import replace

import pandas as pd
from matplotlib.axes import Axes
from torch import Tensor

from innerloop.analysis import Measured, drawing
from innerloop.core.prompt import Prompt
from innerloop.studies.claim import at_least, at_most
from innerloop.studies.lab import Lab

APART = 1.25
"""Two seeds of one model differ by about a quarter: less is no difference."""
SEEDS = "two seeds of one model differ by about a quarter"
HIGHER, LOWER, ALIKE = at_least(APART, SEEDS), at_most(1 / APART, SEEDS), at_most(APART, SEEDS)
"""What ratios of errors must be for the first to be larger, smaller, or no larger."""

KINDS = ("looped", "standard")
TITLES = {
    "sparse": "sparse linear functions",
    "tree": "decision trees",
    "network": "two-layer networks",
}
"""The families of section 5.4."""


def geometric_mean(ratios: Tensor) -> Tensor:
    """The mean of ratios (.., m) by their logarithms: (..)."""
    return ratios.log().mean(dim=-1).exp()


def shown_loops(last: int, trained: int) -> list[int]:
    """Every loop at first, then fewer and fewer, always the trained one: what a table has."""
    steps = {*range(min(20, last) + 1), *range(20, min(40, last) + 1, 2), *range(40, last + 1, 10)}
    return sorted({*steps, trained, last})


def loop_errors(
    lab: Lab,
    run: str,
    prompt: Prompt,
    *,
    last: int,
    trained: int,
    label: str,
    keys: Mapping[str, object] | None = None,
) -> Measured:
    """Errors (P, last + 1) of a looped model after each loop, with all examples."""
    errors = lab.error(
        lab.learner(run), prompt, lab.config(run).task, by="step", steps=last, axis="loop",
        label=label,
    )  # fmt: skip
    return replace(errors, keys=keys or {}, shown={"loop": shown_loops(last, trained)})


def mark_trained(
    axes: Axes, rows: pd.DataFrame, order: Sequence[str], *, label: str = "trained loops"
) -> None:
    """Mark the loops that each curve `b = ..` was trained with, in the colour of the curve."""
    for loops in sorted(set(rows["trained loops"])):
        colour = drawing.COLOURS[order.index(f"b = {loops}") % len(drawing.COLOURS)]
        drawing.mark(axes, float(loops), label=label, colour=colour)
