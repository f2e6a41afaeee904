"""How weights are moved: Adam, or Muon for matrices with Adam for the rest."""

import math
from typing import Literal

import torch
from pydantic import Field, model_validator
from torch import Tensor

from innerloop.core.config import Config, Float32
from innerloop.models.model import AnyModel
from innerloop.training.duration import Duration, in_steps
from innerloop.training.muon import Muon


class Optimizer(Config):
    """The optimiser of a run and its learning rates.

    Each rate is multiplied by a warm-up from 0 to 1 and by the schedule. Weight decay is decoupled
    and touches the weight matrices of hidden layers only.
    """

    kind: Literal["adam", "muon"] = Field(
        default="adam", description="adam for all; muon for hidden matrices, adam for the rest"
    )
    learning_rate: Float32 = Field(default=1e-4, gt=0, description="of Adam")
    betas: tuple[Float32, Float32] = Field(
        default=(0.9, 0.999), description="how long Adam's two averages remember"
    )
    matrix_rate: Float32 = Field(default=0.02, gt=0, description="learning rate of Muon")
    momentum: Float32 = Field(default=0.95, ge=0, lt=1, description="of Muon")
    weight_decay: Float32 = Field(
        default=0.0, ge=0, description="share of a hidden matrix taken off a step, over its rate"
    )
    warmup: Duration = Field(
        default=0, description="steps (or share of them) over which the rates grow from 0"
    )
    schedule: Literal["constant", "cosine", "trapezoid"] = Field(
        default="constant",
        description="constant; a cosine to zero over the run; or constant for the first half of "
        "it, then a line to zero",
    )
    clip: Float32 | None = Field(
        default=None, gt=0, description="largest norm of the gradient; None: as it is"
    )

    @model_validator(mode="after")
    def _check_betas(self) -> "Optimizer":
        if not all(0 <= beta < 1 for beta in self.betas):
            raise ValueError(f"betas are {self.betas}, expected two numbers from 0 to below 1")
        return self

    @classmethod
    def paper(cls) -> "Optimizer":
        """That of Garg et al. (2022) and Yang et al. (2024): Adam at a constant 1e-4."""
        return cls(kind="adam", learning_rate=1e-4)

    @classmethod
    def fast(cls) -> "Optimizer":
        """Muon and Adam at high rates, with warm-up, cosine and clipping."""
        return cls(
            kind="muon",
            learning_rate=5e-3,
            betas=(0.9, 0.99),
            matrix_rate=0.03,
            warmup=50,
            schedule="cosine",
            clip=1.0,
        )

    def factor(self, step: int, steps: int) -> float:
        """What the rates are multiplied by at a step (from 0) of a run of `steps`."""
        warmup = in_steps(self.warmup, steps)
        risen = min(1.0, (step + 1) / warmup) if warmup else 1.0
        if self.schedule == "constant":
            return risen
        if self.schedule == "trapezoid":
            return risen * min(1.0, 2 * (1 - step / steps))
        return risen * 0.5 * (1 + math.cos(math.pi * step / steps))


PRESETS = {"paper": Optimizer.paper, "fast": Optimizer.fast}
"""What a configuration may name instead of an optimiser."""


class Optimizers:
    """The optimisers of a model, moved as one."""

    def __init__(self, settings: Optimizer, model: AnyModel) -> None:
        self.settings = settings
        matrices = [matrix for matrix in model.matrices() if matrix.requires_grad]
        known = {id(matrix) for matrix in matrices}
        others = [p for p in model.parameters() if p.requires_grad and id(p) not in known]
        self.parameters: list[Tensor] = [*matrices, *others]
        decay = settings.weight_decay
        self._members: list[tuple[torch.optim.Optimizer, float]] = []
        groups = [{"params": others, "weight_decay": 0.0}]
        if settings.kind == "muon" and matrices:
            muon = Muon(matrices, momentum=settings.momentum, weight_decay=decay)
            self._members.append((muon, settings.matrix_rate))
        else:
            groups.append({"params": matrices, "weight_decay": decay})
        groups = [group for group in groups if group["params"]]
        if groups:
            # Fused: a third of the time of the other ways, on a CPU too; without decay AdamW is
            # Adam.
            adam = torch.optim.AdamW(
                groups, lr=settings.learning_rate, betas=settings.betas, fused=True
            )
            self._members.append((adam, settings.learning_rate))

    def clear(self) -> None:
        """Forget the gradients."""
        for member, _ in self._members:
            member.zero_grad(set_to_none=True)

    def clip(self) -> Tensor:
        """Shorten the gradient where the settings say so; its norm () before that."""
        gradients = [p.grad for p in self.parameters if p.grad is not None]
        norm = torch.nn.utils.get_total_norm(gradients)  # ()
        if self.settings.clip is not None:
            torch.nn.utils.clip_grads_with_norm_(self.parameters, self.settings.clip, norm)
        return norm

    def step(self, step: int, steps: int) -> None:
        """Move the weights, at the rates of this step (from 0) of a run of `steps`."""
        factor = self.settings.factor(step, steps)
        for member, rate in self._members:
            for group in member.param_groups:
                group["lr"] = rate * factor
            member.step()

    def state(self) -> list[dict[str, object]]:
        """What the optimisers remember, in plain tensors and numbers."""
        return [member.state_dict() for member, _ in self._members]

    def load_state(self, states: list[dict[str, object]]) -> None:
        """Go on from what `state` gave; a ValueError where it does not fit."""
        for (member, _), state in zip(self._members, states, strict=True):
            member.load_state_dict(state)
