"""Many probes trained at once: one for each step and prefix, as one batched program.

A probe weighs the tokens that its prefix may see, sums their hidden states, and maps the sum to its
target: alpha = softmax(scores), u = sum_j alpha_j h_j, t = f(u). All probes start from the same
numbers and meet the same prompts in the same order, and nothing that one learns reaches another: a
probe comes out the same alone and among others.

Shapes: S steps, p prefixes, P prompts, b of them at a time, T tokens, D width, m target numbers.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Literal

import torch
from pydantic import Field, FiniteFloat
from torch import Tensor

from innerloop.analysis.intervals import seeded
from innerloop.core.chunks import rows_within_budget
from innerloop.core.config import Config

PLACE_RATE = 10
"""How much faster the scores of places learn than the rest: a step of Adam moves each by the rate
at most, and a softmax over dozens of tokens closes only when they lie several units apart. A score
by content moves with all D numbers of its vector, and needs no help."""


class ProbeSettings(Config):
    """What a probe is, and how it is trained; the defaults are those of Yang et al. (2024)."""

    attention: Literal["positions", "content"] = Field(
        default="positions",
        description="learned scores of the places (Yang), or a learned vector times h (Akyurek)",
    )
    reader: Literal["mlp", "linear"] = Field(
        default="mlp", description="from the sum to the target: one ReLU layer between, or none"
    )
    hidden: int = Field(default=64, ge=1, description="units of the MLP")
    iterations: int = Field(default=2000, ge=1, description="steps of Adam")
    batch: int = Field(default=128, ge=1, description="prompts of one step of Adam")
    rate: FiniteFloat = Field(default=1e-3, gt=0, description="learning rate of Adam")

    def bytes_per_step(self, *, prefixes: int, tokens: int, width: int, size: int) -> int:
        """What each step takes beside its hidden states: a batch, and probes with Adam's averages.

        In numbers of `size` bytes.
        """
        batch = self.batch * (tokens * width + prefixes * (4 * tokens + 6 * width))
        trained = 4 * prefixes * (width * self.hidden + self.hidden + width + tokens)
        return (batch + trained) * size

    def fit(
        self, features: Tensor, several: Sequence[Tensor], visible: Tensor, *, seed: int
    ) -> list["Probes"]:
        """Train probes on features (S, P, T, D), for each of several targets (P, p, m)."""
        return [self._fit(features, targets, visible, seed=seed) for targets in several]

    @torch.no_grad()
    def _fit(self, features: Tensor, targets: Tensor, visible: Tensor, *, seed: int) -> "Probes":
        """Train probes on features (S, P, T, D) and targets (P, p, m), with Adam.

        `visible` (p, T) says which tokens each prefix may see. Computes in the features' type.
        """
        targets = targets.to(features)  # (P, p, m)
        scaling = _scaling(features, targets, visible)
        wanted = (targets - scaling.target_mean) / scaling.target_deviation  # (P, p, m)
        generator = seeded(seed)
        probes = _untrained(features, targets.shape[2], visible, scaling, self, generator)
        by_place = self.attention == "positions"
        groups = [
            {"params": [probes.scores], "lr": self.rate * (PLACE_RATE if by_place else 1)},
            {"params": [*probes.weights, *probes.biases], "lr": self.rate},
        ]
        optimiser = torch.optim.Adam(groups)
        batches = _batches(len(targets), self, generator)
        # One buffer for all steps: asking the system for fresh memory costs more than filling it.
        batch = features.new_empty(features.shape[0], len(batches[0]), *features.shape[2:])
        for which in batches:
            which = which.to(features.device)  # (b,)
            torch.index_select(features, 1, which, out=batch)  # (S, b, T, D)
            with torch.enable_grad():
                answers = probes.scaled_answers(batch)  # (S, b, p, m)
                # A sum over probes: each has the gradient that it would have alone.
                loss = (answers - wanted[which]).square().mean(dim=(1, 3)).sum()
                optimiser.zero_grad()
                loss.backward()
            optimiser.step()
        for parameter in (probes.scores, *probes.weights, *probes.biases):
            parameter.requires_grad_(False)
        return probes


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class Scaling:
    """Units in which hidden states and targets have mean 0 and variance 1 over the prompts.

    They leave what a probe can express as it is, and make one learning rate fit all steps.
    """

    mean: Tensor
    """(S, p, D): of the hidden states that each probe may see."""
    deviation: Tensor
    """(S, p, D); 1 where nothing varies."""
    target_mean: Tensor
    """(p, m)."""
    target_deviation: Tensor
    """(p, 1), of all target numbers together; 1 where nothing varies."""


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class Probes:
    """Trained probes."""

    scores: Tensor
    """(S, p, T) of the places, or (S, p, D): what h is multiplied by."""
    weights: tuple[Tensor, ...]
    """(S p, D, m), or (S p, D, hidden) and (S p, hidden, m)."""
    biases: tuple[Tensor, ...]
    """(S p, 1, m), or (S p, 1, hidden) and (S p, 1, m)."""
    visible: Tensor
    """(p, T) bool: the tokens that each prefix may see."""
    scaling: Scaling
    settings: ProbeSettings

    def attention(self, features: Tensor) -> Tensor:
        """The weights of the tokens of (S, b, T, D): (S, b or 1, p, T)."""
        if self.settings.attention == "positions":
            scores = self.scores[:, None]  # (S, 1, p, T)
        else:
            # The mean of h would add the same number to all scores, which changes nothing.
            direction = self.scores / self.scaling.deviation  # (S, p, D)
            scores = (features @ direction[:, None].mT).mT  # (S, b, p, T)
        return scores.masked_fill(~self.visible, -torch.inf).softmax(dim=-1)

    def scaled_answers(self, features: Tensor) -> Tensor:
        """Targets in their own units, of features (S, b, T, D): (S, b, p, m)."""
        attention = self.attention(features)  # (S, b or 1, p, T)
        sums = (attention @ features).transpose(1, 2)  # (S, p, b, D)
        # The weights add up to 1: scaling the sum is scaling each hidden state.
        sums = (sums - self.scaling.mean[:, :, None]) / self.scaling.deviation[:, :, None]
        hidden = sums.flatten(0, 1)  # (S p, b, D)
        for layer, (weight, bias) in enumerate(zip(self.weights, self.biases, strict=True)):
            hidden = torch.baddbmm(bias, hidden.relu() if layer else hidden, weight)
        return hidden.unflatten(0, sums.shape[:2]).transpose(1, 2)  # (S, b, p, m)

    def answers(self, features: Tensor) -> Tensor:
        """Targets as they were given, of features (S, b, T, D): (S, b, p, m)."""
        scaling = self.scaling
        return self.scaled_answers(features) * scaling.target_deviation + scaling.target_mean

    @torch.no_grad()
    def evaluate(self, features: Tensor, targets: Tensor) -> tuple[Tensor, Tensor]:
        """Mean squared errors (S, p, P) in float64, and mean attention over prompts (S, p, T)."""
        steps, prompts, tokens, width = features.shape
        prefixes = len(self.visible)
        each = steps * (prefixes * (4 * tokens + 4 * width) + tokens * width) * features.itemsize
        rows = rows_within_budget(each)
        errors: list[Tensor] = []
        attention = features.new_zeros(steps, prefixes, tokens, dtype=torch.float64)  # (S, p, T)
        for some, wanted in zip(features.split(rows, dim=1), targets.split(rows), strict=True):
            answers = self.answers(some).double()  # (S, b, p, m)
            squares = (answers - wanted.double()).square().mean(dim=3)  # (S, b, p)
            errors.append(squares.transpose(1, 2))
            weights = self.attention(some).expand(-1, some.shape[1], -1, -1)  # (S, b, p, T)
            attention += weights.double().sum(dim=1) / prompts
        return torch.cat(errors, dim=2), attention


def _scaling(features: Tensor, targets: Tensor, visible: Tensor) -> Scaling:
    """Means and deviations over prompts and over the tokens that each probe sees."""
    variances, means = torch.var_mean(features, dim=1, correction=0)  # (S, T, D) each
    variances, means = variances.double(), means.double()
    share = visible.double() / visible.sum(dim=1, keepdim=True)  # (p, T)
    mean = share @ means  # (S, p, D)
    variance = share @ (variances + means.square()) - mean.square()  # (S, p, D)
    # What is left of a difference of such squares is rounding.
    floor = torch.finfo(features.dtype).eps * mean.square()  # (S, p, D)
    deviation = torch.where(variance > floor, variance, 1.0).sqrt()  # (S, p, D)
    spread, centre = torch.var_mean(targets, dim=0, correction=0)  # (p, m) each
    spread = spread.mean(dim=1, keepdim=True)  # (p, 1)
    return Scaling(
        mean=mean.to(features), deviation=deviation.to(features), target_mean=centre,
        target_deviation=torch.where(spread > 0, spread, 1.0).sqrt(),
    )  # fmt: skip


def _untrained(
    features: Tensor,
    outputs: int,
    visible: Tensor,
    scaling: Scaling,
    settings: ProbeSettings,
    generator: torch.Generator,
) -> Probes:
    """Probes that weigh all tokens alike, with readers drawn once for all of them."""
    steps, _, tokens, width = features.shape
    number = steps * len(visible)  # S p
    scored = tokens if settings.attention == "positions" else width
    scores = features.new_zeros(steps, len(visible), scored)  # (S, p, T or D)
    sizes = [width, outputs] if settings.reader == "linear" else [width, settings.hidden, outputs]
    weights: list[Tensor] = []
    biases: list[Tensor] = []
    for inputs, units in pairwise(sizes):
        drawn = torch.randn(inputs, units, dtype=torch.float64, generator=generator) / inputs**0.5
        weights.append(drawn.to(features).repeat(number, 1, 1))  # (S p, inputs, units)
        biases.append(features.new_zeros(number, 1, units))
    for parameter in (scores, *weights, *biases):
        parameter.requires_grad_()
    return Probes(
        scores=scores, weights=tuple(weights), biases=tuple(biases), visible=visible,
        scaling=scaling, settings=settings,
    )  # fmt: skip


def _batches(prompts: int, settings: ProbeSettings, generator: torch.Generator) -> list[Tensor]:
    """The prompts (b,) of each step of Adam: shuffled, all of them before any comes again."""
    size = min(settings.batch, prompts)
    batches: list[Tensor] = []
    while len(batches) < settings.iterations:
        order = torch.randperm(prompts, generator=generator)  # (P,)
        batches.extend(order[: prompts - prompts % size].split(size))
    return batches[: settings.iterations]
