"""How an iteration comes to rest: its distance to the fixed point by step, its rate, its Jacobian.

Near a fixed point z* of z <- g(z) the distance shrinks by the spectral radius of g's Jacobian at z*
a step, unless the path happens to avoid the slowest direction. So two numbers are measured apart:
the rate along the path that the learner takes, and the radius, which knows all directions.

Shapes: P prompts, K steps, D numbers that move; ".." are the axes of a learner's moving part.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import normalize

from innerloop.analysis.intervals import seeded
from innerloop.analysis.matching import line
from innerloop.analysis.measured import Measured
from innerloop.core.chunks import in_parts, rows_within_budget
from innerloop.core.errors import ConfigurationError, NotSupportedError
from innerloop.core.expects import expect_learner, expect_prompt
from innerloop.core.fixed_point import FixedPoint, run_to_fixed_point
from innerloop.core.iterate import iterate
from innerloop.core.learner import Learner
from innerloop.core.prompt import Prompt

ROUNDING = 1000
"""Times eps: distances below this are rounding, and no rate is fitted to them."""
DECADES = 100.0
"""The distances that a rate is fitted to: from the last one to this many times as much."""
KRYLOV = 20
"""Directions that the radius is read from, after the power iteration."""

_unit = partial(normalize, dim=1, eps=1e-300)
"""Vectors (b, D) at length 1; zero stays zero."""


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class Convergence:
    """How fast a learner comes to its fixed point, on each prompt."""

    distances: Measured
    """By step: |z_t - z*| / max(1, |z*|); prompts without a fixed point do not count."""
    rates: Measured
    """What a step multiplies the distance by, at the end of the path."""
    radii: Measured | None
    """The spectral radius of the step's Jacobian at the fixed point."""
    refusal: str
    """Why there are no radii; empty where there are."""
    steps: Tensor
    """(P,) int64: steps until the fixed point was reached, as `run_to_fixed_point` counts them."""
    converged: Tensor
    """(P,) bool: whether it was; only these prompts count in distances, rates and radii."""


@torch.no_grad()
def convergence(
    learner: Learner[Any],
    prompt: Prompt,
    *,
    entries: Tensor | None = None,
    tolerance: float | None = None,
    max_steps: int = 1000,
    power_steps: int = 50,
    throw: bool = True,
    seed: int = 0,
) -> Convergence:
    """Run a learner to its fixed point and measure how it gets there.

    The fixed point is where `run_to_fixed_point` stops, run on for as many steps again, so that its
    own error does not show in the distances. The rate is a least squares fit of the log distance
    over the last two decades above rounding, or the last two steps where these are fewer. The
    radius is found by a power iteration whose products J v are central differences. Complex pairs
    keep it from settling on one direction, so at its end the Jacobian's eigenvalues are computed on
    the span of a few directions.

    `entries` is a mask (..) over the moving part without its batch axis: only these entries are
    looked at, and only these are varied, the others being held at the fixed point. All prefixes
    move at once, and those of fewer examples than dimensions leave directions in which nothing
    moves, with an eigenvalue of 1: a mask selects the prefix one wants to know about.
    """
    if power_steps < 1:
        raise ConfigurationError(f"power_steps is {power_steps}, expected at least 1.")
    expect_learner(learner)
    expect_prompt(prompt)
    mask = _mask(learner, prompt, entries)  # (..)
    rows = rows_within_budget(8 * learner.bytes_per_prompt(prompt))
    parts = [part for _, part in in_parts(prompt, rows)]
    ends: list[_End] = []
    total = 0
    for part in parts:
        point = run_to_fixed_point(learner, part, tolerance, max_steps, throw=throw)
        # Prompts that did not converge have no distance to follow.
        slowest = int(point.steps.masked_fill(~point.converged, 0).max())
        *_, state = iterate(learner, part, steps=slowest, start=(point.state, slowest))
        ends.append(_End(point, state, learner.moving.get(state), mask))
        total = max(total, slowest)
    distances, rates, radii, refusal = [], [], [], ""
    try:
        learner.moving.put(ends[0].state, ends[0].moving)
    except NotSupportedError as error:
        refusal = str(error)
    for part, end in zip(parts, ends, strict=True):
        distances.append(_distances(learner, part, end, total))  # (b, K + 1)
        rates.append(_rates(distances[-1], ROUNDING * torch.finfo(end.moving.dtype).eps))  # (b,)
        if not refusal:
            radii.append(_radii(learner, part, end, power_steps, seed))  # (b,)
    converged = torch.cat([end.point.converged for end in ends]).cpu()  # (P,)

    def measured(parts: list[Tensor], *axes: str) -> Measured:
        values = torch.cat(parts).cpu()  # (P, ..)
        values[~converged] = torch.nan
        counted = ~values.isnan()  # (P, ..)
        return Measured(values=values, axes=axes, counted=counted, label=learner.name, scale="log")

    return Convergence(
        distances=measured(distances, "step"), rates=measured(rates),
        radii=None if refusal else measured(radii), refusal=refusal, converged=converged,
        steps=torch.cat([end.point.steps for end in ends]).cpu(),
    )  # fmt: skip


@dataclass(frozen=True, slots=True, eq=False)
class _End:
    """The fixed points of some prompts."""

    point: FixedPoint
    state: Any
    moving: Tensor
    """(b, ..): the fixed points themselves."""
    mask: Tensor
    """(..): the entries that are looked at."""

    def flat(self, moving: Tensor) -> Tensor:
        """The entries that are looked at: (b, D) in float64."""
        return moving[:, self.mask].double()


def _mask(learner: Learner[Any], prompt: Prompt, entries: Tensor | None) -> Tensor:
    """The entries (..) of the moving part that are looked at: all unless the caller says."""
    moving = learner.moving.get(learner.init(prompt.select(slice(1))))  # (1, ..)
    if entries is None:
        return torch.ones_like(moving[0], dtype=torch.bool)
    if entries.shape != moving.shape[1:] or entries.dtype != torch.bool or not entries.any():
        raise ConfigurationError(
            f"entries are {entries.dtype} of shape {tuple(entries.shape)}, expected a torch.bool "
            f"mask of shape {tuple(moving.shape[1:])} that selects some of what {learner.name} "
            "moves."
        )
    return entries.to(moving.device)


def _distances(learner: Learner[Any], prompt: Prompt, end: _End, steps: int) -> Tensor:
    """Relative distances (b, K + 1) to the fixed point, along the path from the start."""
    goal = end.flat(end.moving)  # (b, D)
    size = goal.norm(dim=1).clamp(min=1)  # (b,)
    columns = [
        (end.flat(learner.moving.get(state)) - goal).norm(dim=1) / size  # (b,)
        for state in iterate(learner, prompt, steps=steps)
    ]
    return torch.stack(columns, dim=1)


def _rates(distances: Tensor, rounding: float) -> Tensor:
    """The factor a step (b,) at the end of paths (b, K + 1), before they end in rounding."""
    times = torch.arange(distances.shape[1], device=distances.device)  # (K + 1,)
    usable = distances > rounding  # (b, K + 1)
    last = torch.where(usable, times, 0).amax(dim=1, keepdim=True)  # (b, 1)
    limit = DECADES * distances.gather(1, last)  # (b, 1)
    before = torch.where((distances > limit) & (times <= last), times, -1)  # (b, K + 1)
    first = torch.minimum(before.amax(dim=1, keepdim=True) + 1, last - 1)  # (b, 1)
    window = (times >= first) & (times <= last) & usable  # (b, K + 1)
    logs = distances.log().masked_fill(~window, 0.0)  # (b, K + 1)
    return line(times.double(), logs, window.double())[0].exp()  # NaN without two steps


def _radii(learner: Learner[Any], prompt: Prompt, end: _End, steps: int, seed: int) -> Tensor:
    """The spectral radius (b,) of each prompt's Jacobian, all of them in one power iteration."""
    # One direction for all prompts: what a prompt's radius is does not depend on its neighbours.
    drawn = torch.randn(end.mask.shape, generator=seeded(seed), dtype=torch.float64)  # (..)
    direction = drawn[end.mask.cpu()].to(end.moving.device).expand(len(end.moving), -1)  # (b, D)
    jacobian = partial(_derivative, learner, prompt, end)
    for _ in range(steps):
        direction = _unit(jacobian(_unit(direction)))  # (b, D)
    return _radius_near(jacobian, direction, torch.finfo(end.moving.dtype).eps ** (2 / 3))


def _radius_near(jacobian: Callable[[Tensor], Tensor], direction: Tensor, noise: float) -> Tensor:
    """The largest |eigenvalue| (b,) of J on the span of v, Jv, J^2 v, .. (Arnoldi).

    The noise is that of a product J v, relative to it.
    """
    size = min(KRYLOV, direction.shape[1])
    basis = direction.new_zeros(len(direction), size, direction.shape[1])  # (b, m, D)
    small = direction.new_zeros(len(direction), size, size)  # (b, m, m)
    basis[:, 0] = direction
    for column in range(size):
        image = jacobian(basis[:, column])  # (b, D)
        left = image[..., None]  # (b, D, 1)
        for _ in range(2):  # the second time takes out what rounding left
            parts = basis @ left  # (b, m, 1)
            left = left - basis.mT @ parts  # (b, D, 1)
            small[:, :, column] += parts[..., 0]
        if column + 1 < size:
            length = left.norm(dim=1)  # (b, 1)
            # What is left may be noise alone: then the span is complete.
            more = length > 10 * noise * image.norm(dim=1, keepdim=True)  # (b, 1)
            basis[:, column + 1] = torch.where(more, _unit(left[..., 0]), 0.0)
            small[:, column + 1, column] = torch.where(more, length, 0.0)[:, 0]
    finite = small.isfinite().all(dim=2).all(dim=1)  # (b,)
    values = torch.linalg.eigvals(torch.where(finite[:, None, None], small, 0.0))  # (b, m)
    return values.abs().amax(dim=1).masked_fill(~finite, torch.nan)


def _derivative(learner: Learner[Any], prompt: Prompt, end: _End, direction: Tensor) -> Tensor:
    """J v (b, D) along unit directions (b, D), by a central difference.

    Classical learners have no derivative of their own. The cube root of eps balances rounding and
    curvature; of a linear step the difference is exact at any length, but for rounding.
    """
    moving = end.moving  # (b, ..)
    size = end.flat(moving).norm(dim=1, keepdim=True).clamp(min=1)  # (b, 1)
    reach = torch.finfo(moving.dtype).eps ** (1 / 3) * size  # (b, 1)
    images: list[Tensor] = []
    for sign in (1, -1):
        moved = moving.clone()  # (b, ..)
        moved[:, end.mask] += (sign * reach * direction).to(moving.dtype)
        stepped = learner.step(prompt, learner.moving.put(end.state, moved), 0)
        images.append(end.flat(learner.moving.get(stepped)))  # (b, D)
    return (images[0] - images[1]) / (2 * reach)
