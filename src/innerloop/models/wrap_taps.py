"""Where hooks reach inside a module that the library did not write, by the names of its parts."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from torch import Tensor, nn

from innerloop.core.components import Place, Tap, first_tensor, with_first_tensor
from innerloop.core.errors import ConfigurationError, NotSupportedError
from innerloop.models.foreign import find_part


@dataclass(frozen=True, slots=True, kw_only=True)
class InnerNames:
    """What the parts of every layer are called, where hooks are to reach them."""

    mlp: str | None = None
    """The module whose output the layer adds to the residual stream."""
    attention: str | None = None
    """The module whose (first) output is that of all heads together."""
    heads: tuple[str, int] | None = None
    """The output map of the attention, before which heads lie side by side, and their number."""


def wrapped_taps(layers: Sequence[nn.Module], steps: int, names: InnerNames) -> list[Tap]:
    """All places of a run: what enters the first layer, and all that is known of every step.

    Layers that run again and again are met in the same order every time.
    """
    order = [layers[k % len(layers)] for k in range(steps)]
    taps: list[Tap] = []
    for k, layer in enumerate(order):
        # The module's own number among its calls, and how many these are.
        turn = sum(one is layer for one in order[:k]), sum(one is layer for one in order)
        if k == 0:
            taps.append(
                Tap(place=Place("residual", -1, -1), module=layer, side="input", turn=turn)
            )  # fmt: skip
        taps += _attention_taps(layer, k, turn, names)
        if names.mlp is not None:
            mlp = _inside(layer, names.mlp)
            taps.append(Tap(place=Place("mlp", k), module=mlp, turn=turn))
        taps.append(Tap(place=Place("residual", k), module=layer, turn=turn))
    return taps


def _attention_taps(
    layer: nn.Module, k: int, turn: tuple[int, int], names: InnerNames
) -> list[Tap]:
    taps: list[Tap] = []
    if names.attention is not None:
        module = _inside(layer, names.attention)
        pattern = Tap(place=Place("pattern", k), module=module, turn=turn, get=_pattern, put=None)
        taps.append(pattern)
        if names.heads is None:
            whole = Tap(
                place=Place("head", k), module=module, turn=turn,
                get=lambda output: first_tensor(output)[:, :, None],  # (B, T, 1, D)
                put=lambda output, new: with_first_tensor(output, new[:, :, 0]),
            )  # fmt: skip
            taps.append(whole)
    if names.heads is not None:
        name, number = names.heads
        place = Place("head", k, heads=number)
        taps.append(Tap.of_heads(place, _inside(layer, name), turn=turn))
    return taps


def _inside(layer: nn.Module, name: str) -> nn.Module:
    """The part of a layer that a dotted name stands for."""
    part = find_part(layer, name)
    if not isinstance(part, nn.Module):
        raise ConfigurationError(f"{name!r} is no module of a {type(layer).__name__}.")
    return part


def _pattern(output: Any) -> Tensor:
    """The attention weights (B, h, T, T) that a module returns beside its output."""
    weights = output[1] if isinstance(output, tuple) and len(output) > 1 else None
    if isinstance(weights, Tensor) and weights.ndim == 4:
        return weights
    raise NotSupportedError(
        "the attention returns no weights of its heads, (B, h, T, T), behind its output: ask it "
        "for them (need_weights=True, average_attn_weights=False; attn_implementation='eager')."
    )
