"""The models by kind, and how one is made from its configuration."""

from collections.abc import Mapping
from typing import Annotated, Any, get_args

import torch
from pydantic import Field, ValidationError

from innerloop.core.errors import ConfigurationError, unknown
from innerloop.core.explain import explain
from innerloop.models.linear_looped import LinearLoopedConfig, LinearLoopedTransformer
from innerloop.models.lstm import LSTM, LSTMConfig
from innerloop.models.model import AnyModel
from innerloop.models.tabular import TabularConfig, TabularTransformer
from innerloop.models.text import TextConfig, TextModel
from innerloop.models.transformer import InContextTransformer, TransformerConfig

AnyModelConfig = TransformerConfig | LSTMConfig | LinearLoopedConfig | TabularConfig | TextConfig
ModelConfig = Annotated[AnyModelConfig, Field(discriminator="kind")]
"""The configuration of any model, by its kind: for a field of another configuration."""

MODEL_CONFIGS: dict[str, type[AnyModelConfig]] = {
    kind.model_fields["kind"].default: kind for kind in get_args(AnyModelConfig)
}
"""The configurations of models, by kind."""
MODELS: dict[str, type[Any]] = {
    "transformer": InContextTransformer,
    "lstm": LSTM,
    "linear-looped": LinearLoopedTransformer,
    "tabular": TabularTransformer,
    "text": TextModel,
}
"""Every model, by the kind of its configuration."""


def build(config: AnyModelConfig, *, generator: torch.Generator | None = None) -> AnyModel:
    """A model with weights drawn from the generator; without one, from a seed of 0."""
    return MODELS[config.kind](config, generator=generator)


def read_config(values: Mapping[str, Any]) -> AnyModelConfig:
    """The configuration that plain values describe, by their kind; a mistake is one sentence."""
    kind = str(values.get("kind"))
    if kind not in MODELS:
        raise ConfigurationError(unknown("kind of model", kind, MODELS))
    try:
        return MODEL_CONFIGS[kind].model_validate(dict(values))
    except ValidationError as error:
        raise ConfigurationError(explain(error, MODEL_CONFIGS[kind])) from error
