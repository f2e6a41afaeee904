"""The LSTM that reads a prompt token by token.

Shapes, beside those of a prompt: T tokens, D width.
"""

from functools import cached_property
from typing import Literal, cast

import torch
from pydantic import Field, model_validator
from torch import Tensor, nn
from torch.nn import functional

from innerloop.core.chunks import rows_within_budget
from innerloop.core.components import Components, Place, Tap
from innerloop.core.learner import Traits
from innerloop.core.prompt import Layout, Prompt
from innerloop.core.state_parts import HiddenStates
from innerloop.models.embedding import OutputPlace, PromptEmbedding
from innerloop.models.hidden import Hidden
from innerloop.models.model import Head, Model, expect_config, initialise
from innerloop.models.settings import BACKWARD, ModelSettings
from innerloop.models.taps import input_tap


class LSTMConfig(ModelSettings):
    """All that an `LSTM` is but its weights; the defaults are those of Fu et al. (2023)."""

    kind: Literal["lstm"] = Field(
        default="lstm", description="the model: transformer, lstm, linear-looped or text"
    )
    dims: int = Field(ge=1, description="dimensions of an input")
    outputs: int = Field(default=1, ge=1, description="outputs of a point")
    layout: Layout = Field(default="pairs", description="what a token is: x or y, or x alone")
    output_place: OutputPlace = Field(
        default="first", description="where y stands in a token: first, as x does; or its own"
    )
    head: Head = Field(default="regression", description="what the readout means")
    width: int = Field(default=256, ge=1, description="size of a hidden state")
    layers: int = Field(default=10, ge=1, description="layers, one on top of the other")

    @model_validator(mode="after")
    def _check_stream(self) -> "LSTMConfig":
        if self.layout == "stream" and self.outputs != self.dims:
            raise ValueError(
                f"a stream of {self.dims} dimensions has {self.outputs} outputs: "
                "its outputs are its next inputs, give as many"
            )
        return self

    @property
    def blocks(self) -> int:
        """Its layers."""
        return self.layers

    def operations(self, points: int, loops: int | None, window: int | None) -> float:
        """Two maps from D to 4 D numbers for each of two tokens, in each layer."""
        return 2 * points * (1 + BACKWARD) * self.layers * 16 * self.width**2


class LSTM(Model[Hidden, LSTMConfig]):
    """A unidirectional LSTM of several layers, on the tokens of a transformer: Fu et al. (2023).

    A step is a layer, over all tokens; the readout takes the hidden states of the layer that it
    has come to. It has no positions, and reads prompts of any length.
    """

    looped = False

    def __init__(self, config: LSTMConfig, *, generator: torch.Generator | None = None) -> None:
        """Weights are drawn from the generator; without one, from a seed of 0."""
        expect_config(config, LSTMConfig)
        super().__init__()
        self.config = config
        self.head = config.head
        self.steps = config.layers
        self.traits = Traits()  # nothing but causality is promised of learned weights
        self.embedding = PromptEmbedding(
            dims=config.dims,
            outputs=config.outputs,
            width=config.width,
            layout=config.layout,
            place=config.output_place,
        )
        self.layers = nn.ModuleList(
            nn.LSTM(config.width, config.width, batch_first=True) for _ in range(config.layers)
        )
        self.readout = nn.Linear(config.width, config.outputs)
        generator = generator or torch.Generator().manual_seed(0)
        initialise(self, spread="fan-in", generator=generator)

    @cached_property
    def name(self) -> str:
        """What it is and how deep."""
        return f"LSTM ({self.config.layers} layer{'s' if self.config.layers > 1 else ''})"

    def init(self, prompt: Prompt) -> Hidden:
        """Embed."""
        return self.embedding(prompt)

    def step(self, prompt: Prompt, state: Hidden, k: int) -> Hidden:
        """The hidden states of layer k; nothing is left to do beyond the last."""
        if k >= len(self.layers):
            return state
        layer = cast(nn.LSTM, self.layers[k])
        tokens, _ = layer(state.tokens)  # (B, T, D)
        if state.asked is None:
            return Hidden(tokens)
        return Hidden(tokens, self._asked(layer, state.tokens, tokens, state.asked))

    def outputs(self, prompt: Prompt, state: Hidden) -> Tensor:
        """The readout of the hidden states of the current layer."""
        return self.readout(self._readout_inputs(prompt, state))  # (B, n[, q], k)

    @property
    def hidden_states(self) -> HiddenStates[Hidden]:
        """The hidden states of the tokens in the current layer."""
        return HiddenStates(
            features=lambda prompt, state: state.tokens,
            # Every other token in pairs, every token in a stream.
            input_tokens=lambda prompt: self.embedding.input_tokens(prompt.points),
            readout_inputs=self._readout_inputs,
        )

    @property
    def components(self) -> Components:
        """The hidden states behind every layer."""

        def taps(k: int, steps: int) -> list[Tap]:
            if k == -1:
                return [input_tap(self.embedding)]
            layers = list(self.layers)[k : k + 1] if k < steps else []
            return [Tap(place=Place("residual", k), module=layer) for layer in layers]

        return Components(taps=taps)

    def _readout_inputs(self, prompt: Prompt, state: Hidden) -> Tensor:
        """The hidden states of the x tokens or the queries in the current layer."""
        if state.asked is not None:
            return state.asked  # (B, n, q, D)
        return self.embedding.inputs(state.tokens)  # (B, n, D)

    def matrices(self) -> list[nn.Parameter]:
        """The four gates' maps from the layer below, and from the token before."""
        return [parameter for parameter in self.layers.parameters() if parameter.ndim == 2]

    def _asked(self, layer: nn.LSTM, below: Tensor, tokens: Tensor, asked: Tensor) -> Tensor:
        """The layer's hidden states (B, n, q, D) of queries (B, n, q, D) of the layer below.

        Each query takes one step from the layer's state before x_i. Given the tokens' inputs
        (B, T, D) and hidden states (B, T, D), that is a product and a scan, without a second
        pass; and it is computed once for all queries of a point.
        """
        inward, onward, inward_bias, onward_bias = layer.all_weights[0]  # (4D, D), .., (4D,), ..
        nothing = torch.zeros_like(tokens[:, :1])  # (B, 1, D)
        earlier = torch.cat([nothing, tokens[:, :-1]], dim=1)  # (B, T, D)
        remembered = functional.linear(earlier, onward, onward_bias)  # (B, T, 4D)
        gates = remembered + functional.linear(below, inward, inward_bias)  # (B, T, 4D)
        cells = self.embedding.inputs(_cells_before(gates))[:, :, None]  # (B, n, 1, D)
        remembered = self.embedding.inputs(remembered)[:, :, None]  # (B, n, 1, 4D)
        batch, _, number, width = asked.shape
        rows = rows_within_budget(16 * batch * number * width * asked.itemsize)
        parts: list[Tensor] = []
        for some, cell, memory in zip(
            asked.split(rows, dim=1), cells.split(rows, 1), remembered.split(rows, 1), strict=True
        ):
            inner = memory + functional.linear(some, inward, inward_bias)  # (B, p, q, 4D)
            admit, keep, new, show = _gates(inner)  # (B, p, q, D) each
            parts.append(show * torch.tanh(keep * cell + admit * new))
        return torch.cat(parts, dim=1)


def _gates(inner: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """What to admit, what to keep, what is new and what to show, (.., D) each, of (.., 4D)."""
    admit, keep, new, show = inner.chunk(4, dim=-1)
    return torch.sigmoid(admit), torch.sigmoid(keep), torch.tanh(new), torch.sigmoid(show)


def _cells_before(inner: Tensor) -> Tensor:
    """The cells before each token (B, T, D), of the gates (B, T, 4D): c <- keep c + admit new."""
    admit, keep, new, _ = _gates(inner)
    cell = torch.zeros_like(admit[:, 0])  # (B, D)
    cells = [cell]
    for admitted, kept in zip((admit * new)[:, :-1].unbind(1), keep[:, :-1].unbind(1), strict=True):
        cell = torch.addcmul(admitted, kept, cell)  # (B, D)
        cells.append(cell)
    return torch.stack(cells, dim=1)
