"""Several steps of an iteration as one: layers that do more than one step each."""

from functools import cached_property
from typing import Annotated, Any

import torch
from pydantic import Field
from pydantic.dataclasses import dataclass
from torch import Tensor

from innerloop.core.config import STRICT
from innerloop.core.learner import Learner, Traits
from innerloop.core.prompt import Prompt
from innerloop.core.state_parts import MovingPart


@dataclass(frozen=True, config=STRICT)
class Strided(Learner[Any]):
    """An iterative learner of which step t is `strides[t]` steps.

    `Strided(GradientDescent(75), (25, 25, 25))` is what a model of three layers would be, each of
    which makes 25 gradient steps. A stride of 0 does nothing; beyond the last nothing is left to
    do.
    """

    learner: Learner[Any]
    strides: tuple[Annotated[int, Field(ge=0)], ...]

    @property
    def steps(self) -> int:  # pyright: ignore[reportIncompatibleVariableOverride]
        """One per stride."""
        return len(self.strides)

    @property
    def traits(self) -> Traits:  # pyright: ignore[reportIncompatibleVariableOverride]
        """The learner's."""
        return self.learner.traits

    @cached_property
    def name(self) -> str:
        """The learner's, and how many of its steps are one."""
        few = sorted(set(self.strides))
        each = few[0] if len(few) == 1 else "several"
        return f"{self.learner.name}, {each} steps as one"

    def init(self, prompt: Prompt) -> Any:
        """The learner's."""
        return self.learner.init(prompt)

    def step(self, prompt: Prompt, state: Any, k: int) -> Any:
        """The steps of stride k, one after the other."""
        taken = sum(self.strides[:k])
        for number in range(taken, taken + sum(self.strides[k : k + 1])):
            state = self.learner.step(prompt, state, number)
        return state

    def read(self, prompt: Prompt, state: Any) -> Tensor:
        """The learner's."""
        return self.learner.read(prompt, state)

    def weights(self, prompt: Prompt, state: Any | None = None) -> Tensor:
        """The learner's: (B, n, d, k) in float64, without a state after all strides."""
        if state is None:
            state = self.init(prompt)
            for k in range(self.steps):
                state = self.step(prompt, state, k)
        return self.learner.weights(prompt, state)

    @property
    def moving(self) -> MovingPart[Any]:
        """The learner's, which cannot be moved by hand: a step depends on its stride, too."""
        return MovingPart(self.name, self.learner.moving.get)

    @property
    def differentiable(self) -> bool:  # pyright: ignore[reportIncompatibleVariableOverride]
        """As the learner is."""
        return self.learner.differentiable

    @property
    def computes_in(self) -> torch.dtype:
        """The learner's."""
        return self.learner.computes_in

    def bytes_per_prompt(self, prompt: Prompt) -> int:
        """The learner's."""
        return self.learner.bytes_per_prompt(prompt)
