"""Which step of one learner is most like which step of another: Fu et al. (2023, definition 4).

The paper prints an argmin of similarity and means the best match; that is what is taken here.

Shapes: P prompts, n points, k outputs, A and C steps of the two learners, 0 steps included.
"""

from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import pandas as pd
import torch
from torch import Tensor

from innerloop.analysis.distances import finite
from innerloop.analysis.induced import induced_weights
from innerloop.core.chunks import rows_within_budget
from innerloop.core.errors import ConfigurationError, unknown
from innerloop.core.iterate import trajectory
from innerloop.core.learner import Learner
from innerloop.core.prompt import Prompt

Measure = Literal["sim_e", "sim_w", "spd"]
MEASURES: tuple[Measure, ...] = ("sim_e", "sim_w", "spd")


@dataclass(frozen=True, slots=True, kw_only=True)
class Fit:
    """A straight line through best matches: matched = slope * step + intercept."""

    slope: float
    intercept: float
    r_squared: float
    """The part of the variance that the line explains; NaN where there is none."""


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class Match:
    """The similarity of every step of one learner with every step of another."""

    measure: Measure
    similarity: Tensor
    """(A, C): cosines for sim_e and sim_w, squared differences for spd."""
    best: Tensor
    """(A,) int64: the step of the second learner that is most like each step of the first."""
    value: Tensor
    """(A,): the similarity there."""
    linear: Fit
    """Best match against the first learner's step, over the steps that `fitted` names."""
    log_linear: Fit
    """The logarithm of the best match against the step: an exponential where this fits better."""
    fitted: range
    """The first learner's steps that the fits use."""

    def table(self) -> pd.DataFrame:
        """One row a step of the first learner: step, match, similarity."""
        columns = {"step": range(len(self.best)), "match": self.best, "similarity": self.value}
        return pd.DataFrame(columns)


def match(
    first: Learner[Any],
    second: Learner[Any],
    prompt: Prompt,
    *,
    measure: Measure = "sim_e",
    first_steps: int | None = None,
    second_steps: int | None = None,
    queries: int = 100,
    fitted: range | None = None,
    seed: int = 0,
) -> Match:
    """Compare all steps of two learners on the same prompts.

    The fits leave out step 0, where nothing has been computed, and, unless `fitted` says otherwise,
    the steps of the first learner that match the last step of the second: these would match a later
    one, were there any.
    """
    if measure not in MEASURES:
        raise ConfigurationError(unknown("measure", measure, MEASURES))
    if measure == "sim_w":
        weights = [
            induced_weights(
                learner, prompt, queries=queries, steps=steps, every_step=True, seed=seed
            )
            for learner, steps in ((first, first_steps), (second, second_steps))
        ]  # (A, P, n, d, k), (C, P, n, d, k)
        table = _cosines(*(_directions(each[:, :, 1:].mT) for each in weights))
    else:
        with torch.no_grad():
            one = trajectory(first, prompt, steps=first_steps).predictions.double()  # (A, P, n, k)
            other = trajectory(second, prompt, steps=second_steps).predictions.double()
        table = compare_steps(one, other, prompt, measure)
    return matched(table, measure, fitted)


def compare_steps(one: Tensor, other: Tensor, prompt: Prompt, measure: Measure) -> Tensor:
    """SimE or SPD of predictions (A, P, n, k) and (C, P, n, k): (A, C)."""
    counted = torch.ones_like(prompt.ys[..., 0]) if prompt.scored is None else prompt.scored
    if measure == "spd":
        number = counted.sum() * prompt.outputs  # ()
        rows = [
            ((finite(other) - finite(each)).square() * counted[..., None]).sum(dim=(1, 2, 3))
            / number  # (C,)
            for each in one
        ]
        return torch.stack(rows)
    residuals = [
        ((finite(answers) - prompt.ys) * counted[..., None])[:, :, 1:].flatten(2)  # (A or C, P, m)
        for answers in (one, other)
    ]
    return _cosines(*(_directions(each[:, :, None]) for each in residuals))


def matched(table: Tensor, measure: Measure, fitted: range | None = None) -> Match:
    """The best matches of a table (A, C), and lines through them."""
    usable = torch.nan_to_num(table, nan=-torch.inf, neginf=-torch.inf)  # (A, C)
    if measure == "spd":
        usable = -torch.nan_to_num(table, nan=torch.inf)  # (A, C)
    best = usable.argmax(dim=1)  # (A,)
    if fitted is None:
        inner = (best < table.shape[1] - 1).nonzero()[:, 0]  # (some,)
        fitted = range(1, int(inner[-1]) + 1 if len(inner) else 1)
    steps = np.array(fitted, dtype=float)  # (some,)
    found = best[list(fitted)].double().cpu().numpy()  # (some,)
    positive = found > 0
    return Match(
        measure=measure,
        similarity=table,
        best=best,
        value=table.gather(1, best[:, None])[:, 0],
        linear=_line(steps, found),
        log_linear=_line(steps[positive], np.log(found[positive])),
        fitted=fitted,
    )


def _directions(vectors: Tensor) -> Tensor:
    """Vectors (steps, P, .., m) at length 1, and each group of them at weight 1 / group."""
    flat = vectors.flatten(2, -2)  # (steps, P, g, m)
    norm = flat.norm(dim=-1, keepdim=True)  # (steps, P, g, 1)
    usable = torch.isfinite(norm) & (norm > 0)  # (steps, P, g, 1)
    scaled = torch.where(usable, flat / norm.masked_fill(~usable, 1.0), 0.0)  # (steps, P, g, m)
    return (scaled / flat.shape[2] ** 0.5).flatten(2)  # (steps, P, g m)


def _cosines(one: Tensor, other: Tensor) -> Tensor:
    """The mean over prompts of products of directions (A, P, m) and (C, P, m): (A, C)."""
    total = one.new_zeros(len(one), len(other))  # (A, C)
    rows = rows_within_budget((len(one) + len(other)) * one.shape[2] * one.itemsize)
    for start in range(0, one.shape[1], rows):
        some = slice(start, start + rows)
        total += one[:, some].flatten(1) @ other[:, some].flatten(1).T  # (A, C)
    return total / one.shape[1]


def _line(steps: np.ndarray, values: np.ndarray) -> Fit:
    """Least squares through points; NaN without two different steps."""
    if len(steps) < 2:
        return Fit(slope=float("nan"), intercept=float("nan"), r_squared=float("nan"))
    slope, intercept = np.polyfit(steps, values, 1)
    spread = float(((values - values.mean()) ** 2).sum())
    left = float(((values - slope * steps - intercept) ** 2).sum())
    explained = 1 - left / spread if spread > 0 else float("nan")
    return Fit(slope=float(slope), intercept=float(intercept), r_squared=explained)
