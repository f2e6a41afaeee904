"""Modules that the library did not write: their parts by name, run in peace, watched by hooks."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn

from innerloop.core.errors import ConfigurationError, InnerloopError, unknown

Part = str | Callable[..., Any]
"""A module, a function, or the dotted name of a module inside another."""


def find_part(root: Callable[..., Any], part: Part) -> Callable[..., Any]:
    """The part itself: names are looked up inside the root, all else is what it is."""
    if not isinstance(part, str):
        if callable(part) and not isinstance(part, type):
            return part
        raise ConfigurationError(
            f"{part!r} is no part of a model: give a module, or the dotted name of one."
        )
    if not isinstance(root, nn.Module):
        raise ConfigurationError(
            f"{part!r} is the name of a module, and a plain function has none inside: give the "
            "module itself."
        )
    names = dict(root.named_modules())
    if part not in names or not part:
        raise ConfigurationError(unknown(f"module of {type(root).__name__}", part, names))
    return names[part]


def find_layers(
    root: Callable[..., Any], layers: str | nn.Module | Sequence[str | nn.Module]
) -> tuple[nn.Module, ...]:
    """The layers that a name, a module or a list of these stand for, in order."""
    several = [layers] if isinstance(layers, str | nn.Module) else list(layers)
    modules: list[nn.Module] = []
    for each in several:
        part = find_part(root, each)
        if not isinstance(part, nn.Module):
            raise ConfigurationError(
                f"layers hold a {type(part).__name__}: give modules, or names of modules, whose "
                "outputs are the hidden states."
            )
        inner = list(part) if isinstance(part, nn.ModuleList | nn.Sequential) else [part]
        modules.extend(inner)
    if not modules:
        raise ConfigurationError("layers is empty: name one at least, or leave layers out.")
    return tuple(modules)


@contextmanager
def evaluating(modules: Sequence[nn.Module]) -> Iterator[None]:
    """Switch dropout and the like off inside the `with`; every flag is put back behind it."""
    before = [(each, each.training) for module in modules for each in module.modules()]
    for module in modules:
        module.eval()
    try:
        yield
    finally:
        for each, training in before:
            each.training = training


@contextmanager
def recording(layers: Sequence[nn.Module]) -> Iterator[list[Tensor]]:
    """Yield a list that fills with hidden states while a model runs inside the `with`.

    First what enters the layer that runs first, then what leaves each layer, in the order in which
    they run: a layer that runs in a loop is there once per loop.
    """
    seen: list[Tensor] = []

    def enter(_: nn.Module, given: tuple[Any, ...], named: dict[str, Any]) -> None:
        if not seen:
            seen.append(first_tensor((*given, *named.values()), "a layer is given"))

    def leave(_: nn.Module, given: tuple[Any, ...], output: Any) -> None:
        seen.append(first_tensor(output, "a layer returns"))

    different = list(dict.fromkeys(layers))
    handles = [layer.register_forward_pre_hook(enter, with_kwargs=True) for layer in different]
    handles += [layer.register_forward_hook(leave) for layer in different]
    try:
        yield seen
    finally:
        for handle in handles:
            handle.remove()


def first_tensor(output: Any, what: str) -> Tensor:
    """The tensor that was returned, or the first of several, as modules with caches return them."""
    if isinstance(output, Mapping):
        output = tuple(output.values())
    if isinstance(output, tuple | list):
        output = next((each for each in output if isinstance(each, Tensor)), None)
    if not isinstance(output, Tensor):
        raise InnerloopError(f"{what} {type(output).__name__}, expected a tensor, or a tuple of.")
    return output


def width_of(modules: Sequence[nn.Module]) -> int:
    """About how wide the hidden states are: the shorter side of the largest matrix."""
    sides = [min(p.shape) for module in modules for p in module.parameters() if p.ndim == 2]
    return max(sides, default=16)


def type_of(modules: Sequence[nn.Module]) -> tuple[torch.dtype | None, torch.device | None]:
    """The type and the device of the first real parameter or buffer; None of each without any."""
    for module in modules:
        for each in (*module.parameters(), *module.buffers()):
            if each.is_floating_point():
                return each.dtype, each.device
    return None, None
