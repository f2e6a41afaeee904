"""Forgetting: how well a learner answers its own examples, by how long ago it has seen them.

Fu et al. (2023, appendix A.4, eq. 16): after n examples the learner is asked about x_i again. Their
code makes a prompt of every example that is asked again; here all of them are queries of one pass.

Shapes: P prompts, n examples, d dimensions, k outputs.
"""

from collections.abc import Sequence
from typing import Any

import pandas as pd
import torch
from torch import Tensor

from innerloop.analysis.bootstrap import bootstrap
from innerloop.analysis.error import seeded
from innerloop.analysis.induced import prompts_at_once
from innerloop.core.errors import ConfigurationError, PromptError
from innerloop.core.iterate import predict
from innerloop.core.learner import Learner
from innerloop.core.prompt import Prompt
from innerloop.core.task import Task


def forgetting(
    learners: Learner[Any] | Sequence[Learner[Any]],
    source: Task | Prompt,
    *,
    examples: int = 20,
    steps: int | None = None,
    prompts: int = 1280,
    seed: int = 0,
    confidence: float = 0.9,
    draws: int = 1000,
    device: torch.device | str = "cpu",
) -> pd.DataFrame:
    """Squared error on each example, asked again after all of them, over E[y^2].

    The source is a task, which `prompts` are drawn from and whose scale is E[y^2], or prompts that
    are drawn already, whose first examples are taken; E[y^2] is then their own mean.

    Returns a table with one row a learner and example: learner, example (0-based), gap (how many
    examples came after it: the papers' time stamp gap, 0 for the newest), mean, median, low, high
    (the interval of the mean), prompts. Examples that the source does not score are left out.
    """
    several = [learners] if isinstance(learners, Learner) else list(learners)
    if not several:
        raise ConfigurationError("there is no learner to evaluate: name at least one.")
    if examples < 1:
        raise ConfigurationError(f"examples is {examples}, expected at least 1.")
    prompt, scale = _examples(source, examples, prompts, seed, device)  # n points, (n,)
    counted = torch.ones(prompt.batch, examples, dtype=torch.bool)  # (P, n)
    if prompt.scored is not None:
        counted = prompt.scored.cpu()
    index = torch.arange(examples)  # (n,)
    tables: list[pd.DataFrame] = []
    for learner in several:
        errors = example_errors(learner, prompt, steps) / scale  # (P, n)
        found = bootstrap(
            errors, counted=counted, confidence=confidence, draws=draws, generator=seeded(seed)
        )
        columns = {
            "learner": learner.name,
            "example": index,
            "gap": examples - 1 - index,
            "mean": found.mean,
            "median": found.median,
            "low": found.low,
            "high": found.high,
            "prompts": counted.sum(dim=0),
        }
        tables.append(pd.DataFrame(columns).query("prompts > 0"))
    return pd.concat(tables, ignore_index=True)


def _examples(
    source: Task | Prompt, examples: int, prompts: int, seed: int, device: torch.device | str
) -> tuple[Prompt, Tensor]:
    """Prompts of as many points as there are examples, and the scale (n,) of each."""
    if isinstance(source, Task):
        # Drawn on the CPU, so that the prompts are the same on every device.
        drawn = source.sample(prompts, examples, generator=seeded(seed)).to(device=device)
        scale = source.scale_at(examples)  # (n,)
    else:
        drawn = source
        scale = source.ys.double().square().mean().expand(examples).cpu()  # (n,)
    if drawn.layout != "pairs":
        raise PromptError("forgetting needs prompts of pairs: in a stream no x can be asked again.")
    if drawn.points < examples:
        raise ConfigurationError(
            f"the prompts have {drawn.points} points, {examples} examples were asked for: give "
            "longer prompts, or ask for fewer examples."
        )
    if not bool((scale > 0).all()):
        raise PromptError("E[y^2] is 0: there is no error to compare with, give other outputs.")
    scored = None if drawn.scored is None else drawn.scored[:, :examples]  # (P, n)
    return Prompt(xs=drawn.xs[:, :examples], ys=drawn.ys[:, :examples], scored=scored), scale


def example_errors(learner: Learner[Any], prompt: Prompt, steps: int | None = None) -> Tensor:
    """Squared errors (P, n) on all points of the prompts, asked again after the last of them."""
    rows = prompts_at_once(learner, prompt, prompt.points)
    parts: list[Tensor] = []
    for start in range(0, prompt.batch, rows):
        part = prompt.select(slice(start, start + rows))
        with torch.no_grad():
            answers = predict(learner, _asked_again(part), steps=steps)[:, -1]  # (b, n, k)
        parts.append((answers.double() - part.ys.double()).square().mean(dim=-1))  # (b, n)
    return torch.cat(parts).cpu()


def _asked_again(prompt: Prompt) -> Prompt:
    """The prompt with a point more, at which all of its examples are asked: they come before it."""
    # What stands at that point itself is seen by no query.
    xs = torch.cat([prompt.xs, prompt.xs[:, -1:]], dim=1)  # (b, n + 1, d)
    ys = torch.cat([prompt.ys, torch.zeros_like(prompt.ys[:, -1:])], dim=1)  # (b, n + 1, k)
    queries = prompt.xs[:, None].expand(-1, prompt.points + 1, -1, -1)  # (b, n + 1, n, d)
    return Prompt(xs=xs, ys=ys, queries=queries)
