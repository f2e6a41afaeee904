"""Ridge probes: a linear map from all tokens that a prefix may see to the target, in closed form.

Where a trained probe sums the tokens' hidden states under one set of weights first, this one gives
every token a map of its own: t = b + sum_j h_j W_j. It minimises the mean over prompts of |error|^2
plus penalty v |W|^2, where v is the mean variance of the hidden numbers: the penalty has no unit.
One decomposition for each step and prefix serves all penalties and the choice among them.

Shapes: S steps, p prefixes, P prompts, b of them at a time, T tokens, D width, m target numbers;
of one prefix F = its tokens times D, r = min(P, F), L penalties.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated

import torch
from pydantic import Field, FiniteFloat
from torch import Tensor

from innerloop.core.chunks import rows_within_budget
from innerloop.core.config import Config


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class RidgeProbes:
    """Fitted ridge probes, in float64."""

    mean: Tensor
    """(S, T, D): of the hidden states over the training prompts."""
    target_mean: Tensor
    """(p, m)."""
    weights: Tensor
    """(S, p, T, D, m); 0 for tokens that the prefix may not see."""
    penalties: Tensor
    """(S, p): those that were chosen."""
    visible: Tensor
    """(p, T) bool: the tokens that each prefix may see."""

    def evaluate(self, features: Tensor, targets: Tensor) -> tuple[Tensor, Tensor]:
        """Mean squared errors (S, p, P) of features (S, P, T, D), and the tokens' shares (S, p, T).

        An answer is the target's mean plus a contribution of each token, (h_j - mean_j) W_j. A
        token's share is its part of the sum over tokens of squared contributions. Where no token
        contributes, all that are visible have the same.
        """
        tokens, width = self.mean.shape[1:]
        rows = rows_within_budget(8 * tokens * (2 * width + 2 * self.target_mean.numel()))
        errors: list[Tensor] = []
        squares: list[Tensor] = []
        for own, mean, weights in zip(features, self.mean, self.weights, strict=True):
            maps = weights.permute(1, 2, 0, 3).flatten(2)  # (T, D, p m)
            square = torch.zeros_like(self.visible.T, dtype=torch.float64)  # (T, p)
            parts: list[Tensor] = []
            for some, wanted in zip(own.split(rows), targets.split(rows), strict=True):
                each = (some.double() - mean).transpose(0, 1) @ maps  # (T, b, p m)
                each = each.unflatten(2, self.target_mean.shape)  # (T, b, p, m)
                answers = each.sum(dim=0) + self.target_mean  # (b, p, m)
                parts.append((answers - wanted.double()).square().mean(dim=2).T)  # (p, b)
                square += each.square().sum(dim=(1, 3))
            errors.append(torch.cat(parts, dim=1))  # (p, P)
            squares.append(square.T)
        shares = torch.stack(squares)  # (S, p, T)
        shares = torch.where(shares.sum(dim=2, keepdim=True) == 0, self.visible.double(), shares)
        return torch.stack(errors), shares / shares.sum(dim=2, keepdim=True)


class RidgeSettings(Config):
    """The penalties that each ridge probe chooses from, by leave-one-out on its training prompts.

    No held-out prompt has a part in the choice. All numbers of a target share one penalty.
    """

    penalties: tuple[Annotated[FiniteFloat, Field(ge=1e-10)], ...] = Field(
        default=tuple(10 ** (power / 2) for power in range(-16, 9)),
        min_length=1,
        description="in units of the mean variance of the hidden numbers; below 1e-10 rounding "
        "would choose",
    )

    def bytes_per_step(self, *, prefixes: int, tokens: int, width: int, size: int) -> int:
        """What each step takes beside its hidden states: the weights of one target number.

        One decomposition is held at a time, whatever the number of steps.
        """
        return 8 * prefixes * tokens * width

    def fit(
        self, features: Tensor, several: Sequence[Tensor], visible: Tensor, *, seed: int
    ) -> list[RidgeProbes]:
        """Fit probes to features (S, P, T, D), for each of several targets (P, p, m).

        Each has a penalty of its own; one decomposition serves all targets. `visible` (p, T) says
        which tokens each prefix may see. The seed has no part in it.
        """
        several = [targets.double() for targets in several]  # (P, p, m) each
        mean = torch.stack([own.mean(dim=0, dtype=torch.float64) for own in features])  # (S, T, D)
        probes: list[RidgeProbes] = []
        for targets in several:
            shape = (len(features), len(visible), *features.shape[2:], targets.shape[2])
            probes.append(
                RidgeProbes(
                    mean=mean, target_mean=targets.mean(dim=0), visible=visible,
                    weights=targets.new_zeros(shape),  # (S, p, T, D, m)
                    penalties=targets.new_zeros(shape[:2]),  # (S, p)
                )
            )  # fmt: skip
        for step, own in enumerate(features):
            if step and torch.equal(own, features[step - 1]):  # as in an embedding alone
                for each in probes:
                    each.weights[step] = each.weights[step - 1]
                    each.penalties[step] = each.penalties[step - 1]
                continue
            for prefix, seen in enumerate(visible):
                inputs = own[:, seen].flatten(1).double()  # (P, F)
                wanted = [targets[:, prefix] for targets in several]  # (P, m) each
                for each, (weights, penalty) in zip(
                    probes, ridge(inputs, wanted, self.penalties), strict=True
                ):
                    each.weights[step, prefix, seen] = weights.unflatten(0, (-1, mean.shape[2]))
                    each.penalties[step, prefix] = penalty
        return probes


def ridge(
    inputs: Tensor, several: Sequence[Tensor], penalties: tuple[float, ...]
) -> list[tuple[Tensor, float]]:
    """For each of several targets (P, m) the weights (F, m) of inputs (P, F), and their penalty.

    All are centred here, which fits an intercept without a penalty. Decomposes the smaller of the
    covariance (F, F) and the kernel (P, P). Inputs that are not finite give no number, as they do
    in trained probes.
    """
    number, width = inputs.shape
    inputs = inputs - inputs.mean(dim=0)  # (P, F)
    several = [targets - targets.mean(dim=0) for targets in several]  # (P, m) each
    unit = inputs.square().mean()  # (): the mean variance
    if not unit.isfinite():
        nothing = [inputs.new_full((width, each.shape[1]), torch.nan) for each in several]
        return [(weights, torch.nan) for weights in nothing]
    primal = width <= number
    product = inputs.T @ inputs if primal else inputs @ inputs.T  # (r, r)
    values, vectors = torch.linalg.eigh(product / number)  # (r,), (r, r)
    values = values.clamp(min=0)
    # The prompts in the coordinates of the decomposition: scores' scores / P = diag(values).
    scores = inputs @ vectors if primal else vectors * (number * values).sqrt()  # (P, r)
    absolute = torch.tensor(penalties).to(inputs) * torch.where(unit > 0, unit, 1.0)  # (L,)
    inverses = 1 / (values[:, None] + absolute)  # (r, L)
    # The leverage of the intercept is 1 / P.
    free = 1 - 1 / number - scores.square() @ inverses / number  # (P, L)
    fitted: list[tuple[Tensor, float]] = []
    for targets in several:
        moments = scores.T @ targets / number  # (r, m)
        best = int(leave_one_out(scores, moments, inverses, targets, free).argmin())
        inverse = inverses[:, best, None]  # (r, 1)
        if primal:
            weights = vectors @ (moments * inverse)  # (F, m)
        else:  # not through the scores: where a value is 0, they are 0 too
            weights = inputs.T @ (vectors @ (vectors.T @ targets * inverse)) / number  # (F, m)
        fitted.append((weights, penalties[best]))
    return fitted


def leave_one_out(
    scores: Tensor, moments: Tensor, inverses: Tensor, targets: Tensor, free: Tensor
) -> Tensor:
    """Mean squared error of each penalty (L,), every prompt answered by a map fitted without it.

    Such an error is the prompt's residual over 1 - its leverage, exactly: no map is fitted twice.
    Takes the centred prompts in coordinates where their covariance is diagonal (P, r), the moments
    (r, m) of the centred targets (P, m) there, 1 / (variance + penalty) as (r, L), and 1 - leverage
    as `free` (P, L).
    """
    answers = scores @ (moments[:, :, None] * inverses[:, None]).flatten(1)  # (P, m L)
    residuals = targets[:, :, None] - answers.unflatten(1, (-1, inverses.shape[1]))  # (P, m, L)
    free = free.clamp(min=torch.finfo(free.dtype).eps)  # (P, L)
    return (residuals / free[:, None]).square().mean(dim=(0, 1))
