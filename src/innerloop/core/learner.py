"""Everything that learns from a prompt: init, step, read."""

import dataclasses
from abc import ABC, abstractmethod
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Generic, TypeVar

import torch
from pydantic.fields import FieldInfo
from torch import Tensor

from innerloop.core.components import Components
from innerloop.core.errors import NotSupportedError
from innerloop.core.prompt import Prompt
from innerloop.core.state_parts import HiddenStates, MovingPart

State = TypeVar("State")


@dataclass(frozen=True, slots=True, kw_only=True)
class Traits:
    """What a learner promises about its predictions; `check_learner` holds it to each word.

    A trait that is not claimed is checked as well: it must fail on a named prompt.
    """

    causal: bool = True
    """`read` answers all prefixes at once. A learner that is not causal sees the whole prompt
    and is run on `expand_prefixes`, one prefix at a time."""
    order_invariant: bool = False
    """The order of the examples does not matter."""
    rotation_equivariant: bool = False
    """Rotating all inputs and queries by one orthogonal matrix changes nothing."""
    linear_in_y: bool = False
    """Predictions are a linear function of the outputs of the examples."""


class Learner(ABC, Generic[State]):
    """An algorithm that predicts y_i from x_i and the examples before it.

    A learner holds its configuration and nothing else: all that changes is in the state, a tensor
    or a frozen dataclass of batch-first tensors. Predictions have the dtype and device of the
    prompt, never depend on the other prompts of the batch, and never read `prompt.truth`.
    Learners that draw random numbers have a `seed` field. Models are differentiable; classical
    algorithms are not, and take prompts that require no gradient.
    """

    steps: int
    """How many steps it takes by default; 0 for one-shot learners."""
    traits: Traits
    """What it promises; see `Traits`."""
    answers_at_end: bool = False
    """Whether it answers queries that are asked after the last example alone, all in one pass; any
    other learner is run on each of them by itself."""
    differentiable: bool = True
    """Whether gradients flow through it; `iterate` refuses prompts that want them from others."""

    @cached_property
    def name(self) -> str:
        """How tables and legends call it: the class, and every setting that is not the default."""
        given = [
            f"{name}={_short(value)}"
            for name, value, default in _settings(self)
            if not _equal(value, default)
        ]
        return f"{type(self).__name__}({', '.join(given)})" if given else type(self).__name__

    @abstractmethod
    def init(self, prompt: Prompt) -> State:
        """The state before the first step."""

    @abstractmethod
    def step(self, prompt: Prompt, state: State, k: int) -> State:
        """The state after step k (0-based); the state that was given is left as it is.

        A learner with a natural end (one-shot, or converged) returns the state unchanged beyond it.
        """

    @abstractmethod
    def read(self, prompt: Prompt, state: State) -> Tensor:
        """Predictions (B, n, k) at x_i, or (B, n, q, k) at the prompt's queries.

        A learner that answers at x_i all the same is run on every prefix and query by itself.
        """

    def weights(self, prompt: Prompt, state: State | None = None) -> Tensor:
        """The linear predictor of each prefix, (B, n, d, k) in float64, for linear learners.

        Without a state: after the default number of steps.
        """
        raise NotSupportedError(
            f"{self.name} has no weights of its own: it is not a linear learner. "
            "Fit weights to its answers at many queries instead."
        )

    @property
    def hidden_states(self) -> HiddenStates[State]:
        """The hidden states, for models: what probes read and readouts are fitted to."""
        raise NotSupportedError(f"{self.name} has no hidden states: it is not a model.")

    @property
    def has_hidden_states(self) -> bool:
        """Whether there are hidden states; a learner without is read as it is."""
        try:
            _ = self.hidden_states
        except NotSupportedError:
            return False
        return True

    @property
    def components(self) -> Components:
        """Its heads, MLPs and residual stream, for models: what can be patched and ablated."""
        raise NotSupportedError(
            f"{self.name} has no components that hooks can reach: it is not a model."
        )

    @property
    def moving(self) -> MovingPart[State]:
        """The part of the state that the steps move, for iterative learners."""
        raise NotSupportedError(f"{self.name} has no moving part: it does not iterate.")

    @property
    def computes_in(self) -> torch.dtype:
        """The type that it computes in, whatever the prompt's: the contract allows its rounding."""
        return torch.float64

    def bytes_per_prompt(self, prompt: Prompt) -> int:
        """About how much memory one prompt takes while the learner runs.

        A learner that is not causal is run on as many expanded prefixes at a time as fit.
        """
        return 64 * prompt.xs[0].numel() * prompt.xs.element_size()


class OneShot(Learner[Tensor]):
    """A learner whose answer is complete at once: the state is the answer, and no step changes it.

    A subclass writes `init`, which returns predictions in the prompt's shape.
    """

    steps = 0

    def step(self, prompt: Prompt, state: Tensor, k: int) -> Tensor:
        """Nothing is left to do."""
        return state

    def read(self, prompt: Prompt, state: Tensor) -> Tensor:
        """The answer."""
        return state.to(prompt.xs.dtype)


def _settings(learner: Learner[Any]) -> list[tuple[str, Any, Any]]:
    """Each setting of a learner that is a dataclass: what a user calls it, its value, its default.

    Pydantic keeps constraints, aliases and defaults together where a plain dataclass has a default.
    """
    settings: list[tuple[str, Any, Any]] = []
    for field in dataclasses.fields(learner) if dataclasses.is_dataclass(learner) else ():
        name, default = field.name, field.default
        if isinstance(default, FieldInfo):
            name = default.alias or name
            default = default.get_default(call_default_factory=True, validated_data={})
        elif field.default_factory is not dataclasses.MISSING:
            default = field.default_factory()
        settings.append((name, getattr(learner, field.name), default))
    return settings


def _equal(value: Any, default: Any) -> bool:
    if isinstance(value, Tensor) and isinstance(default, Tensor):
        return value.shape == default.shape and bool((value == default).all())
    return value is default or (type(value) is type(default) and value == default)


def _short(value: Any) -> str:
    """A setting as a legend shows it, with as many digits as tell it from others."""
    if isinstance(value, float):
        return f"{value:g}" if float(f"{value:g}") == value else repr(value)
    return value if isinstance(value, str) else getattr(value, "__name__", None) or str(value)
