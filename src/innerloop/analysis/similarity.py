"""How alike two learners are: in their predictions, their errors, and their induced weights.

SPD and ILW are distances (Akyurek et al. 2022, eq. 13 and 15): 0 for learners that agree. SimE and
SimW are cosines (Fu et al. 2023, section 3.4): 1 for learners that agree. Each is a mean over
prompts, with a bootstrap interval, by prefix and in total.

Shapes: P prompts, n points, d dimensions, k outputs.
"""

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from innerloop.analysis.bootstrap import bootstrap, resample
from innerloop.analysis.error import seeded
from innerloop.analysis.induced import induced_weights, prompts_at_once
from innerloop.core.errors import PromptError
from innerloop.core.iterate import predict
from innerloop.core.learner import Learner
from innerloop.core.prompt import Prompt

Steps = tuple[int | None, int | None]
"""How many steps the first and the second learner take; None: as many as they do by default."""


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class Similarity:
    """A measure of two learners: the mean over prompts and its interval."""

    mean: float
    low: float
    high: float
    by_prefix: Tensor
    """(n,): the mean at each prefix; NaN where there is nothing to compare."""
    by_prefix_low: Tensor
    """(n,)."""
    by_prefix_high: Tensor
    """(n,)."""


def spd(
    first: Learner[Any],
    second: Learner[Any],
    prompt: Prompt,
    *,
    steps: Steps = (None, None),
    confidence: float = 0.9,
    draws: int = 1000,
    seed: int = 0,
) -> Similarity:
    """Squared prediction difference: the mean of (a - b)^2 over prompts, prefixes and outputs.

    The papers divide it by d; divide by the task's scale.
    """
    one, other = _predictions(first, second, prompt, steps)  # (P, n[, q], k) each
    values = prediction_differences(one, other)  # (P, n)
    return _summary(values, _counted(prompt), confidence, draws, seed)


def ilw(
    first: Learner[Any],
    second: Learner[Any],
    prompt: Prompt,
    *,
    steps: Steps = (None, None),
    queries: int | Tensor = 100,
    confidence: float = 0.9,
    draws: int = 1000,
    seed: int = 0,
) -> Similarity:
    """Distance of implicit linear weights: the mean of |w_a - w_b|^2 over prompts and prefixes."""
    one, other = _weights(first, second, prompt, steps, queries, seed)  # (P, n, d, k) each
    return _summary(weight_differences(one, other), _counted(prompt), confidence, draws, seed)


def sim_e(
    first: Learner[Any],
    second: Learner[Any],
    prompt: Prompt,
    *,
    steps: Steps = (None, None),
    confidence: float = 0.9,
    draws: int = 1000,
    seed: int = 0,
) -> Similarity:
    """Similarity of errors: the mean over prompts of the cosine of the two residual vectors.

    A prompt's vector holds the residuals at all prefixes but the empty one. By prefix it is the
    cosine over prompts, since a single residual has no direction.
    """
    if prompt.queries is not None:
        raise PromptError("SimE compares residuals at x_i: give prompts without queries.")
    one, other = _predictions(first, second, prompt, steps)  # (P, n, k) each
    ys, counted = prompt.ys.double(), _counted(prompt)  # (P, n, k), (P, n)
    counted = counted & (torch.arange(prompt.points, device=counted.device) > 0)  # (P, n)
    left, right = (
        (each.double() - ys).masked_fill(~counted[..., None], 0.0) for each in (one, other)
    )  # (P, n, k) each
    values = error_cosines(left, right)[:, None].cpu()  # (P, 1)
    some = counted.any(dim=1, keepdim=True).cpu()  # (P, 1): a prompt without residuals says nothing
    total = bootstrap(
        values, counted=some, confidence=confidence, draws=draws, generator=seeded(seed)
    )
    mean, low, high = _cosines_by_prefix(left, right, confidence, draws, seed)
    nothing = ~counted.any(dim=0).cpu()  # (n,)
    return Similarity(
        mean=float(total.mean),
        low=float(total.low),
        high=float(total.high),
        by_prefix=mean.masked_fill(nothing, torch.nan),
        by_prefix_low=low.masked_fill(nothing, torch.nan),
        by_prefix_high=high.masked_fill(nothing, torch.nan),
    )


def sim_w(
    first: Learner[Any],
    second: Learner[Any],
    prompt: Prompt,
    *,
    steps: Steps = (None, None),
    queries: int | Tensor = 100,
    confidence: float = 0.9,
    draws: int = 1000,
    seed: int = 0,
) -> Similarity:
    """Similarity of induced weights: the mean cosine over prompts and all non-empty prefixes."""
    one, other = _weights(first, second, prompt, steps, queries, seed)  # (P, n, d, k) each
    counted = _counted(prompt)  # (P, n)
    counted = counted & (torch.arange(prompt.points, device=counted.device) > 0)  # (P, n)
    return _summary(weight_cosines(one, other), counted, confidence, draws, seed)


def prediction_differences(one: Tensor, other: Tensor) -> Tensor:
    """Squared differences of predictions (P, n[, q], k), averaged to (P, n)."""
    squares = (one.double() - other.double()).square()  # (P, n[, q], k)
    return squares.flatten(2).mean(dim=2)


def weight_differences(one: Tensor, other: Tensor) -> Tensor:
    """Squared distances of weights (.., P, n, d, k): (.., P, n)."""
    return (one - other).square().sum(dim=(-2, -1))


def error_cosines(one: Tensor, other: Tensor) -> Tensor:
    """Cosines of residuals (.., P, n, k) over prefixes and outputs: (.., P)."""
    return cosines(one.flatten(-2), other.flatten(-2))


def weight_cosines(one: Tensor, other: Tensor) -> Tensor:
    """Cosines of weights (.., P, n, d, k), averaged over outputs: (.., P, n)."""
    return cosines(one.mT, other.mT).mean(dim=-1)


def cosines(one: Tensor, other: Tensor) -> Tensor:
    """Cosines along the last axis.

    Two zero vectors agree, zero and another do not; what is not finite agrees with nothing.
    """
    sizes = one.norm(dim=-1), other.norm(dim=-1)  # (..) each
    products = (one * other).sum(dim=-1)  # (..)
    norm = sizes[0] * sizes[1]  # (..)
    none = (sizes[0] == 0) & (sizes[1] == 0)  # (..)
    ratio = products / norm.masked_fill(norm == 0, 1.0)  # (..)
    return torch.where(none, 1.0, ratio.nan_to_num(nan=0.0, posinf=0.0, neginf=0.0))


@torch.no_grad()
def predict_in_parts(learner: Learner[Any], prompt: Prompt, *, steps: int | None = None) -> Tensor:
    """Predictions (P, n[, q], k), so many prompts at a time that memory stays bounded."""
    rows = prompts_at_once(learner, prompt, prompt.asked.shape[2])
    parts = [
        predict(learner, prompt.select(slice(start, start + rows)), steps=steps)
        for start in range(0, prompt.batch, rows)
    ]
    return torch.cat(parts)


def _predictions(
    first: Learner[Any], second: Learner[Any], prompt: Prompt, steps: Steps
) -> tuple[Tensor, Tensor]:
    one, other = (
        predict_in_parts(learner, prompt, steps=taken)
        for learner, taken in zip((first, second), steps, strict=True)
    )  # (P, n[, q], k) each
    return one, other


def _weights(
    first: Learner[Any],
    second: Learner[Any],
    prompt: Prompt,
    steps: Steps,
    queries: int | Tensor,
    seed: int,
) -> tuple[Tensor, Tensor]:
    one = induced_weights(first, prompt, queries=queries, steps=steps[0], seed=seed)
    return one, induced_weights(second, prompt, queries=queries, steps=steps[1], seed=seed)


def _counted(prompt: Prompt) -> Tensor:
    """Which predictions count: (P, n)."""
    if prompt.scored is not None:
        return prompt.scored
    shape = (prompt.batch, prompt.points)
    return torch.ones(shape, dtype=torch.bool, device=prompt.xs.device)


def _summary(
    values: Tensor, counted: Tensor, confidence: float, draws: int, seed: int
) -> Similarity:
    """Means of values (P, n) where they count, by prefix and over all of them."""
    values, counted = values.cpu(), counted.cpu()
    each = bootstrap(
        values, counted=counted, confidence=confidence, draws=draws, generator=seeded(seed)
    )
    number = counted.sum(dim=1, keepdim=True)  # (P, 1)
    whole = torch.where(counted, values, 0.0).sum(dim=1, keepdim=True) / number.clamp(min=1)
    total = bootstrap(
        whole, counted=number > 0, confidence=confidence, draws=draws, generator=seeded(seed)
    )
    return Similarity(
        mean=float(total.mean),
        low=float(total.low),
        high=float(total.high),
        by_prefix=each.mean,
        by_prefix_low=each.low,
        by_prefix_high=each.high,
    )


def _cosines_by_prefix(
    one: Tensor, other: Tensor, confidence: float, draws: int, seed: int
) -> tuple[Tensor, Tensor, Tensor]:
    """Cosine over prompts of residuals (P, n, k) at each prefix, and its interval: (n,) each."""
    sums = [
        (left * right).sum(dim=-1).cpu()  # (P, n)
        for left, right in ((one, other), (one, one), (other, other))
    ]
    times = resample(len(one), draws, seeded(seed))  # (draws, P)
    whole = torch.cat([torch.ones(1, len(one), dtype=torch.float64), times])  # (1 + draws, P)
    products, left, right = (whole @ each for each in sums)  # (1 + draws, n) each
    norm = left.sqrt() * right.sqrt()  # (1 + draws, n)
    values = (products / norm.masked_fill(norm == 0, 1.0)).nan_to_num(nan=0.0)  # (1 + draws, n)
    values = values.masked_fill((left == 0) & (right == 0), 1.0)  # as in `cosines`
    tail = (1 - confidence) / 2
    return values[0], values[1:].quantile(tail, dim=0), values[1:].quantile(1 - tail, dim=0)
