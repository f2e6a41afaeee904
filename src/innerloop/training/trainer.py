"""One step of a run after the other, and all that changes while they are taken."""

import math
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from innerloop.core.chunks import in_parts
from innerloop.core.errors import ConfigurationError
from innerloop.core.prompt import Prompt
from innerloop.models.block import Block
from innerloop.models.model import AnyModel, predictions
from innerloop.models.table import build
from innerloop.training.average import Average
from innerloop.training.config import RunConfig
from innerloop.training.data import Prompts, Sizes, generator_for, held_out, sizes_at
from innerloop.training.distributed import ALONE, Processes
from innerloop.training.divergence import Divergence
from innerloop.training.optimizer import Optimizers
from innerloop.training.window import counts_alone, targets, window_loss, window_outputs

_EVALUATED_AT_ONCE = 128
_CHECKED = 64
"""Fewest prompts that weights are checked on: a few prompts may be hard by chance."""


@dataclass(frozen=True, slots=True)
class Taken:
    """The outcome of one step."""

    loss: float
    gradient: float
    """The norm of the gradient, before it was clipped."""
    sizes: Sizes


class Trainer:
    """Model, optimisers, prompts: takes one step after the other, bit for bit by its state.

    Where several processes train a run, each has a trainer; all of them take the same steps.
    """

    def __init__(self, config: RunConfig, processes: Processes = ALONE) -> None:
        self.config, self.processes = config, processes
        self.device = available(processes.device(config.device))
        self.model = first_model(config).to(self.device)
        self.model.train()
        # Before anything is compiled: it holds a copy.
        self.average = None if config.average is None else Average(self.model, config.average)
        if config.compile:
            for part in self.model.compiled_parts():
                part.compile()  # in place: its parameters keep their names
        self.optimizers = Optimizers(config.optimizer, self.model)
        self.prompts = Prompts(config)
        self.held_out = held_out(config).to(device=self.device)
        self.scale = config.task.scale_at(config.points).to(self.held_out.ys)  # (n,)
        classes = config.task.form.classes or self.held_out.outputs
        self.divergence = Divergence(self.model.head, classes)
        self.step = 0
        """Updates so far."""

    @property
    def result(self) -> AnyModel:
        """The model that is evaluated and kept: the average, where there is one."""
        return self.model if self.average is None else self.average.model

    def take_step(self) -> Taken:
        """One update of the weights; a DivergenceError, and none, where it would be a failure."""
        sizes = sizes_at(self.config, self.step)
        self.optimizers.clear()
        loss = torch.zeros((), device=self.device)  # ()
        for part, share in self._parts(self.prompts.at(self.step)):
            part_loss = share * self._loss(part, sizes)  # ()
            with _compiling(self.config):  # gradients are compiled when they are first computed
                part_loss.backward()
            loss += part_loss.detach()
        loss = self.processes.add_up(self.optimizers.parameters, loss)  # ()
        norm = self.optimizers.clip()  # ()
        total, gradient = torch.stack([loss, norm]).tolist()
        self.divergence.watch(self.step + 1, total, gradient)
        self.optimizers.step(self.step, self.config.steps)
        self.step += 1
        if self.average is not None:
            self.average.take(self.model, self.step)
        return Taken(total, gradient, sizes)

    def _parts(self, prompt: Prompt) -> Iterator[tuple[Prompt, float]]:
        """The rows of a step's prompts that are this process's, in batches, each with its share.

        The loss is a mean over the questions of all prompts, and some prompts have more of them
        than others.
        """
        whole = _questions(prompt)
        for _, part in in_parts(self.processes.rows(prompt), self.config.batch):
            yield part.to(device=self.device), _questions(part) / whole

    def _loss(self, prompt: Prompt, sizes: Sizes) -> Tensor:
        with self._precision():
            outputs = self._outputs(
                self.model, prompt, loops=sizes.loops, window=sizes.window
            )  # (T, B, n, k)
        return window_loss(
            outputs, prompt, self.scale[: prompt.points], self.model.head,
            smoothing=self.config.label_smoothing, balance=self.config.balance,
        )  # fmt: skip

    def _outputs(
        self, model: AnyModel, prompt: Prompt, *, loops: int | None, window: int | None
    ) -> Tensor:
        """A model's outputs (T, B, n, k) in the window; compiled blocks need no kernels."""
        use = self.config.kernels and not self.config.compile
        with _compiling(self.config):
            return window_outputs(model, prompt, loops=loops, window=window, use_kernels=use)

    def _precision(self) -> Any:
        if self.config.precision == "float32":
            return nullcontext()
        return torch.autocast(self.device.type, dtype=torch.bfloat16)

    @torch.no_grad()
    def sound(self) -> bool:
        """Whether the weights as they are now give a loss that is not that of a failed run.

        The loss of the last step was computed before it moved them. Asked of prompts as the next
        step has them, since held-out ones may be larger; it changes nothing.
        """
        sizes = sizes_at(self.config, self.step)
        draws = math.ceil(_CHECKED / (self.config.batch * self.config.accumulate))
        loss = torch.zeros((), device=self.device)  # ()
        for draw in range(draws):
            for part, share in self._parts(self.prompts.at(self.step, draw)):
                loss += share / draws * self._loss(part, sizes)  # ()
        return self.divergence.accepts(*self.processes.total(float(loss)))

    @torch.no_grad()
    def error(self) -> float:
        """Squared error over the scale, on held-out prompts, at the last position that counts.

        Of the result, in full precision, after as many loops as it is trained with in the end. At
        all queries where there are some; of tokens the share that is wrong, at all positions that
        count.
        """
        scored = self.held_out.scored
        place = self.held_out.points - 1 if scored is None else int(scored.any(0).nonzero()[-1])
        total = count = 0.0
        for _, part in self.processes.some(in_parts(self.held_out, _EVALUATED_AT_ONCE)):
            outputs = self._outputs(self.result, part, loops=None, window=1)[0]  # (B, n[, q], k)
            answers, right = predictions(outputs, self.model.head), targets(part)  # the same
            if self.model.head == "tokens":
                if counts_alone(self.model.head, part):
                    right = right[part.scored]  # (questions, 1)
                errors = answers != right  # (questions, 1), or (B, n[, q], 1)
            elif part.queries is None:
                errors = (answers - right)[:, place].square()  # (B, k)
            else:
                errors = (answers - right).square()  # (B, n or 1, q, k)
            total, count = total + float(errors.sum()), count + errors.numel()
        total, count = self.processes.total(total, count)
        return total / count / (1.0 if self.model.head == "tokens" else float(self.scale[place]))

    def state(self) -> dict[str, Any]:
        """All that the next steps depend on, in plain tensors and numbers."""
        average = {} if self.average is None else {"average": self.average.model.state_dict()}
        data = self.config.task.data_digest()
        return {
            **average,
            **({} if data is None else {"data": data}),
            "step": self.step,
            "weights": self.model.state_dict(),
            "optimizers": self.optimizers.state(),
            "divergence": self.divergence.state(),
        }

    def load_state(self, state: dict[str, Any]) -> None:
        """Go on from what `state` gave."""
        self.model.load_state_dict(state["weights"])
        self.optimizers.load_state(state["optimizers"])
        self.divergence.load_state(state["divergence"])
        if self.average is not None:
            self.average.model.load_state_dict(state["average"])
        self.step = int(state["step"])


def first_model(config: RunConfig) -> AnyModel:
    """The model before its first step, from the run's seed."""
    model = build(config.model, generator=generator_for(config.seed, "weights"))
    if config.spread == "small":
        model.redraw(spread="small", generator=generator_for(config.seed, "weights"))
    if config.identity_start:
        for block in (part for part in model.modules() if isinstance(part, Block)):
            nn.init.zeros_(block.attention.outward.weight)  # biases are zero already
            if block.mlp is not None:
                nn.init.zeros_(block.mlp.down.weight)
    return model


def available(name: str) -> torch.device:
    """The device of this name, if there is one."""
    try:
        device = torch.device(name)
        torch.empty(0, device=device)
    except (RuntimeError, AssertionError) as error:
        raise ConfigurationError(
            f"device is {name!r}, which is not here: take 'cpu', or a machine that has it."
        ) from error
    return device


@contextmanager
def _compiling(config: RunConfig) -> Iterator[None]:
    """Say in a sentence that torch cannot compile here, as where there is no C++ compiler."""
    try:
        yield
    except RuntimeError as error:
        if not config.compile or not type(error).__module__.startswith("torch._"):
            raise
        reason = str(error).split("\n")[0].rstrip(".")
        raise ConfigurationError(
            f"torch cannot compile the model here ({reason}): set compile=false."
        ) from error


def _questions(prompt: Prompt) -> int:
    """How many answers a loss is a mean of, up to a factor that all parts of a prompt share."""
    if prompt.scored is None or prompt.queries is not None:
        return prompt.batch
    return int(prompt.scored.sum())
