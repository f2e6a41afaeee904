"""What studies of this paper share: criteria, premises, nulls, names, and errors of a run."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from innerloop.analysis import Averages, Measured, Statistic
from innerloop.core.learner import Learner
from innerloop.learners import OLS, GradientDescent, NearestNeighbors
from innerloop.studies.claim import Criterion, Premise, at_least, at_most
from innerloop.studies.lab import Lab

APART = 1.25
"""Two seeds of one model differ by about a quarter: less is no difference."""
SEEDS = "two seeds of one model differ by about a quarter"
HIGHER, LOWER, ALIKE = at_least(APART, SEEDS), at_most(1 / APART, SEEDS), at_most(APART, SEEDS)
"""What ratios of errors must be for the first to be larger, smaller, or no larger."""
MATCHES = at_most(APART, f"{SEEDS}; a better one matches too")
STAYS = at_most(
    1.1, "at a fixed point nothing changes; a tenth is less than what separates two seeds, and an "
    "error that falls on is no loss"
)  # fmt: skip
"""What the error far beyond the trained loops, over that at these, must be."""
ALIGNED = at_most(
    0.02,
    "about the width of a line on the figure's axis from 0 to 1: curves that lie on each other",
)
"""What the mean distance of two curves of errors by examples must be."""
LEARNED = at_most(
    0.05, "a twentieth of the error of predicting zero: of a model above it, which has its task "
    "half learned, nothing follows"
)  # fmt: skip
"""The error in distribution, after the last example, of a model that has learned its task."""
KNOWN = at_most(
    0.9, "a tenth below a learner that knows nothing of the family; on sparse functions least "
    "squares has 1, and Lasso, which knows of it, 0.8"
)  # fmt: skip
"""The error of a model that has learned a family, over that of a plain learner."""

KINDS = ("looped", "standard")
TITLES = {
    "sparse": "sparse linear functions",
    "tree": "decision trees",
    "network": "two-layer networks",
}
"""The families of section 5.4."""
PLAIN: Mapping[str, Learner[Any]] = {
    "sparse": OLS(), "tree": NearestNeighbors(), "network": NearestNeighbors()
}  # fmt: skip
"""What does well on a family without knowing it: that there are zeros, splits, hidden units."""
UNLIKE_THE_PAPER = (
    "Unlike in the paper, y has a place of its own in a token, GELU is not approximated, "
    "weights are drawn by the number of inputs, and Muon is the optimiser of matrices; loops "
    "grow from 4 to b over 60% of the steps (the paper: from T, over the first tenth)"
)
"""What differs from the paper's recipe at every scale but its own."""


def learned(*labels: str, criterion: Criterion = LEARNED) -> Premise:
    """The models of these measures have learned their task: each ends at a low enough error.

    A measure is an error by examples, of which the last counts, or that after the last one.
    """
    return all_learned(
        ", ".join(labels), lambda m: [m[label].reshape(-1)[-1] for label in labels], criterion
    )


def all_learned(
    models: str, errors: Callable[[Averages], Sequence[Tensor]], criterion: Criterion = LEARNED
) -> Premise:
    """The same of models whose errors () after the last example a function picks."""
    return Premise(
        quantity=f"error after the last example, the largest of: {models}",
        criterion=criterion,
        statistic=lambda m: torch.stack([*errors(m)]).amax(),
    )


def known(families: str, ratios: Callable[[Averages], Sequence[Tensor]]) -> Premise:
    """Models have learned their families, by errors () over those of plain learners."""
    return Premise(
        quantity="mean error over all prefixes / that of a learner that knows nothing of the "
        f"family (least squares; 3 neighbours for trees and networks), the largest of: {families}",
        criterion=KNOWN,
        statistic=lambda m: torch.stack([*ratios(m)]).amax(),
    )


def descent(lab: Lab, label: str) -> GradientDescent:
    """Gradient descent with one step per loop or layer of the model whose place it takes."""
    return GradientDescent(lab.untrained(label).steps)


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


def plain_errors(lab: Lab, run: str, family: str) -> Measured:
    """The error, over all prefixes, of the plain learner of a family on a run's prompts."""
    config = lab.config(run)
    prompt = lab.draw(config.task, config.points, purpose=family)
    return over_prefixes(lab.error(PLAIN[family], prompt, config.task))


def over_prefixes(errors: Measured) -> Measured:
    """Errors (P, n) by examples as their mean over all prefixes: (P,)."""
    return replace(errors, values=errors.values.mean(dim=-1), axes=(), ticks={})


def with_ends(lab: Lab, run: str, by_loop: Measured) -> dict[str, Measured]:
    """Errors by loop under the run's name, and those at its own b loops and after all of them.

    What stands in the place of a run counts its own loops.
    """
    return {
        run: by_loop,
        f"{run}, at b loops": by_loop.at(loop=lab.learner(run).steps),
        f"{run}, far beyond": by_loop.at(loop=-1),
    }


def drift(run: str) -> Statistic:
    """The error (..) after all loops over that at b loops."""
    return lambda m: m[f"{run}, far beyond"] / m[f"{run}, at b loops"]


def distance(first: Tensor, second: Tensor) -> Tensor:
    """How far apart two curves (.., n) of errors are, on average over prefixes: (..)."""
    return (first - second).abs().mean(dim=-1)


def geometric_mean(ratios: Tensor) -> Tensor:
    """The mean of ratios (.., m) by their logarithms: (..)."""
    return ratios.log().mean(dim=-1).exp()


def shown_loops(last: int, trained: int) -> list[int]:
    """Every loop at first, then fewer and fewer, always the trained one: what a table has."""
    steps = {*range(min(20, last) + 1), *range(20, min(40, last) + 1, 2), *range(40, last + 1, 10)}
    return sorted({*steps, trained, last})
