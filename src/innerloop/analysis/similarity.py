"""How alike two learners are: in their predictions, their errors, and their induced weights.

SPD and ILW are distances (Akyurek et al. 2022, eq. 13 and 15): 0 for learners that agree. SimE and
SimW are cosines (Fu et al. 2023, section 3.4): 1 for learners that agree. Each is measured on every
prompt; `mean("examples")` averages over prefixes, `interval()` over prompts.

Shapes: P prompts, n points, d dimensions, k outputs.
"""

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import torch
from torch import Tensor

from innerloop.analysis.induced import bytes_asked, induced_weights
from innerloop.analysis.intervals import DRAWS, Averages, Interval, ends
from innerloop.analysis.measured import Measured
from innerloop.core.chunks import map_prompts, rows_within_budget
from innerloop.core.errors import ConfigurationError, PromptError
from innerloop.core.expects import expect_learner, expect_prompt
from innerloop.core.iterate import predict
from innerloop.core.learner import Learner
from innerloop.core.overflow import overflow_allowed
from innerloop.core.prompt import Prompt

Steps = tuple[int | None, int | None]
"""How many steps the first and the second learner take; None: as many as they do by default."""


def spd(
    first: Learner[Any], second: Learner[Any], prompt: Prompt, *, steps: Steps = (None, None)
) -> Measured:
    """Squared prediction differences (a - b)^2 by examples, averaged over queries and outputs.

    The papers divide them by d; divide by the task's scale.
    """
    one, other = _of_both(partial(predict_in_parts, prompt=prompt), first, second, steps)
    return by_examples(prediction_differences(one, other), prompt, "SPD")


def ilw(
    first: Learner[Any],
    second: Learner[Any],
    prompt: Prompt,
    *,
    steps: Steps = (None, None),
    queries: int | Tensor = 100,
) -> Measured:
    """Squared distances |w_a - w_b|^2 of implicit linear weights, by examples."""
    weights = partial(induced_weights, prompt=prompt, queries=queries)
    one, other = _of_both(weights, first, second, steps)  # (P, n, d, k) each
    return by_examples(weight_differences(one, other), prompt, "ILW")


def sim_e(
    first: Learner[Any], second: Learner[Any], prompt: Prompt, *, steps: Steps = (None, None)
) -> Measured:
    """Similarity of errors: the cosine of the two residual vectors of each prompt.

    A prompt's vector holds the residuals at all prefixes but the empty one. A single residual has
    no direction: `sim_e_by_examples` has the cosine over prompts.
    """
    one, other, counted = _residuals(first, second, prompt, steps)  # (P, n, k) twice, (P, n)
    some = counted.any(dim=1)  # (P,): a prompt without residuals says nothing
    values = cosines(one.flatten(1), other.flatten(1))  # (P,)
    return Measured(values=values, counted=some, label="SimE")


def sim_e_by_examples(
    first: Learner[Any], second: Learner[Any], prompt: Prompt, *, steps: Steps = (None, None)
) -> Interval:
    """The cosine over prompts of the two learners' residuals at each prefix, (n,) each.

    NaN at the empty prefix and where nothing is scored.
    """
    one, other, counted = _residuals(first, second, prompt, steps)  # (P, n, k) twice, (P, n)
    measures = {
        name: Measured(values=(left * right).sum(dim=-1), axes=("examples",))
        for name, left, right in (("both", one, other), ("one", one, one), ("other", other, other))
    }
    nothing = ~counted.any(dim=0).cpu()  # (n,)
    low, high = ends(_cosine_of_sums(Averages(measures, draws=DRAWS)))  # (n,) each
    value = _cosine_of_sums(Averages(measures))  # (n,)
    return Interval(*(each.masked_fill(nothing, torch.nan) for each in (value, low, high)))


def _cosine_of_sums(sums: Mapping[str, Tensor]) -> Tensor:
    """The cosine (..) of vectors with these mean products (..)."""
    one, other = sums["one"], sums["other"]  # (..) each
    norm = one.sqrt() * other.sqrt()  # (..)
    cosine = (sums["both"] / norm.masked_fill(norm == 0, 1.0)).nan_to_num(nan=0.0)  # (..)
    return cosine.masked_fill((one == 0) & (other == 0), 1.0)  # as in `cosines`


def sim_w(
    first: Learner[Any],
    second: Learner[Any],
    prompt: Prompt,
    *,
    steps: Steps = (None, None),
    queries: int | Tensor = 100,
) -> Measured:
    """Similarity of induced weights: their cosine by examples, from one example on."""
    weights = partial(induced_weights, prompt=prompt, queries=queries)
    one, other = _of_both(weights, first, second, steps)  # (P, n, d, k) each
    return by_examples(weight_cosines(one, other), prompt, "SimW", empty=False)


def prediction_differences(one: Tensor, other: Tensor) -> Tensor:
    """Squared differences of predictions (P, n[, q], k), averaged to (P, n)."""
    return (one.double() - other.double()).square().flatten(2).mean(dim=2)


def weight_differences(one: Tensor, other: Tensor) -> Tensor:
    """Squared distances of weights (.., P, n, d, k): (.., P, n)."""
    return (one - other).square().sum(dim=(-2, -1))


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
@overflow_allowed()
def predict_in_parts(learner: Learner[Any], prompt: Prompt, *, steps: int | None = None) -> Tensor:
    """Predictions (P, n[, q], k), so many prompts at a time that memory stays bounded."""
    expect_learner(learner)
    expect_prompt(prompt)
    rows = rows_within_budget(bytes_asked(learner, prompt, prompt.asked.shape[2]))
    return map_prompts(lambda part: predict(learner, part, steps=steps), prompt, rows=rows)


def _residuals(
    first: Learner[Any], second: Learner[Any], prompt: Prompt, steps: Steps
) -> tuple[Tensor, Tensor, Tensor]:
    """Residuals (P, n, k) of both learners, 0 where they do not count, and what counts (P, n)."""
    expect_prompt(prompt)
    if prompt.queries is not None:
        raise PromptError("SimE compares residuals at x_i: give prompts without queries.")
    ys, counted = prompt.ys.double(), counted_positions(prompt, empty=False)  # (P, n, k), (P, n)
    one, other = (
        (each.double() - ys).masked_fill(~counted[..., None], 0.0)
        for each in _of_both(partial(predict_in_parts, prompt=prompt), first, second, steps)
    )  # (P, n, k) each
    return one, other, counted


def _of_both(
    measure: Callable[..., Tensor], first: Learner[Any], second: Learner[Any], steps: Steps
) -> tuple[Tensor, Tensor]:
    """What a function of a learner and its steps gives for both."""
    if not isinstance(steps, tuple) or len(steps) != 2:
        raise ConfigurationError(
            f"steps is {steps!r}, expected a pair, one number for each learner: (5, None)."
        )
    return measure(first, steps=steps[0]), measure(second, steps=steps[1])


def counted_positions(prompt: Prompt, *, empty: bool = True) -> Tensor:
    """The positions (P, n) whose predictions count, with the empty prefix or without."""
    counted = torch.ones_like(prompt.ys[..., 0], dtype=torch.bool)  # (P, n)
    if prompt.scored is not None:
        counted = prompt.scored.clone()  # (P, n)
    if not empty:
        counted[:, 0] = False
    return counted


def by_examples(values: Tensor, prompt: Prompt, label: str, *, empty: bool = True) -> Measured:
    """Values (P, n) at all prefixes, or at all but the empty one."""
    counted = counted_positions(prompt, empty=empty)  # (P, n)
    return Measured(values=values, axes=("examples",), counted=counted, label=label)
