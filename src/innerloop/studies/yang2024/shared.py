"""What studies of this paper share: criteria, premises, names, and errors of a run."""

import torch
from torch import Tensor

from innerloop.analysis import Measured
from innerloop.studies.claim import Criterion, Premise, at_least, at_most
from innerloop.studies.lab import Lab

APART = 1.25
"""Two seeds of one model differ by about a quarter: less is no difference."""
SEEDS = "two seeds of one model differ by about a quarter"
HIGHER, LOWER, ALIKE = at_least(APART, SEEDS), at_most(1 / APART, SEEDS), at_most(APART, SEEDS)
"""What ratios of errors must be for the first to be larger, smaller, or no larger."""
MATCHES = at_most(APART, f"{SEEDS}; a better one matches too")
STAYS = at_most(
    1.1, "at a fixed point nothing changes; a tenth is less than what separates two seeds"
)
"""What the error far beyond the trained loops, over that at these, must be."""
LEARNED = at_most(
    0.05, "a twentieth of the error of predicting zero: of models above it, that have the task half "
    "learned, nothing follows"
)  # fmt: skip
"""The error in distribution, after the last example, of a model that has learned its task."""

KINDS = ("looped", "standard")
TITLES = {
    "sparse": "sparse linear functions",
    "tree": "decision trees",
    "network": "two-layer networks",
}
"""The families of section 5.4."""


def learned(*labels: str, criterion: Criterion = LEARNED) -> Premise:
    """The models of these measures have learned their task: each ends at a low enough error.

    A measure is an error by examples, of which the last counts, or that after the last one.
    """
    return Premise(
        quantity=f"error after the last example, the largest of: {', '.join(labels)}",
        criterion=criterion,
        statistic=lambda m: torch.stack([m[label].reshape(-1)[-1] for label in labels]).amax(),
    )


def errors_of(
    lab: Lab, run: str, *, loops: int | None = None, purpose: str = "test", label: str = ""
) -> Measured:
    """Errors of a run by examples, or after each loop up to `loops`, on prompts of its own task."""
    config = lab.config(run)
    prompt = lab.draw(config.task, config.points, purpose=purpose)
    return lab.error(
        lab.learner(run), prompt, config.task, by="examples" if loops is None else "step",
        steps=loops, axis="loop", label=label or run,
    )  # fmt: skip


def geometric_mean(ratios: Tensor) -> Tensor:
    """The mean of ratios (.., m) by their logarithms: (..)."""
    return ratios.log().mean(dim=-1).exp()


def shown_loops(last: int, trained: int) -> list[int]:
    """Every loop at first, then fewer and fewer, always the trained one: what a table has."""
    steps = {*range(min(20, last) + 1), *range(20, min(40, last) + 1, 2), *range(40, last + 1, 10)}
    return sorted({*steps, trained, last})
