"""The in-context transformer: prompt embedding, backbone, readout."""

from functools import cached_property
from typing import Annotated, Literal

import torch
from pydantic import Field, FiniteFloat, model_validator
from torch import Tensor, nn

from innerloop.core.components import Components, Tap
from innerloop.core.errors import NotSupportedError, PromptError
from innerloop.core.learner import Traits
from innerloop.core.prompt import Layout, Prompt
from innerloop.core.state_parts import HiddenStates, MovingPart
from innerloop.models.backbone import (
    Backbone,
    BackboneState,
    Loop,
    Stack,
    moving_part,
    with_moving_part,
)
from innerloop.models.embedding import OutputPlace, PromptEmbedding
from innerloop.models.hidden import Hidden
from innerloop.models.model import Head, Model, expect_config, initialise
from innerloop.models.settings import ModelSettings
from innerloop.models.taps import input_tap, transformer_taps


class TransformerConfig(ModelSettings):
    """All that an `InContextTransformer` is but its weights."""

    kind: Literal["transformer"] = Field(
        default="transformer", description="the model: transformer, lstm, linear-looped or text"
    )
    label: str = Field(default="", description="what tables call it; empty: what it is made of")
    dims: int = Field(ge=1, description="dimensions of an input")
    outputs: int = Field(default=1, ge=1, description="outputs of a point")
    points: int = Field(ge=1, description="the most points of a prompt")
    layout: Layout = Field(default="pairs", description="what a token is: x or y, or x alone")
    output_place: OutputPlace = Field(
        default="first", description="where y stands in a token: first, as x does; or its own"
    )
    start_token: bool = Field(default=False, description="a learned token before all others")
    head: Head = Field(default="regression", description="what the readout means")
    positions: bool = Field(default=True, description="learned positions")
    largest_input: FiniteFloat | None = Field(
        default=None, gt=0, description="the largest |x| that the weights are made for; None: any"
    )
    largest_output: FiniteFloat | None = Field(
        default=None, gt=0, description="the largest |y| that the weights are made for; None: any"
    )
    backbone: Annotated[Stack | Loop, Field(discriminator="kind")] = Field(
        description="a stack or a loop of blocks"
    )

    @model_validator(mode="after")
    def _check_layout(self) -> "TransformerConfig":
        if self.layout == "tokens":
            raise ValueError("this model reads numbers, not tokens: take the kind 'text'")
        if self.layout == "stream" and self.outputs != self.dims:
            raise ValueError(
                f"a stream of {self.dims} dimensions has {self.outputs} outputs: "
                "its outputs are its next inputs, give as many"
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
        """With full attention."""
        return self.backbone.mask == "full"

    def operations(self, points: int, loops: int | None, window: int | None) -> float:
        """Those of the backbone, which outweigh the rest."""
        tokens = points * (2 if self.layout == "pairs" else 1)
        return self.backbone.operations(tokens, loops or 1, window or 1)


class InContextTransformer(Model[BackboneState, TransformerConfig]):
    """A transformer that reads a prompt: standard, looped, weight-tied or AlgoFormer.

    With a `Stack` of GPT-2 blocks it is the model of Garg et al. (2022); with a `Loop` that of Yang
    et al. (2024); with a `Loop` between a pre- and a post-transformer that of Gao et al. (2025). A
    step is a block or a loop. Positions enter with the input, so again at every loop; the authors'
    code does the same.
    """

    def __init__(
        self, config: TransformerConfig, *, generator: torch.Generator | None = None
    ) -> None:
        """Weights are drawn from the generator; without one, from a seed of 0."""
        expect_config(config, TransformerConfig)
        super().__init__()
        self.config = config
        self.head = config.head
        self.steps, self.looped = config.backbone.steps, config.backbone.looped
        self.points = config.points if config.positions else None
        full = config.backbone.mask == "full"
        # Without positions full attention sees a set. Nothing else is promised of learned weights.
        self.traits = Traits(causal=not full, order_invariant=full and not config.positions)
        self.answers_at_end = not full
        width = config.backbone.width
        self.embedding = PromptEmbedding(
            dims=config.dims,
            outputs=config.outputs,
            width=width,
            layout=config.layout,
            place=config.output_place,
            start_token=config.start_token,
        )
        places = self.embedding.tokens(config.points) if config.positions else 0
        self.backbone = Backbone(config.backbone, positions=places)
        self.readout = nn.Linear(width, config.outputs)
        generator = generator or torch.Generator().manual_seed(0)
        initialise(self, spread="fan-in", generator=generator)

    @cached_property
    def name(self) -> str:
        """Its label, or what it is and how large."""
        return self.config.label or self.config.backbone.title

    def init(self, prompt: Prompt) -> BackboneState:
        """Embed, add positions, apply the pre-transformer."""
        return self.backbone.begin(self.embed(prompt), self.embedding.visible(prompt))

    def embed(self, prompt: Prompt) -> Hidden:
        """The embedded prompt, once it is known to be within the bounds of the model."""
        for what, values, largest in (
            ("|x|", prompt.xs, self.config.largest_input),
            ("|x| of a query", prompt.queries, self.config.largest_input),
            # The last y is never read.
            ("|y|", prompt.ys[:, :-1], self.config.largest_output),
        ):
            _require_within(what, values, largest)
        return self.embedding(prompt)

    def step(self, prompt: Prompt, state: BackboneState, k: int) -> BackboneState:
        """Block k of a stack, or one more loop."""
        return self.backbone.step(state, k, self.embedding.visible(prompt))

    def outputs(self, prompt: Prompt, state: BackboneState) -> Tensor:
        """The readout of what the post-transformer and the final norm make of the state."""
        return self.readout(self._readout_inputs(prompt, state))  # (B, n[, q], k)

    @property
    def hidden_states(self) -> HiddenStates[BackboneState]:
        """The residual stream of the tokens, before any final norm."""
        return HiddenStates(
            features=lambda prompt, state: state.now.tokens,
            # Every other token in pairs, every token in a stream.
            input_tokens=lambda prompt: self.embedding.input_tokens(prompt.points),
            readout_inputs=self._readout_inputs,
        )

    def _readout_inputs(self, prompt: Prompt, state: BackboneState) -> Tensor:
        """What the post-transformer and the final norm make of the x tokens or the queries."""
        hidden = self.backbone.end(state, self.embedding.visible(prompt))
        if hidden.asked is not None:
            return hidden.asked  # (B, n, q, D)
        return self.embedding.inputs(hidden.tokens)  # (B, n, D)

    @property
    def components(self) -> Components:
        """Heads, MLP and residual stream of every block, at every loop."""
        backbone = self.backbone

        def taps(k: int, steps: int) -> list[Tap]:
            before = [input_tap(self.embedding)] if k == -1 else []
            return before + transformer_taps(backbone, k, steps)

        norms = (backbone.loop_norm, backbone.final_norm)
        return Components(taps=taps, norms=norms, complete=True)

    @property
    def moving(self) -> MovingPart[BackboneState]:
        """The residual stream, of a loop."""
        if not self.looped:
            raise NotSupportedError(f"{self.name} has no moving part: each layer is another step.")
        return MovingPart(self.name, moving_part, with_moving_part)

    def bytes_per_prompt(self, prompt: Prompt) -> int:
        """Hidden units and scores of one layer, a few times over."""
        shape = self.config.backbone
        tokens = self.embedding.tokens(prompt.points)
        numbers = tokens * (8 * shape.width + 2 * shape.hidden_units + 3 * shape.heads * tokens)
        return numbers * self.dtype.itemsize

    def matrices(self) -> list[nn.Parameter]:
        """The linear maps of all blocks."""
        parameters = [one for block in self.compiled_parts() for one in block.parameters()]
        return [parameter for parameter in parameters if parameter.ndim == 2]

    def compiled_parts(self) -> list[nn.Module]:
        """The blocks."""
        return [*self.backbone.pre, *self.backbone.blocks, *self.backbone.post]


def _require_within(what: str, values: Tensor | None, largest: float | None) -> None:
    """Refuse a prompt beyond the bound that the free parameters of a circuit were chosen for."""
    if largest is None or values is None or not values.numel():
        return
    norm = float(values.detach().norm(dim=-1).max())
    if not norm <= largest:
        raise PromptError(
            f"the prompt has {what} = {norm:.4g}, the model was made for at most {largest:.4g}: "
            "scale the prompt, or make a model for larger numbers."
        )
