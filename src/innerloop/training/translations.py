"""What the recipes of translation train: Gao et al.'s three models, at equal operations."""

from typing import Any, Literal

from innerloop.core.config import Config
from innerloop.language.translation import Translation
from innerloop.models.backbone import Loop, Stack
from innerloop.models.settings import BACKWARD
from innerloop.training.builders import STEADY
from innerloop.training.config import RunConfig
from innerloop.training.families import Scale
from innerloop.training.optimizer import Optimizer

Kind = Literal["standard", "looped", "algoformer"]
SCORED = 0.5
"""The share of tokens that are English: the vocabulary's products are computed there alone."""


class _Size(Config):
    """A task, and the sizes of the three models for it."""

    task: Translation
    points: int
    width: int
    heads: int
    layers: int
    """Of the stack."""
    loops: int
    window: int
    steps: int
    """Of the stack, whose operations the others have as well."""
    weight_decay: float = 0.0


SIZES: dict[Scale, _Size] = {
    "smoke": _Size(
        task=Translation(vocabulary=300, limit=200), points=128, width=16, heads=2, layers=2,
        loops=3, window=2, steps=20,
    ),
    "laptop": _Size(
        task=Translation(vocabulary=4000), points=96, width=128, heads=4, layers=3, loops=4,
        window=2, steps=1500,
    ),
    "desk": _Size(
        task=Translation(vocabulary=4000), points=96, width=128, heads=4, layers=3, loops=4,
        window=2, steps=8000, weight_decay=0.1,
    ),
    # As far as the paper says: 12 layers, 8 heads, width 256, (T, delta T) = (10, 10).
    "paper": _Size(
        task=Translation(dataset="iwslt14", vocabulary=10_000), points=256, width=256, heads=8,
        layers=12, loops=10, window=10, steps=100_000,
    ),
}  # fmt: skip


def translation(kind: Kind, scale: Scale) -> RunConfig:
    """The standard, looped or AlgoFormer model at a scale.

    All have the operations of the stack, but for the paper's scale, where all have its steps: the
    paper does not say how long it trained.
    """
    size, paper = SIZES[scale], scale == "paper"
    backbone = _backbone(kind, size, activation="gelu-tanh" if paper else "gelu")
    steps = size.steps
    if scale in ("laptop", "desk") and kind != "standard":
        stack = _backbone("standard", size, activation="gelu")
        steps = round(size.steps * _operations(stack, size) / _operations(backbone, size))
    fast = STEADY.model_copy(update={"weight_decay": size.weight_decay})
    return RunConfig.model_validate({
        "task": size.task, "points": size.points, "steps": steps,
        "model": {"kind": "text", "pool": None, "tied": True, "backbone": backbone},
        "optimizer": Optimizer(learning_rate=5e-5) if paper else fast,
        "spread": "small" if paper else "fan-in",
        "window": size.window if backbone.looped else None,
        "batch": 64, "label_smoothing": 0.0 if paper else 0.1,
        **_rhythm(scale),
    })  # fmt: skip


def _backbone(kind: Kind, size: _Size, *, activation: str) -> Stack | Loop:
    """A stack, or one block in a loop: alone, or between two others."""
    blocks: dict[str, Any] = {"width": size.width, "heads": size.heads, "activation": activation}
    if kind == "standard":
        return Stack(**blocks, layers=size.layers)
    ends = 1 if kind == "algoformer" else 0
    return Loop(**blocks, loops=size.loops, pre=ends, post=ends)


def _operations(backbone: Stack | Loop, size: _Size) -> float:
    """Operations of a step per token, about: blocks, and the readout of the tokens that count."""
    window = size.window if backbone.looped else 1
    tokens = size.points // 3  # texts are much shorter than the longest
    blocks = backbone.operations(tokens, size.loops, window) / tokens
    readout = 2 * size.task.vocabulary * size.width * (1 + BACKWARD) * SCORED * window
    return blocks + readout


def _rhythm(scale: Scale) -> dict[str, int]:
    """How often a run reports, evaluates and saves."""
    return {
        "smoke": {"log_every": 5, "evaluate_every": 10, "save_every": 10},
        "laptop": {"log_every": 20, "evaluate_every": 250, "save_every": 250},
        "desk": {"log_every": 50, "evaluate_every": 500, "save_every": 500},
        "paper": {"log_every": 100, "evaluate_every": 1000, "save_every": 1000},
    }[scale]
