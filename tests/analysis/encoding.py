"""A learner whose hidden states hold what a test puts there, and prompts to probe it on."""

from collections.abc import Callable
from dataclasses import dataclass, replace

import torch
from torch import Tensor

import innerloop as il
from innerloop.core.learner import Learner, Traits
from innerloop.core.prompt import Prompt
from innerloop.core.state_parts import HiddenStates

DIMS, POINTS = 3, 7
TASK = il.tasks.LinearRegression(dims=DIMS, dtype="float64")
EXPLAINED = 0.05
"""A probe has decoded its target when it leaves less than this part of the variance."""


@dataclass(frozen=True, eq=False)
class Encoding(Learner[Tensor]):
    """Tokens (B, n, D), one per point, that hold what a function puts into them at each step."""

    encode: Callable[[Prompt, int], Tensor]
    steps: int = 1
    traits = Traits()

    def init(self, prompt: Prompt) -> Tensor:
        return self.encode(prompt, 0)

    def step(self, prompt: Prompt, state: Tensor, k: int) -> Tensor:
        return self.encode(prompt, k + 1)

    def read(self, prompt: Prompt, state: Tensor) -> Tensor:
        return torch.zeros_like(prompt.ys)

    @property
    def hidden_states(self) -> HiddenStates[Tensor]:
        return HiddenStates(
            features=lambda prompt, state: state,
            input_tokens=lambda prompt: range(prompt.points),
            readout_inputs=lambda prompt, state: state,
        )


def prompts(number: int, seed: int) -> Prompt:
    return TASK.sample(number, POINTS, generator=torch.Generator().manual_seed(seed))


def with_ones(prompt: Prompt) -> Prompt:
    """The control task: w is fixed to ones."""
    return replace(prompt, ys=prompt.xs.sum(dim=2, keepdim=True), truth={})
