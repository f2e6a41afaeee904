"""Folders that verbs write models into."""

from pathlib import Path

from innerloop.core.errors import ConfigurationError
from innerloop.core.files import require_folder
from innerloop.models.checkpoint import holds_model

RUN_FILES = ("state.pt", "metrics.jsonl")
"""What a training run has beside its model."""


def require_free(folder: Path, *, force: bool) -> None:
    """Refuse to write over a training run, and over a model without --force."""
    require_folder(folder)
    if any((folder / name).exists() for name in RUN_FILES):
        raise ConfigurationError(f"{folder} is a training run: choose another folder.")
    if holds_model(folder) and not force:
        raise ConfigurationError(
            f"{folder} holds a model already: choose another folder, or write over it with --force."
        )
