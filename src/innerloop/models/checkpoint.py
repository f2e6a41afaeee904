"""Models in folders: `config.json` says what the model is, `weights.safetensors` holds its numbers.

Neither file can run code, and both hold a checksum that every reading compares. The folder of a
training run is read in the same way.
"""

from collections.abc import Callable
from pathlib import Path
from typing import Any, Literal, get_args

import torch
from safetensors import SafetensorError
from safetensors.torch import load as from_bytes
from safetensors.torch import save as to_bytes
from torch import Tensor

from innerloop.core.config import Config
from innerloop.core.errors import ConfigurationError, InnerloopError
from innerloop.core.files import read_json, write_atomically
from innerloop.core.seal import KEY, SEAL, notice_unsealed, require_intact, sealed, sealed_json
from innerloop.models.bounded import TooManyTensorsError, outline
from innerloop.models.model import AnyModel, Model
from innerloop.models.table import AnyModelConfig, ModelConfig, build, read_config

CONFIG, WEIGHTS = "config.json", "weights.safetensors"
FloatType = Literal["float32", "float64", "float16", "bfloat16"]


class Description(Config):
    """What `config.json` holds."""

    model: ModelConfig
    dtype: FloatType


def save(model: AnyModel, folder: Path | str) -> Path:
    """Write a model into a folder, over the one that it holds; its float type is kept."""
    if not isinstance(model, Model):
        raise ConfigurationError(
            f"a {type(model).__name__} is not a model of this library, which `save` could bring "
            "back: keep modules of your own with torch.save(module.state_dict(), path)."
        )
    folder = Path(folder)
    described = Description(model=model.config, dtype=_type_name(model.dtype))
    content = sealed_json(described.model_dump(mode="json"))
    config = folder / CONFIG

    def write_weights_and(file: Path) -> None:
        file.write_bytes(content)
        write_weights(model, folder / WEIGHTS, then=remove_another)

    def remove_another() -> None:
        # Never the description of one model beside the weights of another, even for a moment.
        if config.is_file() and config.read_bytes() != content:
            config.unlink()

    write_atomically(config, write_weights_and)
    return folder


def load(folder: Path | str, *, device: torch.device | str = "cpu") -> AnyModel:
    """The model of a folder that `save`, or a training run, has written: bit for bit."""
    folder = Path(folder)
    if not folder.is_dir():
        raise InnerloopError(f"there is no folder {folder}: give one that holds a saved model.")
    described = _read_description(folder / CONFIG)
    whole = "kind" in described
    if not whole and not isinstance(described.get("model"), dict):
        raise InnerloopError(
            f"{folder / CONFIG} describes no model: expected its configuration, whole or under the "
            "key 'model'."
        )
    try:
        config = read_config(described if whole else described["model"])
    except ConfigurationError as error:
        raise ConfigurationError(f"{folder / CONFIG} describes no model: {error}") from error
    stated = None if whole else described.get("dtype")
    return read_model(config, folder / WEIGHTS, dtype=stated).to(device)


def holds_model(folder: Path) -> bool:
    """Whether a folder holds a model, or a part of one."""
    return any((folder / name).exists() for name in (CONFIG, WEIGHTS))


def write_weights(
    model: AnyModel, path: Path, *, then: Callable[[], object] = lambda: None
) -> None:
    """Write the weights of a model, in their type; `then` runs when they are ready to appear."""

    def write(file: Path) -> None:
        file.write_bytes(weights_file(model.state_dict()))
        then()

    write_atomically(path, write)


def weights_file(tensors: dict[str, Tensor]) -> bytes:
    """A safetensors file of these tensors, sealed in its header."""
    plain = {name: value.detach().cpu().contiguous() for name, value in tensors.items()}
    return sealed(to_bytes(plain, metadata={KEY: SEAL}))


def read_model(config: AnyModelConfig, path: Path, *, dtype: str | None = None) -> AnyModel:
    """The model of a configuration with the weights of a file, in the file's type.

    All that does not fit is refused before the model is made: a configuration may declare any size.
    With a dtype, as torch names it, weights of another are refused.
    """
    if not path.is_file():
        raise InnerloopError(f"{path} is missing: the folder holds no complete model.")
    try:
        content = path.read_bytes()
        checked = require_intact(content, path)
        tensors = from_bytes(content)
    except (SafetensorError, OSError) as error:
        raise InnerloopError(
            f"{path} is damaged or no safetensors file ({error}): take another copy of it."
        ) from error
    if not checked:
        notice_unsealed(path)
    try:
        expected = outline(config, most=2 * len(tensors) + 100)
    except TooManyTensorsError as error:
        raise InnerloopError(
            f"{path} holds {len(tensors)} tensors, and the model of {CONFIG} has many more: the "
            "two files are not of one model."
        ) from error
    require_fit(tensors, expected, path)
    own = next(iter(tensors.values())).dtype
    if dtype is not None and dtype != _type_name(own):
        raise InnerloopError(
            f"{path} holds {_type_name(own)} numbers where {CONFIG} says {dtype}: the two files "
            "are not of one model."
        )
    model = build(config).to(own)
    model.load_state_dict(tensors)
    return model


def require_fit(tensors: dict[str, Tensor], expected: dict[str, Tensor], path: Path) -> None:
    """Refuse tensors of a file that are not those expected; the sentence names the first."""
    missing = [name for name in expected if name not in tensors]
    if missing:
        raise InnerloopError(f"{path} lacks the tensor {missing[0]!r}: it is of another model.")
    for name in sorted(tensors.keys() - expected.keys()):
        raise InnerloopError(
            f"{path} holds a tensor {name!r} that the model does not have: it is of another model."
        )
    for name, wanted in expected.items():  # in the model's order: a file's is any
        if tensors[name].shape != wanted.shape:
            raise InnerloopError(
                f"{name!r} in {path} has shape {tuple(tensors[name].shape)}, expected "
                f"{tuple(wanted.shape)}: it is of another model."
            )
    first = next(iter(expected))
    for name in expected:
        kind, other = (_type_name(tensors[one].dtype) for one in (name, first))
        if kind not in get_args(FloatType) or kind != other:
            raise InnerloopError(
                f"{name!r} in {path} is {kind} and {first!r} is {other}: expected one of "
                f"{', '.join(get_args(FloatType))} for all."
            )
        if not bool(torch.isfinite(tensors[name]).all()):
            raise InnerloopError(
                f"{name!r} in {path} holds NaN or infinity, with which no model predicts: train it "
                "again, or take another copy of the file."
            )


def _read_description(path: Path) -> dict[str, Any]:
    described = read_json(path, missing="the folder holds no saved model")
    if not isinstance(described, dict):
        raise InnerloopError(f"{path} holds no configuration: expected a JSON object.")
    return described


def _type_name(dtype: torch.dtype) -> Any:
    return str(dtype).removeprefix("torch.")
