"""How far known algorithms are from a learner, prompt by prompt.

Distances are squared prediction differences, averaged over the positions that count and divided by
the task's scale: SPD as the papers print it, one number per prompt.

Shapes: P prompts, n points, k outputs, A steps of the learner, K + 1 steps of a candidate.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from innerloop.analysis.candidates import Candidate, Parameter
from innerloop.analysis.intervals import HUGE
from innerloop.analysis.similarity import counted_positions
from innerloop.core.chunks import map_prompts
from innerloop.core.errors import ConfigurationError, InnerloopError
from innerloop.core.iterate import predict, trajectory
from innerloop.core.learner import Learner
from innerloop.core.overflow import overflow_allowed
from innerloop.core.prompt import Prompt
from innerloop.core.task import Task

TOGETHER = 64
"""Prompts that a learner answers at a time: a network for each prefix takes much memory."""


@dataclass(frozen=True, slots=True, eq=False)
class Question:
    """What a learner answers, and which answers count."""

    prompt: Prompt
    answers: Tensor
    """(P, n, k) float64: after the learner's last step."""
    weight: Tensor
    """(P, n): what a position's squared difference counts."""

    def distances(self, predictions: Tensor) -> Tensor:
        """Of predictions (.., P, n, k) from the answers: (.., P)."""
        squares = (finite(predictions.double()) - self.answers).square().mean(dim=-1)  # (.., P, n)
        return (squares * self.weight).sum(dim=-1)

    def first(self, prompts: int) -> "Question":
        """The question on the first so many prompts."""
        some = slice(0, prompts)
        return Question(self.prompt.select(some), self.answers[some], self.weight[some])

    @property
    def size(self) -> Tensor:
        """The distance of the answers from zero: (P,)."""
        return self.distances(torch.zeros_like(self.answers))

    @property
    def label_size(self) -> Tensor:
        """The same of the right answers: (P,)."""
        asked = self.prompt.truth.get("query_ys")  # (P, n, 1, k) or None
        labels = self.prompt.ys if asked is None else asked[:, :, 0]  # (P, n, k)
        return (labels.double().square().mean(dim=-1) * self.weight).sum(dim=-1)


@dataclass(frozen=True, slots=True, eq=False)
class Fitted:
    """The member of a family that comes closest: a candidate after some of its steps."""

    candidate: Candidate
    step: int
    distances: Tensor
    """(P,)."""
    predictions: Tensor
    """(P, n, k) float64."""

    @property
    def mean(self) -> float:
        """Over prompts."""
        return float(self.distances.mean())

    @property
    def steps(self) -> Parameter | None:
        """The number of steps, None where it takes none."""
        last = self.candidate.learner.steps
        if not last:
            return None
        return Parameter("steps", self.step, highest=last if self.candidate.capped else last + 1)

    def parameters(self) -> dict[str, float | str]:
        """What tells it from others of its family."""
        candidate = self.candidate
        parameters: dict[str, float | str] = {one.name: one.value for one in candidate.parameters}
        if self.steps is not None:
            parameters["steps"] = self.step
        return parameters | ({"note": candidate.note} if candidate.note else {})

    def edges(self) -> tuple[str, ...]:
        """The parameters that the search found at one of its ends: they may lie beyond."""
        every = (*self.candidate.parameters, *([self.steps] if self.steps else []))
        return tuple(one.name for one in every if one.at_edge)

    def describe(self) -> str:
        """The family with its parameters, for a table."""
        candidate = self.candidate
        if candidate.label:
            early = self.step < candidate.learner.steps
            return f"{candidate.label} after {self.step} steps" if early else candidate.label
        every = (*candidate.parameters, *([self.steps] if self.steps else []))
        note = f" ({candidate.note})" if candidate.note else ""
        return f"{candidate.family.name}({', '.join(map(Parameter.describe, every))}){note}"


@torch.no_grad()
@overflow_allowed()
def ask(learner: Learner[Any], prompt: Prompt, steps: int | None = None) -> Tensor:
    """Predictions (P, n, k) in float64; where a query is asked per prefix, those of the queries."""
    answers = map_prompts(
        lambda part: predict(learner, part, steps=steps).double(), prompt, rows=TOGETHER
    )  # (P, n, k) or (P, n, 1, k)
    return answers if prompt.queries is None else answers[:, :, 0]


def pose(
    learner: Learner[Any],
    task: Task,
    *,
    points: int,
    prompts: int,
    steps: int | None,
    generator: torch.Generator,
    device: torch.device | str,
) -> Question:
    """What the learner answers on prompts of a task; answers that are not finite are refused."""
    drawn = task.sample(prompts, points, generator=generator)
    if drawn.queries is not None and drawn.queries.shape[1:3] != (points, 1):
        raise ConfigurationError(
            f"{type(task).__name__} asks all its questions after the last example, where learners "
            "are compared after every one: take a task such as LinearRegression."
        )
    prompt = drawn.to(device=device, dtype=torch.float64)
    answers = ask(learner, prompt, steps)  # (P, n, k)
    counted, scale = counted_positions(prompt), task.scale_at(points)  # (P, n), (n,)
    number = counted.sum(dim=1, keepdim=True).clamp(min=1)  # (P, 1)
    if not bool(torch.isfinite(answers).all()):
        raise ConfigurationError(
            f"{learner.name} gives predictions that are not finite on this task: nothing can be "
            "compared. Take fewer steps, or prompts that it was made for."
        )
    # Each prompt's mean over the positions that count, in units of the scale.
    weight = counted / scale.to(prompt.xs.device, torch.float64) / number  # (P, n)
    return Question(prompt, answers, weight)


@torch.no_grad()
@overflow_allowed()
def closest_of_family(candidates: Sequence[Candidate], question: Question) -> Fitted | None:
    """The member and the step that come closest; None where the task is for no member.

    Members that are screened are compared on a few prompts; the best then answers all of them.
    """
    screened = candidates[0].screened
    asked = question if screened is None else question.first(screened)
    fits: list[Fitted] = []
    for candidate in candidates:
        try:
            answers = trajectory(candidate.learner, asked.prompt).predictions.double()
        except InnerloopError:
            continue
        # (K + 1, P, n, k): before the first step and after each
        distances = torch.stack([asked.distances(each) for each in answers])  # (K + 1, P)
        step = int(distances.mean(dim=1).argmin())
        fits.append(Fitted(candidate, step, distances[step], answers[step]))
    best = min(fits, key=lambda fit: fit.mean, default=None)
    if best is None or screened is None:
        return best
    return run_candidate(best.candidate, best.step, question)


def run_candidate(candidate: Candidate, step: int, question: Question) -> Fitted:
    """A candidate after so many steps."""
    answers = ask(candidate.learner, question.prompt, step)  # (P, n, k)
    return Fitted(candidate, step, question.distances(answers), answers)


def finite(values: Tensor) -> Tensor:
    """Values with what is not finite, as an iteration that diverges predicts, sent to HUGE."""
    return torch.nan_to_num(values, nan=HUGE, posinf=HUGE, neginf=-HUGE).clamp(-HUGE, HUGE)
