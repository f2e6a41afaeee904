"""Learners that are broken in one small way each, and the check that must catch each of them.

Every mistake is one that an author could make without malice. All start from two learners that
are right: `PrefixDescent`, which iterates and has weights, and `PrefixMoments`, which does not.
"""

from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor

from innerloop.core.iterate import iterate
from innerloop.core.learner import Learner, OneShot, Traits
from innerloop.core.prompt import Prompt
from innerloop.core.state_parts import MovingPart

INVARIANT = Traits(order_invariant=True, rotation_equivariant=True, linear_in_y=True)


def before(values: Tensor) -> Tensor:
    """Entry i is the sum of the entries before i along axis 1: (B, n, ...)."""
    return values.cumsum(dim=1) - values


def moments(prompt: Prompt) -> Tensor:
    """X'y of each prefix: (B, n, d, k) in float64."""
    return before(prompt.xs.double()[..., None] * prompt.ys.double()[..., None, :])


def grams(prompt: Prompt) -> Tensor:
    """X'X of each prefix: (B, n, d, d) in float64."""
    xs = prompt.xs.double()  # (B, n, d)
    return before(xs[..., None] * xs[..., None, :])


def answer(prompt: Prompt, weights: Tensor) -> Tensor:
    """Predictions of weights (B, n, d, k), in the prompt's shape and type."""
    answers = prompt.asked.double() @ weights  # (B, n, q, k)
    return answers.reshape(prompt.prediction_shape).to(prompt.xs.dtype)


@dataclass(frozen=True)
class DescentState:
    """Where gradient descent is, and how far it steps."""

    weights: Tensor  # (B, n, d, k)
    sizes: Tensor  # (B, n)


class PrefixDescent(Learner[DescentState]):
    """Right: gradient descent on each prefix from zero, with steps of 1 / trace of X'X."""

    steps = 3
    traits = INVARIANT

    def init(self, prompt: Prompt) -> DescentState:
        trace = grams(prompt).diagonal(dim1=2, dim2=3).sum(dim=2)  # (B, n)
        sizes = torch.where(trace > 0, 1 / trace.clamp(min=1e-30), 0.0)  # (B, n)
        return DescentState(weights=torch.zeros_like(moments(prompt)), sizes=sizes)

    def step(self, prompt: Prompt, state: DescentState, k: int) -> DescentState:
        downhill = moments(prompt) - grams(prompt) @ state.weights  # (B, n, d, k)
        return replace(state, weights=state.weights + state.sizes[..., None, None] * downhill)

    def read(self, prompt: Prompt, state: DescentState) -> Tensor:
        return answer(prompt, state.weights)

    def weights(self, prompt: Prompt, state: DescentState | None = None) -> Tensor:
        if state is None:
            *_, state = iterate(self, prompt)
        return state.weights

    @property
    def moving(self) -> MovingPart[DescentState]:
        return MovingPart(
            self.name,
            lambda state: state.weights,
            lambda state, weights: replace(state, weights=weights),
        )


class PrefixMoments(OneShot):
    """Right: predicts with X'y of each prefix as weights, at once."""

    traits = INVARIANT

    def fit(self, prompt: Prompt) -> Tensor:
        return moments(prompt)  # (B, n, d, k)

    def init(self, prompt: Prompt) -> Tensor:
        return answer(prompt, self.fit(prompt))


class WholePromptMean(OneShot):
    """Right: answers every point of a prompt with the mean of all outputs but the last one."""

    traits = replace(INVARIANT, causal=False)

    def init(self, prompt: Prompt) -> Tensor:
        number = max(1, prompt.points - 1)
        mean = prompt.ys[:, :-1].sum(dim=1) / number  # (B, k)
        return mean[:, None].expand(-1, prompt.points, -1)  # (B, n, k)


class FirstOutputOnly(PrefixMoments):
    """Shape: written for scalar problems, it answers one output of several."""

    def init(self, prompt: Prompt) -> Tensor:
        return super().init(prompt)[..., :1]


class StaysInDouble(PrefixMoments):
    """Dtype: computes in float64 and forgets to cast back."""

    def init(self, prompt: Prompt) -> Tensor:
        return super().init(prompt.to(dtype=torch.float64))

    def read(self, prompt: Prompt, state: Tensor) -> Tensor:
        return state


class DividesByTrace(PrefixMoments):
    """Finite: thinks of the prefix without examples, not of the one whose inputs are all zero."""

    def fit(self, prompt: Prompt) -> Tensor:
        trace = grams(prompt).diagonal(dim1=2, dim2=3).sum(dim=2)  # (B, n)
        trace[:, 0] = 1
        return moments(prompt) / trace[..., None, None]


class DividesByCount(PrefixMoments):
    """Finite: a mean over no examples."""

    def fit(self, prompt: Prompt) -> Tensor:
        count = torch.arange(prompt.points, dtype=torch.float64)  # (n,)
        return moments(prompt) / count[:, None, None]


class OverflowsOnTheWay(PrefixDescent):
    """Finite: right at the end, but its first state divides zero by zero."""

    def init(self, prompt: Prompt) -> DescentState:
        state = super().init(prompt)
        return replace(state, weights=state.weights / state.weights)

    def step(self, prompt: Prompt, state: DescentState, k: int) -> DescentState:
        return super().step(prompt, super().init(prompt) if k == 0 else state, k)


class IncludesItsOwnAnswer(PrefixMoments):
    """No peeking: a cumulative sum that includes y_i."""

    def fit(self, prompt: Prompt) -> Tensor:
        return (prompt.xs.double()[..., None] * prompt.ys.double()[..., None, :]).cumsum(dim=1)


class ScalesByAllInputs(PrefixMoments):
    """No peeking: divides by the size of all inputs, those still to come included."""

    def fit(self, prompt: Prompt) -> Tensor:
        size = prompt.xs.double().square().mean(dim=(1, 2))  # (B,)
        return moments(prompt) / (1 + size[:, None, None, None])


class BatchStatistics(PrefixMoments):
    """Batch independence: divides by the size of the inputs of all prompts."""

    def fit(self, prompt: Prompt) -> Tensor:
        size = before(prompt.xs.double().square().sum(dim=2)).mean(dim=0)  # (n,)
        return moments(prompt) / (1 + size[:, None, None])


class RandomStart(PrefixMoments):
    """Batch independence: seeded, but a prompt's draws depend on its place in the batch."""

    traits = Traits(order_invariant=True)

    def fit(self, prompt: Prompt) -> Tensor:
        seeded = torch.Generator().manual_seed(1)
        fitted = moments(prompt)  # (B, n, d, k)
        return fitted + torch.randn(fitted.shape, generator=seeded, dtype=torch.float64)


class ClipsInPlace(PrefixMoments):
    """Inputs unmodified: clips outliers of y where they are."""

    traits = replace(INVARIANT, linear_in_y=False)

    def fit(self, prompt: Prompt) -> Tensor:
        prompt.ys.clamp_(-1, 1)
        return moments(prompt)


class StartsFromTheTruth(PrefixMoments):
    """Truth unread: a debugging aid that stayed in."""

    def fit(self, prompt: Prompt) -> Tensor:
        weights = moments(prompt)  # (B, n, d, k)
        if "w" in prompt.truth:
            weights = weights + 0.1 * prompt.truth["w"].double()[:, None]
        return weights


class ShufflesGlobally(PrefixMoments):
    """Deterministic: visits the examples in an order from the global generator."""

    def fit(self, prompt: Prompt) -> Tensor:
        weights = torch.zeros_like(moments(prompt))  # (B, n, d, k)
        for j in torch.randperm(prompt.points - 1).tolist():
            example = prompt.xs[:, j].double()[..., None] * prompt.ys[:, j].double()[:, None]
            weights[:, j + 1 :] += example[:, None]
        return weights


class CountsItsCalls(PrefixMoments):
    """Deterministic: keeps something in itself that changes."""

    def __init__(self) -> None:
        self.calls = 0

    def fit(self, prompt: Prompt) -> Tensor:
        self.calls += 1
        return moments(prompt) / self.calls


class StepsInPlace(PrefixDescent):
    """Resumable: adds to the weights of the state that it was given."""

    def step(self, prompt: Prompt, state: DescentState, k: int) -> DescentState:
        state.weights.copy_(super().step(prompt, state, k).weights)
        return state


class CountsItsSteps(PrefixDescent):
    """Resumable: a decaying step whose clock is in the learner, not in the state."""

    def init(self, prompt: Prompt) -> DescentState:
        self.clock = 0
        return super().init(prompt)

    def step(self, prompt: Prompt, state: DescentState, k: int) -> DescentState:
        self.clock += 1
        slower = replace(state, sizes=state.sizes / self.clock)
        return replace(super().step(prompt, slower, k), sizes=state.sizes)

    @property
    def moving(self) -> MovingPart[DescentState]:
        return replace(super().moving, replace=None)


class QueriesTheLastPrefix(PrefixMoments):
    """Queries: answers all of them from the longest prefix."""

    def init(self, prompt: Prompt) -> Tensor:
        weights = self.fit(prompt)  # (B, n, d, k)
        if prompt.queries is not None:
            weights = weights[:, -1:].expand_as(weights)
        return answer(prompt, weights)


class IgnoresQueries(PrefixMoments):
    """Queries: repeats the answer at x_i."""

    def init(self, prompt: Prompt) -> Tensor:
        at_x = super().init(prompt.ask(None))  # (B, n, k)
        if prompt.queries is None:
            return at_x
        return at_x[:, :, None].expand(prompt.prediction_shape)


class WeightsOfTheNextPrefix(PrefixDescent):
    """Weights: off by one prefix, while the predictions are right."""

    def weights(self, prompt: Prompt, state: DescentState | None = None) -> Tensor:
        return super().weights(prompt, state).roll(-1, dims=1)


class DropsTheStepSizes(PrefixDescent):
    """Moving: makes a new state and forgets what does not move."""

    @property
    def moving(self) -> MovingPart[DescentState]:
        return replace(
            super().moving,
            replace=lambda state, weights: DescentState(weights, torch.ones_like(state.sizes)),
        )


class MovesPrefixFirst(PrefixDescent):
    """Moving: not batch first."""

    @property
    def moving(self) -> MovingPart[DescentState]:
        return MovingPart(
            self.name,
            lambda state: state.weights.transpose(0, 1),
            lambda state, moving: replace(state, weights=moving.transpose(0, 1)),
        )


class CausalUnsaid(PrefixMoments):
    """Causal: runs n times slower than it must."""

    traits = replace(INVARIANT, causal=False)


class CausalUntrue(WholePromptMean):
    """Causal: a mean over the whole prompt that claims to answer all prefixes at once."""

    traits = INVARIANT

    def init(self, prompt: Prompt) -> Tensor:
        mean = super().init(prompt)  # (B, n, k)
        if prompt.queries is None:
            return mean
        return mean[:, :, None].expand(prompt.prediction_shape)


class ForgetsOldExamples(PrefixMoments):
    """Order: newer examples count more, which makes the order matter."""

    def fit(self, prompt: Prompt) -> Tensor:
        growing = 1.1 ** torch.arange(prompt.points, dtype=torch.float64)  # (n,)
        aged = replace(prompt, ys=(prompt.ys.double() * growing[:, None]).to(prompt.ys.dtype))
        return moments(aged) / growing[:, None, None]


class OrderUnsaid(PrefixMoments):
    """Order: it does not matter, and the traits do not say so."""

    traits = replace(INVARIANT, order_invariant=False)


class ScalesEachCoordinate(PrefixMoments):
    """Rotation: divides each coordinate by its own variance, which a rotation mixes."""

    def fit(self, prompt: Prompt) -> Tensor:
        variances = grams(prompt).diagonal(dim1=2, dim2=3)  # (B, n, d)
        return moments(prompt) / (1 + variances[..., None])


class RotationUnsaid(PrefixMoments):
    """Rotation: it does not matter, and the traits do not say so."""

    traits = replace(INVARIANT, rotation_equivariant=False)


class ClipsItsAnswers(PrefixMoments):
    """Linearity: keeps its answers in a sensible range."""

    def init(self, prompt: Prompt) -> Tensor:
        return super().init(prompt).clamp(-1, 1)


class AddsAnIntercept(PrefixMoments):
    """Linearity: affine, not linear."""

    def init(self, prompt: Prompt) -> Tensor:
        return super().init(prompt) + 1


class LinearityUnsaid(PrefixMoments):
    """Linearity: it holds, and the traits do not say so."""

    traits = replace(INVARIANT, linear_in_y=False)


@dataclass(frozen=True)
class Broken:
    """A broken learner, the check that is meant for its mistake, and others that it trips."""

    learner: Learner[Any]
    caught_by: str
    also: frozenset[str] = frozenset()


ASKED_TWICE = frozenset(
    "no_peeking batch_independence truth_unread deterministic queries causal order rotation "
    "linearity".split()
)
"""Every check that compares the answers to two calls."""

BROKEN = [
    Broken(FirstOutputOnly(), "shape_and_dtype"),
    Broken(StaysInDouble(), "shape_and_dtype"),
    Broken(DividesByTrace(), "finite"),
    # NaN is equal to nothing; the order is looked at after the last example only.
    Broken(DividesByCount(), "finite", (ASKED_TWICE | {"resumable"}) - {"order"}),
    Broken(OverflowsOnTheWay(), "finite", frozenset({"no_peeking", "resumable", "weights"})),
    # Whoever peeks is not causal, and learns from the query that is put in the place of x_i.
    Broken(IncludesItsOwnAnswer(), "no_peeking", frozenset({"causal", "queries"})),
    Broken(ScalesByAllInputs(), "no_peeking", frozenset({"causal", "queries"})),
    Broken(BatchStatistics(), "batch_independence"),
    # Queries at the end alone are fewer rows, which get other draws.
    Broken(RandomStart(), "batch_independence", frozenset({"queries"})),
    Broken(ClipsInPlace(), "inputs_unmodified"),
    # The prompts that other checks change come without truth, which changes the answers.
    Broken(
        StartsFromTheTruth(),
        "truth_unread",
        frozenset({"no_peeking", "queries", "causal", "rotation", "linearity"}),
    ),
    Broken(ShufflesGlobally(), "deterministic"),
    Broken(CountsItsCalls(), "deterministic", ASKED_TWICE),
    Broken(StepsInPlace(), "resumable"),
    Broken(CountsItsSteps(), "resumable"),
    Broken(QueriesTheLastPrefix(), "queries"),
    Broken(IgnoresQueries(), "queries"),
    Broken(WeightsOfTheNextPrefix(), "weights"),
    Broken(DropsTheStepSizes(), "moving"),
    Broken(MovesPrefixFirst(), "moving"),
    Broken(CausalUnsaid(), "causal"),
    Broken(CausalUntrue(), "causal", frozenset({"no_peeking"})),
    Broken(ForgetsOldExamples(), "order"),
    Broken(OrderUnsaid(), "order"),
    Broken(ScalesEachCoordinate(), "rotation"),
    Broken(RotationUnsaid(), "rotation"),
    Broken(ClipsItsAnswers(), "linearity"),
    Broken(AddsAnIntercept(), "linearity"),
    Broken(LinearityUnsaid(), "linearity"),
]
