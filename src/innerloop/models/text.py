"""A transformer over texts: embedded tokens, backbone, and a readout of classes or next tokens.

Shapes, beside those of a prompt: T = n tokens, D width, C classes.
"""

from functools import cached_property
from typing import Annotated, Literal

import torch
from pydantic import Field, model_validator
from torch import Tensor, nn
from torch.nn import functional

from innerloop.core.errors import NotSupportedError, PromptError
from innerloop.core.learner import Traits
from innerloop.core.prompt import Prompt
from innerloop.core.state_parts import HiddenStates, MovingPart
from innerloop.models.backbone import (
    Backbone,
    BackboneState,
    Loop,
    Stack,
    moving_part,
    with_moving_part,
)
from innerloop.models.hidden import Hidden, Visible
from innerloop.models.model import Model, initialise
from innerloop.models.settings import BACKWARD, ModelSettings

PADDING = 0
"""The number of the token that fills a text up at its end."""


class TextConfig(ModelSettings):
    """All that a `TextModel` is but its weights."""

    kind: Literal["text"] = Field(
        default="text", description="the model: transformer, lstm, linear-looped or text"
    )
    label: str = Field(default="", description="what tables call it; empty: what it is made of")
    vocabulary: int = Field(ge=2, description="how many tokens there are")
    classes: int = Field(ge=2, description="values of an answer: classes, or tokens")
    points: int = Field(ge=1, description="the most tokens of a text")
    head: Literal["tokens"] = Field(default="tokens", description="what the readout means")
    pool: Literal["mean"] | None = Field(
        default="mean", description="mean: one answer per text; None: one per token"
    )
    tied: bool = Field(
        default=False, description="whether the readout is the embedding; answers are tokens then"
    )
    backbone: Annotated[Stack | Loop, Field(discriminator="kind")] = Field(
        description="a stack or a loop of blocks"
    )

    @model_validator(mode="after")
    def _check_parts(self) -> "TextConfig":
        if self.pool == "mean" and self.backbone.mask != "full":
            raise ValueError(
                "pool is 'mean' with a causal mask, whose first tokens know nothing of the text: "
                "set backbone.mask=full, or pool=null"
            )
        if self.tied and (self.pool is not None or self.classes != self.vocabulary):
            raise ValueError(
                f"tied embeddings answer with tokens, one per token, but there are {self.classes} "
                f"classes for {self.vocabulary} tokens and pool is {self.pool!r}: set tied=false, "
                "or pool=null and as many classes as tokens"
            )
        return self

    @property
    def blocks(self) -> int:
        """Those of the backbone."""
        return self.backbone.blocks

    @property
    def trained_loops(self) -> int | None:
        """Those of the backbone."""
        return self.backbone.trained_loops

    @property
    def reinjects(self) -> bool:
        """Whether the backbone does."""
        return self.backbone.reinjects

    @property
    def sees_answers(self) -> bool:
        """With full attention, where a token's answer is the next token."""
        return self.backbone.mask == "full"

    def operations(self, points: int, loops: int | None, window: int | None) -> float:
        """Those of the backbone and of the readout, which a vocabulary may make the larger one."""
        questions = 1 if self.pool == "mean" else points
        readout = 2 * questions * self.classes * self.backbone.width * (1 + BACKWARD)
        return self.backbone.operations(points, loops or 1, window or 1) + readout * (window or 1)


class TextModel(Model[BackboneState, TextConfig]):
    """A transformer that reads a text: standard, looped, or AlgoFormer, by its backbone.

    A step is a block or a loop. With full attention and mean pooling it says which class a text is
    of; with a causal mask which token is the next. Padding stands at the end of a text and is
    never seen.
    """

    def __init__(self, config: TextConfig, *, generator: torch.Generator | None = None) -> None:
        """Weights are drawn from the generator; without one, from a seed of 0."""
        super().__init__()
        self.config = config
        self.head = config.head
        self.steps, self.looped = config.backbone.steps, config.backbone.looped
        self.points = config.points
        causal = config.backbone.mask == "causal"
        self.traits = Traits(causal=causal)
        self.answers_at_end = causal
        width = config.backbone.width
        self.embedding = nn.Embedding(config.vocabulary, width)
        self.backbone = Backbone(config.backbone, positions=config.points)
        self.readout = None if config.tied else nn.Linear(width, config.classes)
        generator = generator or torch.Generator().manual_seed(0)
        initialise(self, spread="fan-in", generator=generator)

    @cached_property
    def name(self) -> str:
        """Its label, or what it is and how large."""
        return self.config.label or self.config.backbone.title

    def init(self, prompt: Prompt) -> BackboneState:
        """Embed, add positions, apply the pre-transformer."""
        tokens = self.embedding(self._numbers(prompt, prompt.xs))  # (B, T, D)
        asked = None
        if prompt.queries is not None:
            asked = self.embedding(self._numbers(prompt, prompt.queries))  # (B, n or 1, q, D)
        return self.backbone.begin(Hidden(tokens, asked), self.visible(prompt))

    def step(self, prompt: Prompt, state: BackboneState, k: int) -> BackboneState:
        """Block k of a stack, or one more loop."""
        return self.backbone.step(state, k, self.visible(prompt))

    def outputs(self, prompt: Prompt, state: BackboneState) -> Tensor:
        """Logits of the classes (B, n[, q], C): of a text, the same at each of its tokens."""
        return self.logits(self._readout_inputs(prompt, state))

    def scored_outputs(self, prompt: Prompt, state: BackboneState) -> Tensor:
        """Logits (questions, C), without those of positions that do not count."""
        return self.logits(self._readout_inputs(prompt, state)[prompt.scored])

    def visible(self, prompt: Prompt) -> Visible:
        """What the queries see, and the padding, which nothing sees."""
        before = prompt.points - prompt.asked.shape[1]
        padding = prompt.xs[..., 0] == PADDING  # (B, T)
        hides = self.config.backbone.mask == "full" and bool(padding.any())
        return Visible(first=before, padding=padding if hides else None)

    @property
    def hidden_states(self) -> HiddenStates[BackboneState]:
        """The residual stream of the tokens, before any final norm."""
        return HiddenStates(
            features=lambda prompt, state: state.now.tokens,
            input_tokens=lambda prompt: range(prompt.points),
            readout_inputs=self._readout_inputs,
        )

    @property
    def moving(self) -> MovingPart[BackboneState]:
        """The residual stream, of a loop."""
        if not self.looped:
            raise NotSupportedError(f"{self.name} has no moving part: each layer is another step.")
        return MovingPart(self.name, moving_part, with_moving_part)

    def bytes_per_prompt(self, prompt: Prompt) -> int:
        """Hidden units and scores of one layer, a few times over, and the logits."""
        shape, tokens = self.config.backbone, prompt.points
        inner = 8 * shape.width + 2 * shape.hidden_units + 3 * shape.heads * tokens
        return tokens * (inner + 2 * self.config.classes) * self.dtype.itemsize

    def matrices(self) -> list[nn.Parameter]:
        """The linear maps of all blocks."""
        parameters = [one for block in self.compiled_parts() for one in block.parameters()]
        return [parameter for parameter in parameters if parameter.ndim == 2]

    def compiled_parts(self) -> list[nn.Module]:
        """The blocks."""
        return [*self.backbone.pre, *self.backbone.blocks, *self.backbone.post]

    def _readout_inputs(self, prompt: Prompt, state: BackboneState) -> Tensor:
        """What the readout reads: (B, n[, q], D); with pooling, the mean of a text's tokens."""
        visible = self.visible(prompt)
        hidden = self.backbone.end(state, visible)
        if hidden.asked is not None:
            return hidden.asked  # (B, n, q, D)
        if self.config.pool is None:
            return hidden.tokens  # (B, T, D)
        if visible.padding is None:
            mean = hidden.tokens.mean(dim=1, keepdim=True)  # (B, 1, D)
        else:
            share = (~visible.padding).to(hidden.tokens)  # (B, T)
            # A text that is padding alone has nothing to say: zeros.
            share = share / share.sum(dim=1, keepdim=True).clamp(min=1)  # (B, T)
            mean = share[:, None] @ hidden.tokens  # (B, 1, D)
        return mean.expand_as(hidden.tokens)

    def logits(self, inputs: Tensor) -> Tensor:
        """What the readout says of hidden states (.., D): (.., C)."""
        if self.readout is None:
            return functional.linear(inputs, self.embedding.weight)  # (.., V)
        return self.readout(inputs)  # (.., C)

    def _numbers(self, prompt: Prompt, values: Tensor) -> Tensor:
        """The numbers (..) of the tokens (.., 1), which must be of the vocabulary."""
        if prompt.layout != "tokens" or prompt.dims != 1:
            raise PromptError(
                f"the prompt has {prompt.dims} dimensions in layout {prompt.layout!r}, a model of "
                "texts reads one token per point in layout 'tokens': give such prompts."
            )
        numbers = values[..., 0].long()  # (..)
        least, most = torch.stack(torch.aminmax(numbers)).tolist()
        if least < 0 or most >= self.config.vocabulary:
            wrong = least if least < 0 else most
            raise PromptError(
                f"the text has a token {wrong}, the model knows 0 to "
                f"{self.config.vocabulary - 1}: take the tokeniser that it was trained with."
            )
        return numbers
