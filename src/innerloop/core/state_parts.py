"""What some learners show of their states: hidden states, and the part that the steps move."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

from torch import Tensor

from innerloop.core.errors import NotSupportedError
from innerloop.core.prompt import Prompt

State = TypeVar("State")
Outer = TypeVar("Outer")


@dataclass(frozen=True, slots=True, kw_only=True)
class HiddenStates(Generic[State]):
    """The hidden states of a model, as functions of its prompt and its state."""

    features: Callable[[Prompt, State], Tensor]
    """The hidden states (B, tokens, width): what probes read."""
    input_tokens: Callable[[Prompt], Sequence[int]]
    """Where each of the n points' x stands among the tokens of `features`.

    Of a causal model, the tokens up to x_i's know x_0 .. x_i and y_0 .. y_{i-1} and no more."""
    readout_inputs: Callable[[Prompt, State], Tensor]
    """What a linear readout turns into answers: what other readouts are fitted to.

    (B, n, width) at x_i, or (B, n, q, width) at the prompt's queries; the width is the same at
    every step."""

    def inside(self, inner: Callable[[Outer], State]) -> "HiddenStates[Outer]":
        """The same hidden states for a wrapper, in whose states `inner` finds the model's."""
        return HiddenStates(
            features=lambda prompt, state: self.features(prompt, inner(state)),
            input_tokens=self.input_tokens,
            readout_inputs=lambda prompt, state: self.readout_inputs(prompt, inner(state)),
        )


@dataclass(frozen=True, slots=True)
class MovingPart(Generic[State]):
    """The part of a state that the steps move, batch first: (B, ...).

    Fixed points, their acceleration and Jacobians work on it.
    """

    learner: str
    """The name of the learner, for the refusal."""
    get: Callable[[State], Tensor]
    """The moving part of a state."""
    replace: Callable[[State, Tensor], State] | None = None
    """The state with another moving part; None where the steps are not a function of it alone."""
    refusal: str = "its steps depend on more than their last iterate. Run it without acceleration."
    """Why there is no `replace`."""

    def put(self, state: State, moving: Tensor) -> State:
        """The state with its moving part replaced, or a sentence that says why it cannot be."""
        if self.replace is None:
            raise NotSupportedError(f"{self.learner} cannot be moved by hand: {self.refusal}")
        return self.replace(state, moving)
