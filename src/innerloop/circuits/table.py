"""All circuits by name, and how one is compiled."""

from collections.abc import Mapping
from typing import Any

from pydantic import ValidationError

from innerloop.circuits.autoregression import Autoregression
from innerloop.circuits.causal_gradient_descent import CausalGradientDescent
from innerloop.circuits.chain import Chain
from innerloop.circuits.circuit import Circuit, CircuitSettings
from innerloop.circuits.linear_attention import LinearAttention
from innerloop.circuits.linear_looped import LinearLooped
from innerloop.circuits.newton_relu import NewtonRelu
from innerloop.circuits.newton_softmax import NewtonSoftmax
from innerloop.circuits.representation import Representation
from innerloop.circuits.sgd import Sgd
from innerloop.circuits.sherman_morrison import ShermanMorrison
from innerloop.core.errors import ConfigurationError, unknown
from innerloop.core.explain import explain

CIRCUITS: dict[str, type[CircuitSettings]] = {
    "linear-attention": LinearAttention,
    "linear-looped": LinearLooped,
    "newton-relu": NewtonRelu,
    "newton-softmax": NewtonSoftmax,
    "causal-gradient-descent": CausalGradientDescent,
    "representation": Representation,
    "autoregression": Autoregression,
    "chain": Chain,
    "sgd": Sgd,
    "sherman-morrison": ShermanMorrison,
}
"""Every circuit's settings, by its name."""

NAMES = tuple(CIRCUITS)
"""What `compile` takes."""


def compile(name: str, **settings: Any) -> Circuit:
    """A known algorithm as the weights of a transformer: `compile("newton-relu", dims=5, steps=8)`.

    Settings are those of the circuit's own configuration; an unknown one is refused by name.
    """
    return read_settings(name, settings).build()


def read_settings(name: str, values: Mapping[str, Any]) -> CircuitSettings:
    """The settings of a circuit from plain values; a mistake is one sentence."""
    if name not in CIRCUITS:
        raise ConfigurationError(unknown("circuit", name, CIRCUITS))
    kind = CIRCUITS[name]
    try:
        return kind.model_validate(dict(values))
    except ValidationError as error:
        raise ConfigurationError(explain(error, kind)) from error
