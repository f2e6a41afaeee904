"""Run an iterative learner until it stands still, each prompt by its own residual."""

from collections import deque
from dataclasses import dataclass
from typing import Any, Literal

import torch
from torch import Tensor

from innerloop.core.arguments import expect_count, expect_number
from innerloop.core.errors import ConfigurationError, FixedPointError, NotSupportedError, unknown
from innerloop.core.expects import expect_learner, expect_prompt
from innerloop.core.iterate import in_one_pass, iterate, read_checked
from innerloop.core.learner import Learner
from innerloop.core.overflow import overflow_allowed
from innerloop.core.prompt import Prompt
from innerloop.core.state import clone_state, put_state, select_state
from innerloop.core.tolerances import FIXED_POINT

GROWTH = 1e12
"""An iterate this many times larger than the first one (or than 1) has diverged. Newton's inverse
of a nearly singular matrix grows by its condition number, and rightly so."""


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class FixedPoint:
    """Where the iteration ended: the last iterate of each prompt, not the best one."""

    state: Any
    """The final state of all prompts."""
    predictions: Tensor
    """(B, n, k), or (B, n, q, k) with queries: what the final state reads."""
    steps: Tensor
    """(B,) int64: steps taken by each prompt."""
    residuals: Tensor
    """(B,) float64: norm of the last step's change over max(1, norm of the iterate)."""
    converged: Tensor
    """(B,) bool: the residual is within the tolerance."""
    diverged: Tensor
    """(B,) bool: the iterate grew without bound, or is not finite."""

    def summary(self) -> str:
        """One sentence: how many prompts converged, diverged, or ran out of steps."""
        moving = self.residuals[~(self.converged | self.diverged)]  # (u,)
        worst = f" (worst residual {float(moving.max()):.1e})" if len(moving) else ""
        return (
            f"{int(self.converged.sum())} of {len(self.steps)} prompts converged, "
            f"{int(self.diverged.sum())} diverged, {len(moving)} were still moving{worst} after "
            f"{int(self.steps.max())} steps"
        )


@torch.no_grad()
@overflow_allowed()  # what diverges is counted, and its last state given
def run_to_fixed_point(
    learner: Learner[Any],
    prompt: Prompt,
    tolerance: float | None = None,
    max_steps: int = 1000,
    *,
    acceleration: Literal["none", "anderson"] = "none",
    memory: int = 5,
    throw: bool = True,
) -> FixedPoint:
    """Step until each prompt's residual is below the tolerance; stopped prompts cost nothing more.

    The default tolerance is what the moving part's type can resolve (`tolerances.FIXED_POINT`).

    Anderson acceleration extrapolates from the last `memory` steps; it needs a learner whose step
    depends on its moving part alone. With `throw`, prompts that diverged or ran out of steps raise
    a FixedPointError that says how many; without it, inspect the result. No gradients are kept.
    """
    expect_learner(learner)
    expect_prompt(prompt)
    _check_arguments(learner, prompt, tolerance, max_steps, memory, acceleration)
    moving, running = learner.moving, learner.init(prompt)
    default = FIXED_POINT.get(moving.get(running).dtype, FIXED_POINT[torch.float32])
    limit = default if tolerance is None else tolerance
    state = clone_state(running)  # filled in as prompts stop
    batch, device = prompt.batch, prompt.xs.device
    steps = torch.zeros(batch, dtype=torch.int64, device=device)
    residuals = torch.full((batch,), torch.inf, dtype=torch.float64, device=device)
    converged = torch.zeros(batch, dtype=torch.bool, device=device)
    diverged = torch.zeros(batch, dtype=torch.bool, device=device)

    active = torch.arange(batch, device=device)  # (R,) the prompts that still move
    part = prompt
    anderson = _Anderson(memory) if acceleration == "anderson" else None
    bound: Tensor | None = None  # (R,)
    for k in range(max_steps):
        _, stepped = iterate(learner, part, steps=1, start=(running, k))
        before, after = (_flat(moving.get(each)) for each in (running, stepped))  # (R, D) each
        size = after.norm(dim=1)  # (R,)
        bound = GROWTH * size.clamp(min=1) if bound is None else bound
        residual = (after - before).norm(dim=1) / size.clamp(min=1)  # (R,)
        lost = ~torch.isfinite(size) | (size > bound)  # (R,)
        done = (residual <= limit) & ~lost  # (R,)
        steps[active], residuals[active] = k + 1, residual
        converged[active], diverged[active] = done, lost

        going = ~(done | lost)  # (R,)
        ended = active[~going]
        if len(ended):
            put_state(state, ended, select_state(stepped, ~going))
        if not bool(going.any()) or k == max_steps - 1:
            put_state(state, active[going], select_state(stepped, going))
            break
        if len(ended):
            active, bound, part = active[going], bound[going], prompt.select(active[going])
            stepped, before, after = select_state(stepped, going), before[going], after[going]
            if anderson is not None:
                anderson.keep(going)
        if anderson is not None:
            like = moving.get(stepped)  # (R, ...)
            proposed = anderson.propose(before, after).reshape(like.shape).to(like.dtype)
            stepped = moving.put(stepped, proposed)
        running = stepped

    result = FixedPoint(
        state=state, predictions=read_checked(learner, prompt, state), steps=steps,
        residuals=residuals, converged=converged, diverged=diverged,
    )  # fmt: skip
    if throw and not bool(converged.all()):
        remedy = "Allow more steps, a larger tolerance"
        if bool(diverged.any()):
            remedy = "Take a smaller step, or fewer steps"
        raise FixedPointError(
            f"{learner.name}: {result.summary()}. {remedy}, or inspect the result with throw=False."
        )
    return result


class _Anderson:
    """Type-II Anderson acceleration of z <- g(z), one small least-squares problem per prompt.

    The next iterate is g_k - sum_j c_j (g_{j+1} - g_j), with c minimising
    |f_k - sum_j c_j (f_{j+1} - f_j)|, f = g(z) - z (Walker & Ni 2011).

    Acceleration must not keep an iteration from converging that would by itself. A prompt whose
    residual has not improved for `memory` + 1 steps takes plain steps for a while, and twice as
    many the next time, so that a plain iteration is what remains of one that cannot be helped.
    """

    def __init__(self, memory: int) -> None:
        self.memory = memory
        self.values: deque[Tensor] = deque(maxlen=memory + 1)  # g, each (R, D)
        self.changes: deque[Tensor] = deque(maxlen=memory + 1)  # f, each (R, D)
        self.watch: Tensor | None = None
        """(R, 4): the best residual, steps since then, plain steps left, plain steps next time."""

    def propose(self, before: Tensor, after: Tensor) -> Tensor:
        """The accelerated iterate (R, D) after the plain step from `before` to `after`."""
        value, change = after, after - before  # (R, D)
        plain = self._rests(change.norm(dim=1))  # (R,)
        self.values.append(value)
        self.changes.append(change)
        if len(self.values) == 1:
            return value
        f = torch.stack(tuple(self.changes), dim=1).diff(dim=1)  # (R, m, D)
        g = torch.stack(tuple(self.values), dim=1).diff(dim=1)  # (R, m, D)
        gram = f @ f.mT  # (R, m, m)
        # Histories become collinear near the fixed point: a ridge far below the scale of the
        # problem keeps the small system solvable, a floor keeps it so at exactly zero change.
        ridge = 1e-14 * gram.diagonal(dim1=1, dim2=2).sum(1) + torch.finfo(torch.float64).tiny
        eye = torch.eye(f.shape[1], dtype=torch.float64, device=f.device)  # (m, m)
        system = gram + ridge[:, None, None] * eye  # (R, m, m)
        weights = torch.linalg.lstsq(system, f @ change[..., None]).solution  # (R, m, 1)
        proposed = value - (weights.mT @ g)[:, 0]  # (R, D)
        plain = plain | ~torch.isfinite(proposed).all(dim=1)  # (R,)
        return torch.where(plain[:, None], value, proposed)

    def _rests(self, residual: Tensor) -> Tensor:
        """Which prompts take a plain step now: (R,)."""
        if self.watch is None:
            fresh = [residual, 0 * residual, 0 * residual, 0 * residual + self.memory + 1]
            self.watch = torch.stack(fresh, dim=1)  # (R, 4)
        best, since, left, span = self.watch.unbind(dim=1)  # (R,) each
        since = torch.where(residual < best, 0, since + 1)
        stuck = (since > self.memory) & (left == 0)  # (R,)
        left = torch.where(stuck, span, (left - 1).clamp(min=0))
        span = torch.where(stuck, 2 * span, span)
        since = torch.where(stuck | (left > 0), 0, since)
        best = torch.where(left > 0, residual, torch.minimum(best, residual))
        self.watch = torch.stack([best, since, left, span], dim=1)
        return left > 0

    def keep(self, going: Tensor) -> None:
        """Forget the prompts that stopped."""
        if self.watch is not None:
            self.watch = self.watch[going]
        for history in (self.values, self.changes):
            kept = [part[going] for part in history]
            history.clear()
            history.extend(kept)


def _flat(moving: Tensor) -> Tensor:
    return moving.reshape(moving.shape[0], -1).double()  # (R, D)


def _check_arguments(
    learner: Learner[Any],
    prompt: Prompt,
    tolerance: float | None,
    max_steps: int,
    memory: int,
    acceleration: str,
) -> None:
    if acceleration not in ("none", "anderson"):
        raise ConfigurationError(unknown("acceleration", acceleration, ("none", "anderson")))
    if not in_one_pass(learner, prompt):
        raise NotSupportedError(
            f"{learner.name} cannot answer all questions of this prompt in one run: give it the "
            "prompts of expand_prefixes."
        )
    if tolerance is not None:
        expect_number("tolerance", tolerance)
        if tolerance < 0:
            raise ConfigurationError(f"tolerance is {tolerance}, expected at least 0.")
    for name, number in (("max_steps", max_steps), ("memory", memory)):
        expect_count(name, number)
