"""A circuit as it is designed: tokens, layers and answer in terms of slots, and its promise."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Literal

import torch
from torch import Tensor

from innerloop.circuits.parts import Layer
from innerloop.circuits.residual import Affine, Residual, Slot
from innerloop.core.prompt import Layout
from innerloop.core.tolerances import EXACT_CIRCUIT


@dataclass(frozen=True, slots=True)
class ErrorBound:
    """How far a circuit may be from its algorithm, divided by max(1, the algorithm's answer)."""

    truncation: float
    """What the construction leaves out, at its free parameters."""
    rounding: float
    """What the float type adds."""

    @property
    def total(self) -> float:
        """Both together."""
        return self.truncation + self.rounding


def exact(step: int) -> ErrorBound:
    """The bound of constructions that leave nothing out."""
    return ErrorBound(0.0, EXACT_CIRCUIT)


@dataclass(frozen=True, eq=False, kw_only=True)
class Tokens:
    """What stands in the tokens before the first layer."""

    inputs: Mapping[Slot, Tensor]
    """(size, d) for each slot: a matrix times x, at x tokens."""
    outputs: Mapping[Slot, Tensor] = field(default_factory=dict)
    """(size, k) for each slot: a matrix times y, at y tokens; empty in a stream."""
    constants: Mapping[Slot, Tensor] = field(default_factory=dict)
    """(size,) on every token, the start token included."""
    positions: Mapping[Slot, Tensor] = field(default_factory=dict)
    """(T, size) by the place of a token; the start token, where there is one, has place 0."""
    start: bool = False
    """Whether a start token stands before x_0."""

    @classmethod
    def of_pairs(
        cls, x: Slot, y: Slot, *, positions: Mapping[Slot, Tensor], start: bool = False
    ) -> "Tokens":
        """Tokens that hold x as it is, or one number y."""
        return cls(
            inputs={x: torch.eye(x.size, dtype=torch.float64)},
            outputs={y: torch.ones(1, 1, dtype=torch.float64)}, positions=positions, start=start,
        )  # fmt: skip


@dataclass(frozen=True, eq=False, kw_only=True)
class Blueprint:
    """A circuit before it becomes weights."""

    name: str
    source: str
    """The theorem: paper and number."""
    algorithm: str
    """What a step computes, in one line."""
    form: str = "exact"
    """Which form of the construction: exact, tight, printed."""
    dims: int
    outputs: int = 1
    points: int
    layout: Layout = "pairs"
    residual: Residual
    tokens: Tokens
    pre: tuple[Layer, ...] = ()
    body: tuple[Layer, ...]
    """The layers of the steps: those of one step where they are looped, those of all where not."""
    post: tuple[Layer, ...] = ()
    steps: int
    looped: bool = True
    """Whether the body is run again at every step, with the same weights."""
    answer: Affine
    """What is read at an x token: (k,)."""
    attention: Literal["softmax", "relu", "linear"] = "softmax"
    mask: Literal["causal", "full"] = "causal"
    norm: Literal["none", "pre", "mlp-only"] = "none"
    norm_slot: Slot | None = None
    """The slot of the number that passes all others through LayerNorm; none without a norm."""
    norm_scale: float = 0.0
    """What stands in the norm's slot."""
    activation: Literal["relu", "gelu"] = "relu"
    divisor: float | None = 1.0
    """Of ReLU and linear attention."""
    largest_input: float | None = None
    """The bound on |x| that the free parameters were chosen for; prompts beyond it are refused."""
    largest_output: float | None = None
    """The same of |y|."""
    condition: str = ""
    """What the bound needs beside declared bounds, and no model can check; empty: nothing."""
    bound: Callable[[int], ErrorBound] = exact
    """How far it may be from its algorithm after so many steps."""

    def all_layers(self) -> Iterator[tuple[str, Layer]]:
        """Yield the layers of pre, body and post, in order, each behind the name of its part."""
        for part, layers in (("pre", self.pre), ("body", self.body), ("post", self.post)):
            yield from ((f"{number} of {part}", layer) for number, layer in enumerate(layers))

    @property
    def layers(self) -> int:
        """Blocks that a prompt goes through, with all steps."""
        body = len(self.body) * self.steps if self.looped else len(self.body)
        return len(self.pre) + body + len(self.post)

    @property
    def heads(self) -> int:
        """The most heads of a block."""
        return max(len(layer.heads) for _, layer in self.all_layers())
