"""What all trainable learners share."""

from abc import abstractmethod
from collections.abc import Mapping
from typing import Any, Generic, Literal, TypeVar

import torch
from torch import Tensor, nn

from innerloop.core.arguments import expect_generator
from innerloop.core.config import Config
from innerloop.core.errors import ConfigurationError
from innerloop.core.learner import Learner
from innerloop.core.prompt import Prompt
from innerloop.models.settings import Spread

State = TypeVar("State")
Settings = TypeVar("Settings", bound=Config)
Head = Literal["regression", "binary", "classes", "gaussian", "tokens"]
"""regression: the outputs themselves; binary: labels -1 and 1; classes: one output per class, which
a one-hot y has as well; gaussian: a mean per output, then a log-variance per output; tokens: one
output per class, of which y is the number."""


def expect_config(value: Any, kind: type[Config]) -> None:
    """Refuse what is not a model's configuration, and say how to make one."""
    if isinstance(value, kind):
        return
    hint = f"make one, {kind.__name__}(dims=5, ..)"
    if isinstance(value, Mapping):
        hint = f"make one of it, {kind.__name__}(**settings)"
    raise ConfigurationError(
        f"config is a {type(value).__name__}, expected a {kind.__name__}: {hint}."
    )


class Model(nn.Module, Learner[State], Generic[State, Settings]):
    """A learner with parameters, which computes in their type and answers in the prompt's.

    Its configuration and its parameters are all of it: `save` and `load` keep both. What a loss is
    computed from are `outputs`; `read` turns them into predictions.
    """

    config: Settings
    head: Head
    looped: bool
    """Whether it runs for any number of steps, so that a loss may look at many of them."""
    points: int | None = None
    """The most points that a prompt may have; None if there is no limit."""

    @abstractmethod
    def outputs(self, prompt: Prompt, state: State) -> Tensor:
        """What the readout gives at x_i (B, n, k) or at the queries (B, n, q, k).

        Predictions for regression; logits for tokens, classes and binary labels.
        """

    def scored_outputs(self, prompt: Prompt, state: State) -> Tensor:
        """The outputs at the positions that count, in order: (questions, k)."""
        return self.outputs(prompt, state)[prompt.scored]

    @abstractmethod
    def matrices(self) -> list[nn.Parameter]:
        """The weight matrices between hidden layers: what Muon is made for."""

    def compiled_parts(self) -> list[nn.Module]:
        """The modules that `compile` compiles, each on its own; none where nothing is gained."""
        return []

    def redraw(self, *, spread: Spread, generator: torch.Generator) -> None:
        """Draw the first weights again, with another spread."""
        initialise(self, spread=spread, generator=generator)

    def read(self, prompt: Prompt, state: State) -> Tensor:
        """Predictions, as the head has it.

        The outputs or their means, the expected label, the probabilities of the classes, or the
        number of the most likely one.
        """
        outputs = self.outputs(prompt, state)  # (B, n[, q], k)
        return predictions(outputs, self.head).to(prompt.xs.dtype)

    @property
    def parameter_count(self) -> int:
        """Numbers that training may change."""
        return sum(parameter.numel() for parameter in self.parameters())

    @property
    def dtype(self) -> torch.dtype:
        """The type of its parameters."""
        return next(self.parameters()).dtype

    @property
    def computes_in(self) -> torch.dtype:
        """The type of its parameters."""
        return self.dtype


AnyModel = Model[Any, Any]


def predictions(outputs: Tensor, head: Head) -> Tensor:
    """Predictions from outputs (.., k): the mean of y given the logits, where there are logits."""
    if head == "binary":
        return torch.tanh(outputs / 2)
    if head == "classes":
        return outputs.softmax(-1)
    if head == "gaussian":
        return outputs.chunk(2, dim=-1)[0]
    if head == "tokens":
        return outputs.argmax(-1, keepdim=True).to(outputs.dtype)
    return outputs


def initialise(model: nn.Module, *, spread: Spread, generator: torch.Generator) -> None:
    """Draw all weights anew: biases 0, norms 1, matrices and positions normal.

    small: deviation 0.02 (GPT-2). fan-in: 0.7 / sqrt(inputs of the map), with positions and other
    vectors at 0.02: a looped block then moves from the first step on.
    """
    expect_generator(generator)
    with torch.no_grad():
        for module in model.modules():
            for name, parameter in module.named_parameters(recurse=False):
                if isinstance(module, nn.LayerNorm | nn.RMSNorm):
                    parameter.fill_(1.0 if name == "weight" else 0.0)
                elif name.startswith("bias"):
                    parameter.zero_()
                else:
                    matrix = parameter.ndim == 2 and isinstance(module, nn.Linear | nn.LSTM)
                    wide = matrix and spread == "fan-in"
                    deviation = 0.7 * parameter.shape[1] ** -0.5 if wide else 0.02
                    parameter.normal_(0.0, deviation, generator=generator)
