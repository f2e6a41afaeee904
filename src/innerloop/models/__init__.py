"""Trainable learners: transformers of every shape, and an LSTM."""

from typing import TYPE_CHECKING

from innerloop.core.lazy import import_at_first_use

if TYPE_CHECKING:
    from innerloop.models.backbone import Backbone, Loop, Stack
    from innerloop.models.checkpoint import load, save
    from innerloop.models.imports import import_garg, import_yang
    from innerloop.models.linear_looped import LinearLoopedConfig, LinearLoopedTransformer
    from innerloop.models.lstm import LSTM, LSTMConfig
    from innerloop.models.pretrained import pretrained
    from innerloop.models.table import MODELS, ModelConfig, build
    from innerloop.models.tabular import TabularConfig, TabularTransformer
    from innerloop.models.text import TextConfig, TextModel
    from innerloop.models.transformer import InContextTransformer, TransformerConfig
    from innerloop.models.wrap import wrap
    from innerloop.models.wrapped import WrappedModule

__all__ = [
    "LSTM",
    "MODELS",
    "Backbone",
    "InContextTransformer",
    "LSTMConfig",
    "LinearLoopedConfig",
    "LinearLoopedTransformer",
    "Loop",
    "ModelConfig",
    "Stack",
    "TabularConfig",
    "TabularTransformer",
    "TextConfig",
    "TextModel",
    "TransformerConfig",
    "WrappedModule",
    "build",
    "import_garg",
    "import_yang",
    "load",
    "pretrained",
    "save",
    "wrap",
]

import_at_first_use(__name__)
