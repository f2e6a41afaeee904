"""The learner behind an estimator: by name, by folder or as it is; and the tables that suit it."""

from collections.abc import Mapping
from copy import deepcopy
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

import torch

from innerloop.core.arguments import expect_device
from innerloop.core.errors import ConfigurationError
from innerloop.core.files import read_json
from innerloop.core.learner import Learner
from innerloop.models.checkpoint import CONFIG, WEIGHTS, load
from innerloop.models.model import Head, Model
from innerloop.models.pretrained import SHIPPED, folder_of, pretrained

ROWS, FEATURES = 128, 16
"""The most examples and features of a context, where nothing says what a model was trained with."""


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class Source:
    """A learner in float64 on its device, and the tables that it reads."""

    learner: Learner[Any]
    head: Head = "regression"
    rows: int = ROWS
    """The most examples that it was trained with."""
    most_rows: int | None = None
    """The most examples that it can read at all; None: any number."""
    features: int = FEATURES
    """The most features that it was trained with."""
    dims: int | None = None
    """The number of inputs that it reads, no more and no fewer; None: any number."""
    knows_padding: bool = True
    """Whether inputs that are zero in all examples were a part of its training."""


def open_source(model: object, device: str) -> Source:
    """The learner that `model` stands for: a shipped name, a folder, or a learner.

    Models compute in float64, so that an answer does not depend on what is asked beside it.
    """
    expect_device(device)
    if isinstance(model, Learner):
        return _as_source(model, {}, device)
    if not isinstance(model, str | Path):
        raise ConfigurationError(
            f"model is a {type(model).__name__}, expected the name of a pretrained model, the "
            "folder of a run or of a saved model, or a learner."
        )
    if str(model) in SHIPPED:
        return _from_folder(folder_of(str(model)), str(model), 0, device)
    folder = Path(model)
    if not folder.is_dir():
        known = ", ".join(repr(name) for name in SHIPPED)
        raise ConfigurationError(
            f"model is {str(model)!r}, which is neither a pretrained model ({known}) nor a folder: "
            "give one of these, or a learner."
        )
    weights = folder / WEIGHTS
    stamp = weights.stat().st_mtime_ns if weights.is_file() else 0
    return _from_folder(folder.absolute(), None, stamp, device)


@lru_cache(maxsize=8)
def _from_folder(folder: Path, name: str | None, stamp: int, device: str) -> Source:
    """The model of a folder, read once as long as its weights have the same time stamp."""
    model = load(folder) if name is None else pretrained(name)
    return _as_source(model, read_json(folder / CONFIG, missing="no model is there"), device)


def _as_source(learner: Learner[Any], run: Mapping[str, Any], device: str) -> Source:
    """A learner with what its settings, and those of its run, say about tables."""
    if not isinstance(learner, Model):
        return Source(learner=learner)
    settings = learner.config.model_dump()
    if settings.get("outputs", 1) != 1 or settings.get("layout", "pairs") != "pairs":
        raise ConfigurationError(
            f"{learner.name} has {settings.get('outputs', 1)} outputs and reads "
            f"{settings.get('layout', 'pairs')}, expected one output and pairs of x and y: choose "
            "another model."
        )
    own = deepcopy(learner).eval().to(device=torch.device(device), dtype=torch.float64)
    own.requires_grad_(False)
    most = None if learner.points is None else learner.points - 1
    task, curriculum = run.get("task") or {}, run.get("curriculum") or {}
    rows = run["points"] - 1 if "points" in run else most or ROWS
    dims = settings.get("dims")
    return Source(
        learner=own, head=learner.head,
        rows=rows if most is None else min(rows, most), most_rows=most,
        features=dims or task.get("dims") or FEATURES, dims=dims,
        knows_padding=dims is None or curriculum.get("dims") is not None,
    )  # fmt: skip
