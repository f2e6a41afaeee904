"""How well learners predict: normalised squared error by number of examples and by step."""

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, Literal

import pandas as pd
import torch
from torch import Tensor

from innerloop.analysis.intervals import CONFIDENCE, DRAWS, Interval, average, seeded
from innerloop.analysis.measured import Measured
from innerloop.core.chunks import in_parts
from innerloop.core.errors import ConfigurationError, PromptError, unknown
from innerloop.core.iterate import predict, trajectory
from innerloop.core.learner import Learner
from innerloop.core.prompt import Prompt
from innerloop.core.task import Task

Progress = Callable[[str, int, int], None]
"""Called with a learner's name, the prompts that are done, and the prompts in all."""


def error(
    learner: Learner[Any],
    prompt: Prompt,
    task: Task,
    *,
    steps: int | None = None,
    by: Literal["examples", "step", "both"] = "examples",
    at: int | None = None,
    axis: str = "step",
    label: str | None = None,
    progress: Callable[[int], None] | None = None,
    rows: int = 128,
) -> Measured:
    """Squared errors on every prompt, over the scale E[y^2] of the task that has drawn them.

    By examples: after the last step, (P, n). By step: after every step from 0 on at one prefix,
    `at` or the last that is scored, (P, K + 1). Both: (P, K + 1, n). `axis` names the steps, such
    as "loop" or "layer". Positions that the prompt does not score do not count. So many `rows` of
    the prompt are run at a time, after each of which `progress` is called with the number done.
    """
    if by not in ("examples", "step", "both"):
        raise ConfigurationError(unknown("kind of curve", by, ("examples", "step", "both")))
    if by != "step" and at is not None:
        raise ConfigurationError(f"at is {at}, but only a curve by step has one prefix.")
    chosen = _prefix(prompt, at) if by == "step" else None
    errors = _errors(learner, prompt, by, steps, chosen, progress, rows)  # (P[, K + 1][, n])
    scale = task.scale_at(prompt.points)  # (n,)
    counted = None if prompt.scored is None else prompt.scored.cpu()  # (P, n)
    if chosen is not None:
        scale = scale[chosen]  # ()
        counted = None if counted is None else counted[:, chosen, None]  # (P, 1)
    if by == "both" and counted is not None:
        counted = counted[:, None]  # (P, 1, n)
    return Measured(
        values=errors / scale, counted=None if counted is None else counted.expand_as(errors),
        axes={"examples": ("examples",), "step": (axis,), "both": (axis, "examples")}[by],
        label=learner.name if label is None else label, scale="log",
    )  # fmt: skip


def _errors(
    learner: Learner[Any],
    prompt: Prompt,
    by: str,
    steps: int | None,
    chosen: int | None,
    progress: Callable[[int], None] | None,
    rows: int,
) -> Tensor:
    """Squared errors of every prompt on the CPU: (P, n), (P, K + 1) or (P, K + 1, n)."""
    parts: list[Tensor] = []
    for which, part in in_parts(prompt, rows):
        with torch.no_grad():
            if by == "examples":
                parts.append(squared_errors(predict(learner, part, steps=steps), part))
            else:
                path = trajectory(learner, part, steps=steps).predictions  # (K + 1, b, n[, q], k)
                errors = squared_errors(path, part)  # (K + 1, b, n)
                errors = errors if chosen is None else errors[:, :, chosen]  # (K + 1, b[, n])
                parts.append(errors.transpose(0, 1))
        if progress is not None:
            progress(which.stop)
    return torch.cat(parts).cpu()


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
    confidence: float = CONFIDENCE,
    draws: int = DRAWS,
    device: torch.device | str = "cpu",
    labels: Sequence[str] | None = None,
    progress: Progress | None = None,
) -> pd.DataFrame:
    """Mean squared error over the task's scale E[y^2], of one or several learners on one task.

    By prefix: after the last step, at every number of examples. By step: at one prefix (the last
    scored one by default), after every step from 0 on; one-shot learners have step 0 only. All
    learners see the same prompts, and the bootstrap draws the same prompts for all of them.
    `labels` call the learners something else than their names.

    Returns a table with one row per learner and prefix or step: learner, prefix, step, mean,
    median, low, high (the interval of the mean), prompts. Positions that the task does not
    score are left out. `error` has the numbers per prompt.
    """
    several = [learners] if isinstance(learners, Learner) else list(learners)
    _check_arguments(several, by, prompts, draws)
    if by == "prefix" and prefix is not None:
        raise ConfigurationError(f"prefix is {prefix}, but only a curve by step has one prefix.")
    # Drawn on the CPU, so that the prompts are the same on every device.
    prompt = task.sample(prompts, points, generator=seeded(seed)).to(device=device)
    names = [learner.name for learner in several] if labels is None else list(labels)
    if len(names) != len(several):
        raise ConfigurationError(f"{len(names)} labels for {len(several)} learners: give one each.")
    at = _prefix(prompt, prefix) if by == "step" else None
    tables: list[pd.DataFrame] = []
    for label, learner in zip(_distinct(names), several, strict=True):
        measured = error(
            learner, prompt, task, steps=steps, by="examples" if at is None else "step", at=at,
            label=label, progress=None if progress is None else partial(_report, progress, label,
                                                                        prompts),
        )  # fmt: skip
        taken = learner.steps if steps is None else steps
        interval = measured.interval(confidence=confidence, draws=draws, generator=seeded(seed))
        tables.append(_curve(measured, interval, at, taken))
    return pd.concat(tables, ignore_index=True)


def _curve(measured: Measured, interval: Interval, at: int | None, taken: int) -> pd.DataFrame:
    """The table of one learner, by prefix, or by step at a prefix."""
    number = torch.tensor(measured.values.shape[1] * [measured.prompts])  # (m,)
    if measured.counted is not None:
        number = measured.counted.sum(dim=0)  # (m,)
    index = torch.arange(len(number))  # (m,)
    table = pd.DataFrame(
        {
            "learner": measured.label,
            "prefix": index if at is None else torch.full_like(index, at),
            "step": torch.full_like(index, taken) if at is None else index,
            "mean": interval.value,
            "median": average(measured.values, counted=measured.counted, kind="median"),
            "low": interval.low,
            "high": interval.high,
            "prompts": number,
        }
    )
    return table.loc[table["prompts"] > 0, :]


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


def _report(progress: Progress, label: str, prompts: int, done: int) -> None:
    progress(label, done, prompts)


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


def _distinct(names: Sequence[str]) -> list[str]:
    """The names, with a number where two are the same."""
    seen: dict[str, int] = {}
    labels: list[str] = []
    for name in names:
        seen[name] = seen.get(name, 0) + 1
        labels.append(f"{name} #{seen[name]}" if seen[name] > 1 else name)
    return labels


def _check_arguments(learners: Sequence[Learner[Any]], by: str, prompts: int, draws: int) -> None:
    if by not in ("prefix", "step"):
        raise ConfigurationError(unknown("kind of curve", by, ("prefix", "step")))
    if not learners:
        raise ConfigurationError("there is no learner to evaluate: name at least one.")
    for name, number in (("prompts", prompts), ("draws", draws)):
        if number < 1:
            raise ConfigurationError(f"{name} is {number}, expected at least 1.")
