"""A learner's answers by prefix, given out one example per step."""

from dataclasses import dataclass as plain_dataclass
from dataclasses import replace
from functools import cached_property
from typing import Annotated, Any

import torch
from pydantic import Field, field_validator
from pydantic.dataclasses import dataclass
from torch import Tensor

from innerloop.core.config import STRICT
from innerloop.core.learner import Traits
from innerloop.core.prompt import Prompt
from innerloop.learners.prefix import LinearLearner


@plain_dataclass(frozen=True, slots=True, eq=False)
class TurnState:
    """The weights of all prefixes, and those that each has by now."""

    prefixes: Tensor
    """(B, n, d, k)."""
    now: Tensor
    """(B, n, d, k)."""


@dataclass(frozen=True, config=STRICT)
class InTurn(LinearLearner[TurnState]):
    """A linear learner that takes the examples in one at a time: after t steps, min(t, i) of i.

    After t steps prefix i answers with the weights that the learner has after its first min(t, i)
    examples. This is how a circuit that takes one example per step compares with learners whose
    answer is complete at once: online gradient descent, Sherman-Morrison updates, ridge.

    Fewer steps than examples leave the last ones out, so their order counts.
    """

    learner: LinearLearner[Any]
    steps: Annotated[int, Field(ge=0)] = 0

    @field_validator("learner")
    @classmethod
    def _require_causal(cls, learner: LinearLearner[Any]) -> LinearLearner[Any]:
        if not learner.traits.causal:
            raise ValueError(
                f"{learner.name} has no weights by prefix: give a learner that answers all "
                "prefixes at once"
            )
        return learner

    @property
    def traits(self) -> Traits:  # pyright: ignore[reportIncompatibleVariableOverride]
        """Those of the learner, but for the order of examples."""
        return replace(self.learner.traits, order_invariant=False)

    @cached_property
    def name(self) -> str:
        """The learner's, and that it takes its time."""
        return f"{self.learner.name} in turn"

    def init(self, prompt: Prompt) -> TurnState:
        """The weights without any example, for all."""
        prefixes = self.learner.weights(prompt)  # (B, n, d, k)
        return TurnState(prefixes, prefixes[:, :1].expand_as(prefixes))

    def step(self, prompt: Prompt, state: TurnState, k: int) -> TurnState:
        """One more example, for the prefixes that have one more."""
        seen = torch.arange(prompt.points, device=state.now.device).clamp(max=k + 1)  # (n,)
        return replace(state, now=state.prefixes[:, seen])

    def weights_of(self, state: TurnState) -> Tensor:
        """The weights that each prefix has by now: (B, n, d, k)."""
        return state.now
