"""Known algorithms compiled into the weights of transformers."""

from typing import TYPE_CHECKING

from innerloop.core.lazy import import_at_first_use

if TYPE_CHECKING:
    from innerloop.circuits.blueprint import Blueprint, ErrorBound
    from innerloop.circuits.circuit import Circuit, CircuitSettings, TransformerCircuit
    from innerloop.circuits.table import CIRCUITS, NAMES, compile, read_settings

__all__ = [
    "CIRCUITS",
    "NAMES",
    "Blueprint",
    "Circuit",
    "CircuitSettings",
    "ErrorBound",
    "TransformerCircuit",
    "compile",
    "read_settings",
]

import_at_first_use(__name__)
