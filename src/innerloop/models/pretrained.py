"""Trained models that come with the package, each in a folder with its recipe, curve and card."""

import hashlib
import warnings
from functools import cache
from pathlib import Path

import torch

from innerloop.core.errors import ConfigurationError, InnerloopError
from innerloop.core.seal import UncheckedWarning
from innerloop.models.checkpoint import CONFIG, WEIGHTS, load
from innerloop.models.model import AnyModel

FOLDER = Path(__file__).parent.parent / "weights"
"""One folder per model: config.json, weights.safetensors, curve.csv, card.md."""
CARD, CURVE = "card.md", "curve.csv"
SHIPPED: dict[str, str | None] = {
    "tabular-regression": "a90fba28faeb581a9db3c567d51178616823800d2801f99a3f48fe2727f972fc",
    "tabular-classification": "f859e246bb799d719694a95c796b94479ab2b1ae65d9c988df6f34e0bee162a2",
    "looped-linear": "d6165d2e970780190fba76abeab68351e760f98234cc29cc6090f1b937500852",
    "looped-line": "8816e1c44531586f9f6779a05dba4bdd80e3d04167a71b18ebacdcd7b925b33e",
    "tied-line": "97f0f5840b055c940d1888dfbd7a04cfcf16bd2336eca117948b3eb27df05790",
    "standard-line": "dbefa0f761e0794f29eae1ce358902e4ec51e166866235fbe033c1642b6db300",
    "looped-plane": "dcc977b972086054f5e568412ab40350e2582180b49800b93838078427d10590",
    "tied-plane": "9de8870b447acabff952032af2e70da046ca77db216a645526f34aa5b3548825",
    "standard-plane": "c3e8f82e8fc64c9f4b0fd27c0a613debc0501193048f5107690bd209065a20a6",
}
"""Name -> the `digest` of its folder; None as long as the model is not in the package."""


def pretrained(name: str, *, device: torch.device | str = "cpu") -> AnyModel:
    """The trained model of a name, ready to predict: `il.models.pretrained("tabular-regression")`.

    Its files are held against the hash that this version of the package knows.
    """
    folder = folder_of(name)
    _require_intact(name, folder)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UncheckedWarning)  # just checked, whatever they hold
        return load(folder, device=device).eval()


def folder_of(name: str) -> Path:
    """Where the model of a name lies, with its card and its training curve."""
    if name not in SHIPPED:
        known = ", ".join(repr(one) for one in SHIPPED)
        raise ConfigurationError(f"there is no pretrained model {name!r}: choose from {known}.")
    return FOLDER / name


def is_shipped(name: str) -> bool:
    """Whether a model of this name comes with the package, files and all."""
    return SHIPPED.get(name) is not None


def digest(folder: Path) -> str:
    """The SHA-256 of a model's description and weights, one after the other."""
    found = hashlib.sha256()
    for name in (CONFIG, WEIGHTS):
        try:
            found.update((folder / name).read_bytes())
        except OSError as error:
            raise InnerloopError(
                f"cannot read {folder / name}: {error.strerror or error}. Install innerloop again."
            ) from error
    return found.hexdigest()


@cache
def _require_intact(name: str, folder: Path) -> None:
    """Refuse files that are not those of this version; each folder is looked at once."""
    expected = SHIPPED[name]
    if expected is None:
        raise InnerloopError(
            f"the weights of {name!r} are not in this version of innerloop: train the model, and "
            "give the folder of the run in the place of the name."
        )
    if digest(folder) != expected:
        raise InnerloopError(
            f"the files in {folder} are not those that this version of innerloop came with: "
            "install it again."
        )
