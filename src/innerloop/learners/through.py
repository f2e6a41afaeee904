"""A learner that works on something else than the prompt itself: features, histories, levels."""

from collections.abc import Callable
from functools import cached_property
from typing import Any

import torch
from pydantic import model_validator
from pydantic.dataclasses import dataclass
from torch import Tensor

from innerloop.core.config import STRICT
from innerloop.core.errors import InnerloopError
from innerloop.core.learner import Learner, Traits
from innerloop.core.prompt import Prompt
from innerloop.core.state_parts import MovingPart


@dataclass(frozen=True, config=STRICT)
class Through(Learner[Any]):
    """A learner run on transform(prompt), for example on features Phi(x) in the place of x.

    The transform keeps batch, points, outputs and queries, and point i of what it gives depends on
    x_0 .. x_i and y_0 .. y_{i-1} only (and y_i on y_i as well): else the whole is not causal. It is
    called anew at every step, and must be the same function each time. `finish` is applied to
    predictions. What the whole promises is for the user to say, in `traits`: a transform may keep
    or break what the learner promises.
    """

    transform: Callable[[Prompt], Prompt]
    learner: Learner[Any]
    traits: Traits
    finish: Callable[[Tensor], Tensor] | None = None
    label: str = ""
    """What the transform is called in tables; by default the function's own name."""

    @model_validator(mode="after")
    def _require_causal(self) -> "Through":
        if self.traits.causal and not self.learner.traits.causal:
            raise ValueError(
                f"{self.learner.name} is not causal, and no transform makes it so: say "
                "Traits(causal=False)"
            )
        return self

    @cached_property
    def name(self) -> str:
        """The learner and what it works on."""
        kind = type(self.transform).__name__  # of callable objects
        what = self.label or getattr(self.transform, "__name__", kind)
        return f"{self.learner.name} through {what}"

    @property
    def steps(self) -> int:  # pyright: ignore[reportIncompatibleVariableOverride]
        """Those of the learner."""
        return self.learner.steps

    def init(self, prompt: Prompt) -> Any:
        """The learner's state."""
        return self.learner.init(self._transformed(prompt))

    def step(self, prompt: Prompt, state: Any, k: int) -> Any:
        """The learner's step."""
        return self.learner.step(self._transformed(prompt), state, k)

    def read(self, prompt: Prompt, state: Any) -> Tensor:
        """What the learner reads, finished."""
        answer = self.learner.read(self._transformed(prompt), state)  # (B, n[, q], k)
        return answer if self.finish is None else self.finish(answer)

    @property
    def moving(self) -> MovingPart[Any]:
        """The learner's: the states are the learner's own."""
        return self.learner.moving

    @property
    def differentiable(self) -> bool:  # pyright: ignore[reportIncompatibleVariableOverride]
        """As the learner is."""
        return self.learner.differentiable

    @property
    def computes_in(self) -> torch.dtype:
        """The learner's."""
        return self.learner.computes_in

    def bytes_per_prompt(self, prompt: Prompt) -> int:
        """The learner's, on one transformed prompt."""
        return self.learner.bytes_per_prompt(self._transformed(prompt.select(slice(0, 1))))

    def _transformed(self, prompt: Prompt) -> Prompt:
        given = self.transform(prompt)
        if given.prediction_shape != prompt.prediction_shape:
            raise InnerloopError(
                f"the transform of {self.name} changes the shape of predictions from "
                f"{prompt.prediction_shape} to {given.prediction_shape}: keep batch, points, "
                "queries and outputs."
            )
        return given
