"""How well learners predict: normalised squared error by number of examples and by step."""

from collections.abc import Callable, Iterable, Sequence
from typing import Any, Literal

import pandas as pd
import torch
from torch import Tensor

from innerloop.analysis.intervals import CONFIDENCE, DRAWS, seeded
from innerloop.analysis.measured import Measured
from innerloop.analysis.similarity import counted_positions
from innerloop.core.arguments import expect_count, expect_device, expect_function
from innerloop.core.chunks import in_parts
from innerloop.core.errors import ConfigurationError, PromptError, unknown
from innerloop.core.expects import expect_learner, expect_prompt, expect_task
from innerloop.core.iterate import predict, trajectory
from innerloop.core.learner import Learner
from innerloop.core.overflow import overflow_allowed
from innerloop.core.prompt import Prompt
from innerloop.core.task import Task

Progress = Callable[[str, int, int], None]
"""Called with the name of a learner, the parts of the work that are done, and all of them."""


@overflow_allowed()
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
    progress: Progress | None = None,
    rows: int = 128,
) -> Measured:
    """Squared errors on every prompt, over the scale E[y^2] of the task that has drawn them.

    By examples: after the last step, (P, n). By step: after every step from 0 on at one prefix,
    `at` or the last that is scored, (P, K + 1). Both: (P, K + 1, n). `axis` names the steps, such
    as "loop" or "layer". Positions that the prompt does not score do not count. So many `rows` of
    the prompt are run at a time, after each of which `progress` is called.
    """
    expect_learner(learner)
    expect_prompt(prompt)
    expect_task(task)
    if by not in ("examples", "step", "both"):
        raise ConfigurationError(unknown("kind of curve", by, ("examples", "step", "both")))
    if by != "step" and at is not None:
        raise ConfigurationError(f"prefix is {at}, but only a curve by step has one prefix.")
    chosen = _prefix(prompt, at) if by == "step" else None
    name = learner.name if label is None else label
    parts: list[Tensor] = []
    for which, part in in_parts(prompt, rows):
        with torch.no_grad():
            if by == "examples":
                errors = squared_errors(predict(learner, part, steps=steps), part)  # (b, n)
            else:
                path = trajectory(learner, part, steps=steps).predictions  # (K + 1, b, n[, q], k)
                errors = squared_errors(path, part).transpose(0, 1)  # (b, K + 1, n)
        parts.append(errors if chosen is None else errors[..., chosen])  # (b[, K + 1][, n])
        if progress is not None:
            progress(name, which.stop, prompt.batch)
    scale, counted = task.scale_at(prompt.points), prompt.scored  # (n,), (P, n)
    if counted is not None and by != "examples":
        counted = counted[:, None] if chosen is None else counted[:, chosen, None]  # (P, 1[, n])
    return Measured(
        values=torch.cat(parts).cpu() / (scale if chosen is None else scale[chosen]),
        axes={"examples": ("examples",), "step": (axis,), "both": (axis, "examples")}[by],
        counted=counted, label=name, scale="log",
    )  # fmt: skip


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
    if isinstance(learners, str) or not isinstance(learners, Iterable):
        expect_learner(learners)
    several = [learners] if isinstance(learners, Learner) else list(learners)
    for one in several:
        expect_learner(one)
    expect_task(task)
    if by not in ("prefix", "step"):
        raise ConfigurationError(unknown("kind of curve", by, ("prefix", "step")))
    if not several:
        raise ConfigurationError("there is no learner to evaluate: name at least one.")
    for name, number in (("prompts", prompts), ("draws", draws)):
        expect_count(name, number)
    expect_device(device)
    if progress is not None:
        expect_function("progress", progress, "of a name, parts done, and all of them")
    # Drawn on the CPU, so that the prompts are the same on every device.
    prompt = task.sample(prompts, points, generator=seeded(seed)).to(device=device)
    names = [learner.name for learner in several] if labels is None else list(labels)
    if len(names) != len(several):
        raise ConfigurationError(f"{len(names)} labels for {len(several)} learners: give one each.")
    tables: list[pd.DataFrame] = []
    for place, learner in enumerate(several):
        before = names[:place].count(names[place])
        measured = error(
            learner, prompt, task, steps=steps, by="examples" if by == "prefix" else "step",
            at=prefix, label=names[place] + (f" #{before + 1}" if before else ""),
            progress=progress,
        )  # fmt: skip
        table = measured.table(confidence=confidence, draws=draws, generator=seeded(seed))
        number = measured.mask.sum(dim=0)  # (m,)
        table["prompts"] = number[number > 0].tolist()
        if by == "prefix":
            table["step"] = learner.steps if steps is None else steps
        else:
            table["examples"] = _prefix(prompt, prefix)
        tables.append(table.rename(columns={"label": "learner", "examples": "prefix"}))
    columns = ["learner", "prefix", "step", "mean", "median", "low", "high", "prompts"]
    return pd.concat(tables, ignore_index=True).loc[:, columns]


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


def _prefix(prompt: Prompt, prefix: int | None) -> int:
    """The prefix at which steps are compared; the last that is scored unless the caller says."""
    scored: list[int] = counted_positions(prompt).any(dim=0).nonzero()[:, 0].tolist()
    if prefix is None and scored:
        return scored[-1]
    chosen = prompt.points - 1 if prefix is None else prefix
    if not 0 <= chosen < prompt.points:
        raise ConfigurationError(
            f"prefix is {chosen}, expected 0 to {prompt.points - 1} for {prompt.points} points."
        )
    if chosen not in scored:
        known = ", ".join(map(str, scored[:8])) or "none: take more points"
        raise ConfigurationError(f"the task does not score prefix {chosen}: it scores {known}.")
    return chosen
