"""Refuse a run that this machine cannot carry out, before anything is written for it."""

import os
from typing import Any

import humanize
import torch
from torch import Tensor

from innerloop.core.errors import ConfigurationError
from innerloop.core.prompt import Prompt
from innerloop.models.bounded import bytes_of
from innerloop.models.model import AnyModel
from innerloop.training.config import RunConfig
from innerloop.training.data import generator_for, sizes_at
from innerloop.training.trainer import available, first_model
from innerloop.training.window import window_outputs


def require_feasible(config: RunConfig) -> None:
    """Refuse a device that is not here, and prompts that do not fit into its memory."""
    device = available(config.device)
    memory = memory_of(device)
    if memory is None:
        return
    _require_room(config, memory)
    held, kept = bytes_per_prompt(config)
    step = config.batch * (kept + config.accumulate * held)
    wanted = {
        f"batch={config.batch} accumulate={config.accumulate}": step,
        f"pool={config.pool}": (config.pool or 0) * held,
    }
    for settings, size in wanted.items():
        if size > memory:
            raise ConfigurationError(
                f"{settings} would take about {humanize.naturalsize(size)} of memory, and "
                f"{config.device} has {humanize.naturalsize(memory)}: take fewer prompts."
            )


def _require_room(config: RunConfig, memory: int) -> None:
    """Refuse a model or two prompts that are larger than memory, before a number of them is."""
    form = config.task.form
    wanted = {
        "the model of this run": bytes_of(config.model),
        f"a prompt of points={config.points}": 2 * 4 * config.points * (form.dims + form.outputs),
    }
    for what, size in wanted.items():
        if size > memory:
            raise ConfigurationError(
                f"{what} would take about {humanize.naturalsize(size)} of memory, and "
                f"{config.device} has {humanize.naturalsize(memory)}: make it smaller."
            )


def bytes_per_prompt(config: RunConfig) -> tuple[int, int]:
    """Bytes of a prompt itself, and bytes that its gradient needs until it is computed.

    Counted on the longest prompts and with the most loops of the run, on a model as it is at the
    start. Near the peak of a step for loops and stacks, about half of it for linear loops.
    """
    prompt = config.task.sample(2, config.points, generator=generator_for(0, "memory"))
    held = 2 * (prompt.xs[0].nbytes + prompt.ys[0].nbytes)  # as much again while they are drawn
    try:
        model = first_model(config)
    except (RuntimeError, MemoryError) as error:
        raise ConfigurationError(
            "the model of this run does not fit into memory: make it smaller."
        ) from error
    # What two prompts need and one does not: copies of weights are kept once, not per prompt.
    one, two = (_kept(model, config, prompt.select(slice(0, number))) for number in (1, 2))
    return held, two - one


def _kept(model: AnyModel, config: RunConfig, prompt: Prompt) -> int:
    """Bytes of the tensors that autograd keeps for the gradient of a step."""
    sizes = sizes_at(config, config.steps - 1)
    kept: dict[int, Tensor] = {}  # held on to, so that no two share an address

    def keep(tensor: Tensor) -> Tensor:
        kept[tensor.untyped_storage().data_ptr()] = tensor
        return tensor

    low = config.precision == "bfloat16"
    hooks: Any = torch.autograd.graph.saved_tensors_hooks(keep, lambda tensor: tensor)
    with hooks, torch.autocast("cpu", dtype=torch.bfloat16, enabled=low):
        outputs = window_outputs(
            model, prompt, loops=sizes.loops, window=sizes.window, use_kernels=False
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
