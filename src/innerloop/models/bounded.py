"""How large a model would be, known before a number of it is in memory.

A configuration may declare any size, by mistake or by malice. The model is made without numbers, on
torch's device `meta`, and given up as soon as it has more tensors than it may have.
"""

from typing import Any

import torch
from torch import Tensor
from torch.nn.modules.module import register_module_parameter_registration_hook
from torch.overrides import TorchFunctionMode

from innerloop.core.errors import ConfigurationError
from innerloop.models.table import AnyModelConfig, build

MOST_TENSORS = 10_000
"""More than any model here has: a stack of 800 blocks, with 12 per block."""


class TooManyTensorsError(ConfigurationError):
    """A configuration whose model would consist of more tensors than it may."""


def outline(config: AnyModelConfig, *, most: int = MOST_TENSORS) -> dict[str, Tensor]:
    """The tensors of a model by name, without their numbers; refused if it has more than `most`."""
    registered = 0

    def count(module: Any, name: str, parameter: Any) -> None:
        nonlocal registered
        registered += 1
        if registered > most:
            raise TooManyTensorsError(
                f"a model of this configuration has more than {most:,} tensors: give it fewer "
                "layers."
            )

    handle = register_module_parameter_registration_hook(count)
    try:
        with torch.device("meta"), _Undrawn():
            return build(config).state_dict()
    finally:
        handle.remove()


class _Undrawn(TorchFunctionMode):
    """Skips what would fill tensors: on `meta` that does nothing, and torch imports much for it."""

    def __torch_function__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Any = None
    ) -> Any:
        name = getattr(func, "__name__", "")
        if args and name.endswith("_") and not name.endswith("__"):
            return args[0]
        return func(*args, **(kwargs or {}))


def bytes_of(config: AnyModelConfig) -> int:
    """The memory that the weights of a model take in float32."""
    return sum(4 * tensor.numel() for tensor in outline(config).values())
