"""Places inside a model whose values can be read and replaced while it runs, by torch's hooks.

A model lists its places as `Tap`s: a module, and which of its tensors is meant. One block that
is looped is another place at every loop, so taps are asked for by step. A module that somebody
else wrote needs no more than the names of its layers: the default tap is a layer's output.

Shapes, beside those of a prompt: T tokens, D width, h heads, s head size.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import count
from typing import Any, Literal

from torch import Tensor, nn

Kind = Literal["head", "mlp", "residual", "pattern"]
"""What a place holds.

head: what each head has taken from the tokens, before the output map, (B, T, h, s);
mlp: what the MLP adds to the residual stream, (B, T, D);
residual: the residual stream behind a block, (B, T, D);
pattern: how much each token looks at each, (B, h, T, T): to be read, not replaced."""


@dataclass(frozen=True, slots=True)
class Place:
    """Where a value stands: what it is, at which step, in which block of that step."""

    kind: Kind
    step: int
    """The step that computes it, from 0; -1 before the first step, K in the reading after K."""
    layer: int = 0
    """The block within the step, from 0; -1 for the embedded prompt."""
    heads: int = 1
    """How many heads there are, where it is about heads."""


Edit = Callable[[Place, Tensor], Tensor | None]
"""Given the value of each place as the model comes to it; what it returns replaces the value."""


def first_tensor(value: Any) -> Tensor:
    """The tensor, or the first of several: transformer blocks often return a tuple."""
    return value[0] if isinstance(value, tuple) else value


def with_first_tensor(value: Any, new: Tensor) -> Any:
    """The same with another first tensor."""
    return (new, *value[1:]) if isinstance(value, tuple) else new


@dataclass(frozen=True, slots=True, kw_only=True)
class Tap:
    """A place, and the module that a hook reaches it by."""

    place: Place
    module: nn.Module
    side: Literal["input", "output"] = "output"
    """Whether the value is in the module's output or in its first argument."""
    get: Callable[[Any], Tensor] = first_tensor
    """The value, of what goes in or out."""
    put: Callable[[Any, Tensor], Any] | None = with_first_tensor
    """What goes in or out with another value in it; None: it can only be read."""
    turn: tuple[int, int] = (0, 1)
    """Which call of the module is meant, from 0, and of how many: it may run in a loop inside one
    phase."""

    @classmethod
    def of_heads(
        cls, place: Place, projection: nn.Module, *, turn: tuple[int, int] = (0, 1)
    ) -> "Tap":
        """The values of heads that lie side by side, (B, T, h s), before their output map."""
        return cls(
            place=place, module=projection, side="input", turn=turn,
            get=lambda joined: joined.unflatten(-1, (place.heads, -1)),  # (B, T, h, s)
            put=lambda joined, values: values.flatten(-2),  # (B, T, h s)
        )  # fmt: skip

    @contextmanager
    def hooked(self, edit: Edit) -> Iterator[None]:
        """Pass the place's value through `edit` for as long as this is open."""
        calls = count()
        own, all_calls = self.turn

        def edited(value: Any) -> Any:
            if next(calls) % all_calls != own:
                return value
            new = edit(self.place, self.get(value))
            return value if new is None or self.put is None else self.put(value, new)

        def enter(_: nn.Module, given: tuple[Any, ...], named: dict[str, Any]) -> Any:
            if given:
                return (edited(given[0]), *given[1:]), named
            first = next(iter(named))
            return given, {**named, first: edited(named[first])}

        if self.side == "input":
            handle = self.module.register_forward_pre_hook(enter, with_kwargs=True)
        else:
            handle = self.module.register_forward_hook(lambda module, _, output: edited(output))
        try:
            yield
        finally:
            handle.remove()


@dataclass(frozen=True, slots=True, kw_only=True)
class Components:
    """All places of a model, and the norms between them and the answer."""

    taps: Callable[[int, int], Sequence[Tap]]
    """Those that are reached in phase k of a run of K steps, in order.

    Phase -1 is `init`, phase k is step k, phase K is `read`. A model that computes all layers in
    `init` lists all of them there; the places say which step each belongs to."""
    norms: Sequence[nn.Module] = ()
    """The norms that the residual stream itself goes through, not those before a component."""

    complete: bool = False
    """Whether heads and MLPs add all that the residual stream holds beside the embedded prompt and
    constants: what direct attribution rests on."""

    def places(self, kind: Kind, steps: int) -> list[Place]:
        """All places of a kind in a run of so many steps, in order."""
        phases = range(-1, steps + 1)
        places = [tap.place for k in phases for tap in self.taps(k, steps)]
        return [place for place in places if place.kind == kind]
