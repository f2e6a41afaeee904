"""The prompts of a run: each step's depend on (seed, step) and nothing else."""

import hashlib
from dataclasses import dataclass, replace

import torch

from innerloop.core.chunks import slices
from innerloop.core.prompt import Prompt
from innerloop.core.task import Task
from innerloop.tasks.truncated import Truncated
from innerloop.training.config import RunConfig

HELD_OUT = 512
"""Prompts that runs are evaluated on."""
_AT_ONCE = 4096


def generator_for(seed: int, purpose: str, step: int = 0, draw: int = 0) -> torch.Generator:
    """A generator of its own for each seed, purpose, step and draw, on the CPU.

    On the CPU whatever the device of the run, so that all devices see the same prompts. Torch's
    generator reads 32 bits of a seed only, hence a hash: neighbouring steps have nothing in common.
    """
    text = f"{seed}/{purpose}/{step}/{draw}"
    digest = hashlib.sha256(text.encode()).digest()
    return torch.Generator().manual_seed(int.from_bytes(digest[:4], "big"))


@dataclass(frozen=True, slots=True)
class Sizes:
    """What the prompts of a step look like, and how often the model loops on them."""

    dims: int
    points: int
    loops: int | None
    """None if the model does not loop."""
    window: int | None
    """The last loops, whose losses count."""


def sizes_at(config: RunConfig, step: int) -> Sizes:
    """The sizes at a step (from 0) of a run."""
    dims, points = config.task.dims, config.points
    if config.curriculum.dims is not None:
        dims = config.curriculum.dims.at(step, config.steps, dims)
    if config.curriculum.points is not None:
        points = config.curriculum.points.at(step, config.steps, points)
    loops = config.trained_loops
    if loops is None:
        return Sizes(dims, points, None, None)
    loops = config.loops.at(step, config.steps, loops)
    window = loops if config.window is None else min(config.window, loops)
    return Sizes(dims, points, loops, window)


class Prompts:
    """Where the prompts of a run come from: fresh ones at each step, or a pool of fixed ones."""

    def __init__(self, config: RunConfig) -> None:
        self.config = config
        self.pool: Prompt | None = None
        if config.pool is not None:
            self.pool = _pool(config, config.pool)

    def at(self, step: int, draw: int = 0) -> Prompt:
        """The batch * accumulate prompts of a step (from 0), or as many others: another draw.

        Without what no model may see of their truth.
        """
        config = self.config
        number = config.batch * config.accumulate
        generator = generator_for(config.seed, "train", step, draw)
        if self.pool is not None:
            chosen = torch.randint(self.pool.batch, (number,), generator=generator)  # (B,)
            return self.pool.select(chosen)
        sizes = sizes_at(config, step)
        task: Task = config.task
        if sizes.dims < task.dims:
            task = Truncated(task=task, active=sizes.dims)
        return _for_training(task.sample(number, sizes.points, generator=generator))


def held_out(config: RunConfig) -> Prompt:
    """The prompts that a run is evaluated on: the same for all seeds, never trained on."""
    generator = generator_for(0, "held out")
    return _for_training(config.task.held_out(HELD_OUT, config.points, generator=generator))


def _pool(config: RunConfig, number: int) -> Prompt:
    """So many prompts, fixed by the run's seed.

    A few thousand are drawn at a time, as some tasks take more memory than they leave.
    """
    parts: list[Prompt] = []
    for some in slices(number, _AT_ONCE):
        generator = generator_for(config.seed, "pool", some.start)
        prompt = config.task.sample(some.stop - some.start, config.points, generator=generator)
        parts.append(_for_training(prompt))
    return Prompt.cat(parts)


def _for_training(prompt: Prompt) -> Prompt:
    """The prompt without its truth, but for the answers to its queries, which the loss needs."""
    truth = {name: value for name, value in prompt.truth.items() if name == "query_ys"}
    return replace(prompt, truth=truth)
