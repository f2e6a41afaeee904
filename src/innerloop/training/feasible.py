"""Refuse a run that this machine cannot carry out, before anything is written for it."""

import os
from typing import Any

import humanize
import numpy as np
import torch
from torch import Tensor

from innerloop.core.errors import ConfigurationError
from innerloop.core.machine import require_threads
from innerloop.core.prompt import Prompt
from innerloop.core.words import duration
from innerloop.models.bounded import bytes_of
from innerloop.models.model import AnyModel
from innerloop.training.config import RunConfig
from innerloop.training.data import HELD_OUT, generator_for, sizes_at
from innerloop.training.estimate import RATE, step_cost
from innerloop.training.trainer import available, first_model
from innerloop.training.window import window_outputs

_COPIES = 4
"""Numbers of a training per parameter: itself, its gradient, and what optimisers remember of it."""
_LONG = 64
"""Points of a prompt beyond which its memory is computed from that of shorter ones."""
_MANY = 4
"""Loops with gradients beyond which their memory is computed from that of fewer."""
_AN_HOUR = 3600 * RATE
"""Operations of one core in an hour: thirty times the largest step of any recipe."""
_FASTER = 10_000
"""Times that the fastest devices are faster than one core."""


def require_feasible(config: RunConfig) -> None:
    """Refuse devices and threads that are not here, steps of hours, what does not fit into memory.

    Nothing that is large is made for it: sizes are compared before.
    """
    require_threads(config.threads or 1)
    device = available(config.device)
    memory = memory_of(device)
    if memory is not None:
        _require_memory(config, memory)
    _require_pace(config, device)


def _require_memory(config: RunConfig, memory: int) -> None:
    """Refuse prompts, weights and gradients that do not fit."""
    step, pool = f"batch={config.batch} accumulate={config.accumulate}", f"pool={config.pool}"
    prompts = {
        f"points={config.points}, in the {HELD_OUT} held-out prompts,": HELD_OUT,
        step: config.batch * config.accumulate,
        pool: config.pool or 0,
    }
    numbers = config.points * (config.task.form.dims + config.task.form.outputs)
    for settings, number in prompts.items():
        size = 2 * 4 * number * numbers  # as much again while they are drawn
        _require_room(settings, size, memory, config, "take fewer prompts, or points")
    _require_room(*_model_bytes(config), memory, config, "make it smaller")
    held, kept = bytes_per_prompt(config)
    for settings, size in (
        (step, config.batch * kept + prompts[step] * held),
        (pool, prompts[pool] * held),
    ):
        _require_room(settings, size, memory, config, "take fewer prompts")


def _require_room(what: str, size: float, memory: int, config: RunConfig, remedy: str) -> None:
    if size > memory:
        raise ConfigurationError(
            f"{what} would take about {humanize.naturalsize(size)} of memory, and "
            f"{config.device} has {humanize.naturalsize(memory)}: {remedy}."
        )


def _require_pace(config: RunConfig, device: torch.device) -> None:
    """Refuse a step that would look as if nothing happened any more."""
    cost = step_cost(config, config.steps - 1)
    if cost > _AN_HOUR * (1 if device.type == "cpu" else _FASTER):
        raise ConfigurationError(
            f"one step of this run would take {duration(cost / RATE)} on one core: take fewer "
            "loops, layers, prompts or points."
        )


def _model_bytes(config: RunConfig) -> tuple[str, int]:
    """What a model is, and the bytes that it takes in training; no weight is made for that."""
    try:
        parameters = bytes_of(config.model) // 4
    except (RuntimeError, MemoryError) as error:
        raise ConfigurationError(
            "the model of this run has sizes that no memory holds: make it smaller."
        ) from error
    copies = _COPIES + (config.average is not None)
    return f"a model of {parameters:,} numbers", 4 * copies * parameters


def bytes_per_prompt(config: RunConfig) -> tuple[float, float]:
    """Bytes of a prompt itself, and bytes that its gradient needs until it is computed.

    Counted on the longest prompts and with the most loops of the run, on a model as it is at the
    start. Near the peak of a step for loops and stacks, about half of it for linear loops.
    """
    model = first_model(config)
    if config.points <= _LONG:
        return _counted(model, config, config.points)
    # Attention is quadratic in the points, all else is linear: three lengths determine the rest.
    lengths = [_LONG // 4, _LONG // 2, _LONG]
    columns = zip(*(_counted(model, config, points) for points in lengths), strict=True)
    held, kept = (np.polyval(np.polyfit(lengths, column, 2), config.points) for column in columns)
    return float(held), float(kept)


def _counted(model: AnyModel, config: RunConfig, points: int) -> tuple[float, float]:
    """The same for prompts of so many points."""
    prompt = config.task.sample(2, points, generator=generator_for(0, "memory"))
    held = 2 * (prompt.xs[0].nbytes + prompt.ys[0].nbytes)  # as much again while they are drawn
    loops = sizes_at(config, config.steps - 1).window
    if loops is None or loops <= _MANY:
        return held, _kept_per_prompt(model, config, prompt, loops)
    # Every loop with a gradient keeps as much as the one before it.
    fewer, few = (_kept_per_prompt(model, config, prompt, n) for n in (_MANY - 1, _MANY))
    return held, few + (loops - _MANY) * (few - fewer)


def _kept_per_prompt(model: AnyModel, config: RunConfig, prompt: Prompt, loops: int | None) -> int:
    """Bytes that two prompts keep and one does not: copies of weights are kept once."""
    one, two = (_kept(model, config, prompt.select(slice(0, n)), loops) for n in (1, 2))
    return two - one


def _kept(model: AnyModel, config: RunConfig, prompt: Prompt, loops: int | None) -> int:
    """Bytes of the tensors that autograd keeps for the gradient through so many loops."""
    kept: dict[int, Tensor] = {}  # held on to, so that no two share an address

    def keep(tensor: Tensor) -> Tensor:
        kept.setdefault(tensor.untyped_storage().data_ptr(), tensor)
        return tensor

    low = config.precision == "bfloat16"
    hooks: Any = torch.autograd.graph.saved_tensors_hooks(keep, lambda tensor: tensor)
    with hooks, torch.autocast("cpu", dtype=torch.bfloat16, enabled=low):
        outputs = window_outputs(
            model, prompt, loops=loops, window=loops, use_kernels=False
        )  # (T, B, n, k)
    del outputs
    return sum(tensor.untyped_storage().nbytes() for tensor in kept.values())


def memory_of(device: torch.device) -> int | None:
    """Bytes that a device has in all; None where nobody says."""
    if device.type == "cuda":
        return torch.cuda.mem_get_info(device)[1]
    if device.type == "cpu" and hasattr(os, "sysconf"):  # not on Windows
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    return None
