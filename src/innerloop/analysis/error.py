"""How well learners predict: normalised squared error by prefix and by step."""

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, Literal

import pandas as pd
import torch
from torch import Tensor

from innerloop.analysis.bootstrap import bootstrap
from innerloop.core.errors import ConfigurationError, PromptError, unknown
from innerloop.core.iterate import predict, trajectory
from innerloop.core.learner import Learner
from innerloop.core.prompt import Prompt
from innerloop.core.task import Task

Progress = Callable[[str, int, int], None]
"""Called with a learner's name, the prompts that are done, and the prompts in all."""

SLICE = 128
"""Prompts evaluated at a time: often enough to move a progress bar."""


def error_curve(
    learners: Learner[Any] | Sequence[Learner[Any]],
    task: Task,
    *,
    points: int,
    by: Literal["prefix", "step"] = "prefix",
    prefix: int | None = None,
    steps: int | None = None,
    prompts: int = 1280,
    seed: int = 0,
    confidence: float = 0.9,
    draws: int = 1000,
    device: torch.device | str = "cpu",
    labels: Sequence[str] | None = None,
    progress: Progress | None = None,
) -> pd.DataFrame:
    """Mean squared error over the task's scale E[y^2], of one or several learners on one task.

    By prefix: after the last step, at every number of examples. By step: at one prefix (the last
    scored one by default), after every step from 0 on; one-shot learners have step 0 only. All
    learners see the same prompts, and the bootstrap draws the same prompts for all of them.
    `labels` call the learners something else than their names.

    Returns a table with one row a learner and prefix or step: learner, prefix, step, mean, median,
    low, high (the interval of the mean), prompts. Positions that the task does not score are left
    out.
    """
    several = [learners] if isinstance(learners, Learner) else list(learners)
    _check_arguments(several, by, prompts, confidence, draws)
    if by == "prefix" and prefix is not None:
        raise ConfigurationError(f"prefix is {prefix}, but only a curve by step has one prefix.")
    # Drawn on the CPU, so that the prompts are the same on every device.
    prompt = task.sample(prompts, points, generator=seeded(seed)).to(device=device)
    scale = task.scale_at(points)  # (n,)
    chosen = _prefix(prompt, prefix) if by == "step" else None
    tables = []
    names = [learner.name for learner in several] if labels is None else list(labels)
    if len(names) != len(several):
        raise ConfigurationError(f"{len(names)} labels for {len(several)} learners: give one each.")
    for label, learner in zip(_told_apart(names), several, strict=True):
        told = None if progress is None else partial(_told, progress, label, prompts)
        errors = prompt_errors(learner, prompt, steps=steps, prefix=chosen, progress=told) / (
            scale if chosen is None else scale[chosen]
        )  # (P, n), or (P, K + 1) by step
        counted = _counted(prompt, chosen, errors.shape[1])  # (P, n or K + 1)
        found = bootstrap(
            errors, counted=counted, confidence=confidence, draws=draws, generator=seeded(seed)
        )
        index = torch.arange(errors.shape[1])
        taken = learner.steps if steps is None else steps
        table = pd.DataFrame(
            {
                "learner": label,
                "prefix": index if chosen is None else torch.full_like(index, chosen),
                "step": torch.full_like(index, taken) if chosen is None else index,
                "mean": found.mean,
                "median": found.median,
                "low": found.low,
                "high": found.high,
                "prompts": counted.sum(dim=0),
            }
        )
        tables.append(table[table["prompts"] > 0])
    return pd.concat(tables, ignore_index=True)


def seeded(seed: int) -> torch.Generator:
    """A generator on the CPU with a seed that torch can take."""
    if not 0 <= seed < 2**63:
        raise ConfigurationError(f"seed is {seed}, expected a number from 0 to 2^63 - 1.")
    return torch.Generator().manual_seed(seed)


def squared_errors(predictions: Tensor, prompt: Prompt) -> Tensor:
    """Squared error of predictions (.., B, n[, q], k), averaged over queries and outputs.

    With queries the right answers are the truth's "query_ys". Returns (.., B, n) in float64.
    """
    if prompt.queries is None:
        return (predictions.double() - prompt.ys.double()).square().mean(dim=-1)  # (.., B, n)
    if "query_ys" not in prompt.truth:
        raise PromptError(
            "the prompt asks queries without knowing their answers: put them, (B, n, q, k), into "
            "truth['query_ys']."
        )
    answers = prompt.truth["query_ys"].double()  # (B, n, q, k)
    return (predictions.double() - answers).square().mean(dim=(-2, -1))  # (.., B, n)


def prompt_errors(
    learner: Learner[Any],
    prompt: Prompt,
    *,
    steps: int | None = None,
    prefix: int | None = None,
    progress: Callable[[int], None] | None = None,
) -> Tensor:
    """Squared errors of every prompt, as they are: (P, n) after the last step, on the CPU.

    With a prefix (P, K + 1), at that prefix after every step from 0 on. `progress` is called with
    the number of prompts that are done.
    """
    parts: list[Tensor] = []
    for start in range(0, prompt.batch, SLICE):
        part = prompt.select(slice(start, start + SLICE))
        with torch.no_grad():
            if prefix is None:
                parts.append(squared_errors(predict(learner, part, steps=steps), part))
            else:
                steady = trajectory(learner, part, steps=steps).predictions  # (K + 1, b, n[, q], k)
                parts.append(squared_errors(steady, part)[:, :, prefix].T)  # (b, K + 1)
        if progress is not None:
            progress(min(start + SLICE, prompt.batch))
    return torch.cat(parts).cpu()


def _told(progress: Progress, label: str, prompts: int, done: int) -> None:
    progress(label, done, prompts)


def _counted(prompt: Prompt, chosen: int | None, columns: int) -> Tensor:
    """Which entries of the errors count: (P, columns)."""
    if prompt.scored is None:
        return torch.ones(prompt.batch, columns, dtype=torch.bool)
    scored = prompt.scored.cpu()  # (P, n)
    return scored if chosen is None else scored[:, chosen : chosen + 1].expand(-1, columns)


def _prefix(prompt: Prompt, prefix: int | None) -> int:
    """The prefix at which steps are compared; the last that is scored unless the caller says."""
    scored = torch.ones(prompt.points, dtype=torch.bool)  # (n,)
    if prompt.scored is not None:
        scored = prompt.scored.any(dim=0).cpu()
    chosen = prompt.points - 1 if prefix is None else prefix
    if not 0 <= chosen < prompt.points:
        raise ConfigurationError(
            f"prefix is {chosen}, expected 0 to {prompt.points - 1} for {prompt.points} points."
        )
    if prefix is None and bool(scored.any()):
        return int(scored.nonzero()[-1])
    if not bool(scored[chosen]):
        known = ", ".join(str(int(i)) for i in scored.nonzero()[:8]) or "none: take more points"
        raise ConfigurationError(f"the task does not score prefix {chosen}: it scores {known}.")
    return chosen


def _told_apart(names: Sequence[str]) -> list[str]:
    """The names, with a number where two are the same."""
    seen: dict[str, int] = {}
    labels: list[str] = []
    for name in names:
        seen[name] = seen.get(name, 0) + 1
        labels.append(f"{name} #{seen[name]}" if seen[name] > 1 else name)
    return labels


def _check_arguments(
    learners: Sequence[Learner[Any]], by: str, prompts: int, confidence: float, draws: int
) -> None:
    if by not in ("prefix", "step"):
        raise ConfigurationError(unknown("kind of curve", by, ("prefix", "step")))
    if not learners:
        raise ConfigurationError("there is no learner to evaluate: name at least one.")
    if not 0 < confidence < 1:
        raise ConfigurationError(f"confidence is {confidence}, expected a number between 0 and 1.")
    for name, number in (("prompts", prompts), ("draws", draws)):
        if number < 1:
            raise ConfigurationError(f"{name} is {number}, expected at least 1.")
