"""Where an answer of `identify` is put to the test: shifts of the task, fewer and more examples.

Parameters are those that were fitted in distribution: an algorithm that a model runs is the same
under every shift, and one that merely resembles it there is found out here.

Shapes: P prompts, F families, D draws of the bootstrap.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pandas as pd
import torch

from innerloop.analysis.candidates import Battery
from innerloop.analysis.distances import Fitted, Question, run_candidate
from innerloop.analysis.intervals import CONFIDENCE, occurrences, resample, seeded
from innerloop.core.errors import ConfigurationError, InnerloopError
from innerloop.core.task import Task
from innerloop.tasks.shifts import (
    ExampleQuery,
    NoisyOutputs,
    OrthogonalQuery,
    ScaledInputs,
    Shift,
    SkewedCovariance,
    papers_shifts,
)

RESOLUTION = 1e-9
"""Families whose unexplained parts differ by less than this are one, whatever the statistics say:
it is what float32 models and iterations that stop at rounding leave."""
NOISE = 1.0
"""The standard deviation of the noise on the outputs that a battery adds, as in the papers."""
COLUMNS = (
    "shift", "algorithm", "unexplained", "low", "high", "holds", "closest", "closest_family",
    "closest_unexplained", "note",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Situation:
    """Prompts of another kind than those that an answer was found on."""

    name: str
    task: Task
    points: int


def situations(
    task: Task,
    points: int,
    battery: Battery,
    *,
    shifts: Mapping[str, Task] | None = None,
    noise: float | None = None,
) -> list[Situation]:
    """What a battery tries; with `shifts`, these in its place. Shifts that refuse the task go."""
    if shifts is not None:
        chosen = {**shifts}
        if noise is not None:
            settings: dict[str, Any] = {"task": task, "noise": noise}
            chosen[f"noise {noise:g}"] = NoisyOutputs(**settings)
        return [_situation(name, one, points) for name, one in chosen.items()]
    if battery == "none":
        return []
    named = _quick_shifts(task, NOISE if noise is None else noise)
    if battery == "full":
        more = papers_shifts(task)
        # A shift is equal to one of the same kind with the same settings.
        named |= {name: one for name, one in more.items() if one not in named.values()}
    few, many = max(task.form.fewest_points + 1, task.dims // 2 + 1), 2 * points - 1
    return [
        *(_situation(name, one, points) for name, one in named.items()),
        *([Situation(_examples(few - 1), task, few)] if few < points else []),
        Situation(_examples(many - 1), task, many),
    ]


def _examples(number: int) -> str:
    return "1 example" if number == 1 else f"{number} examples"


def _situation(name: str, task: Task, points: int) -> Situation:
    return Situation(name, task, min(points, task.most_points or points))


def _quick_shifts(task: Task, noise: float) -> dict[str, Shift]:
    """The shifts of the quick battery that make sense for a task, by name."""
    makers: dict[str, tuple[type[Shift], dict[str, Any]]] = {
        "inputs x 2": (ScaledInputs, {"factor": 2.0}),
        "inputs x 1/2": (ScaledInputs, {"factor": 0.5}),
        f"noise {noise:g}": (NoisyOutputs, {"noise": noise}),
        "skewed inputs": (SkewedCovariance, {}),
        "repeated queries": (ExampleQuery, {}),
        "orthogonal queries": (OrthogonalQuery, {}),
    }
    return {
        name: kind(task=task, **settings)
        for name, (kind, settings) in makers.items()
        if kind.refusal(task) is None
    }


def hold(
    fitted: Sequence[Fitted],
    chosen: int,
    several: Sequence[Situation],
    ask: Callable[[Situation], Question],
    *,
    threshold: float,
    draws: int,
    seed: int,
) -> pd.DataFrame:
    """One row per situation: what the chosen family leaves there, and which comes closest.

    Unexplained is a part of the answers' mean square, or of the labels' where that is larger: to
    queries that are orthogonal to all examples the right answer of a linear learner is zero.
    """
    rows: list[dict[str, Any]] = []
    for situation in several:
        row: dict[str, Any] = {"shift": situation.name, "algorithm": fitted[chosen].describe()}
        try:
            rows.append(row | _held(fitted, chosen, ask(situation), threshold, draws, seed))
        except InnerloopError as error:
            rows.append(row | {"holds": None, "note": str(error)})
    return pd.DataFrame(rows, columns=list(COLUMNS))


def _held(
    fitted: Sequence[Fitted], chosen: int, question: Question, threshold: float, draws: int,
    seed: int,
) -> dict[str, Any]:  # fmt: skip
    """The numbers of one situation."""
    distances: dict[int, torch.Tensor] = {}  # (P,) each
    for index, one in enumerate(fitted):
        try:
            run = run_candidate(one.candidate, one.step, question)
        except InnerloopError:
            continue
        distances[index] = run.distances.cpu()  # (P,)
    if chosen not in distances:
        name = fitted[chosen].candidate.family.name
        raise ConfigurationError(f"{name} cannot answer these prompts.")
    sizes = (question.size.cpu(), question.label_size.cpu())  # (P,) each
    size = max(sizes, key=lambda one: float(one.mean()))  # (P,)
    closest = min(distances, key=lambda index: float(distances[index].mean()))
    least = float(distances[closest].mean())
    # All linear learners answer zero to some queries: of those, the answer itself is named.
    if float(distances[chosen].mean()) <= least + RESOLUTION * float(size.mean()):
        closest = chosen
    own, number = distances[chosen], len(size)  # (P,)
    times = occurrences(resample(number, draws, seeded(seed))) / number  # (D, P)
    parts = (times @ own) / (times @ size)  # (D,)
    tail = (1 - CONFIDENCE) / 2
    unexplained = float(own.mean() / size.mean())
    return {
        "unexplained": unexplained,
        "low": float(parts.quantile(tail)),
        "high": float(parts.quantile(1 - tail)),
        "holds": unexplained <= threshold,
        "closest": fitted[closest].describe(),
        "closest_family": fitted[closest].candidate.family.name,
        "closest_unexplained": float(distances[closest].mean() / size.mean()),
        "note": "",
    }
