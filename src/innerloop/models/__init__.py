"""Trainable learners: transformers of every shape."""

from innerloop.models.backbone import Backbone, Loop, Stack
from innerloop.models.transformer import InContextTransformer, TransformerConfig

__all__ = ["Backbone", "InContextTransformer", "Loop", "Stack", "TransformerConfig"]
