"""Checkpoints of the public repositories of Garg et al. (2022) and Yang et al. (2024).

Both keep a GPT-2 backbone between `_read_in` and `_read_out`: Garg that of the library
transformers, with its linear maps stored inputs x outputs; Yang that of nanoGPT, outputs x inputs.
"""

import re
import warnings
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal

from pydantic import ValidationError
from torch import Tensor

from innerloop.core.errors import ConfigurationError, InnerloopError
from innerloop.core.explain import explain
from innerloop.models.backbone import Loop, Stack
from innerloop.models.checkpoint import require_fit
from innerloop.models.torch_files import load_plain
from innerloop.models.transformer import InContextTransformer, TransformerConfig

Inject = Literal["none", "add", "multiply"]
Source = Literal["garg", "yang"]

_BEFORE: dict[Source, str] = {"garg": "_backbone.", "yang": "_backbone.transformer."}
"""What the names of the backbone's tensors begin with."""
_UNUSED = re.compile(r"(\.wte\.weight|lm_head\.weight|\.attn\.(bias|masked_bias))$")
"""Word embeddings that nothing reads, and masks."""
_LAYER = re.compile(r"h\.(\d{1,9})\.")
_BLOCK_PARTS = {
    "ln_1": "attention_norm",
    "attn.c_attn": "attention.inward",
    "attn.c_proj": "attention.outward",
    "ln_2": "mlp_norm",
    "mlp.c_fc": "mlp.up",
    "mlp.c_proj": "mlp.down",
}
"""Parts of a block: their name -> ours."""


def import_garg(
    path: Path | str, *, heads: int, loops: int | None = None, inject: Inject | None = None
) -> InContextTransformer:
    """A model of Garg et al.'s code: a training state, or the bare weights of a final model.

    The file does not say how many heads there are, nor whether the layers are looped: with `loops`
    they are, `inject` says how the input comes in again (None: added). Files have a position for
    each token, and may have one for a last y, which is no token here: it is left out. All others
    are kept, so that the model reads (positions + 1) // 2 points.
    """
    return _import(Path(path), "garg", heads=heads, loops=loops, inject=inject)


def import_yang(
    path: Path | str, *, heads: int, loops: int | None = None, inject: Inject | None = None
) -> InContextTransformer:
    """A model of Yang et al.'s code: with `loops` a looped or, without injection, a tied one.

    Heads, loops and injection are not in the file; positions are kept as by `import_garg`.
    """
    return _import(Path(path), "yang", heads=heads, loops=loops, inject=inject)


def _import(
    path: Path, source: Source, *, heads: int, loops: int | None, inject: Inject | None
) -> InContextTransformer:
    if loops is None and inject is not None:
        raise ConfigurationError(
            f"the injection {inject!r} is given without a number of loops: give both, or neither."
        )
    weights = _read(path)
    _require_source(weights, source, path)
    config = _configuration(weights, source, path, heads=heads, loops=loops, inject=inject)
    model = InContextTransformer(config)
    names = _names(source, model)
    tensors = {name: _as_ours(name, value, source, config) for name, value in weights.items()}
    expected = model.state_dict()
    # Under the file's own names, which are those that its owner knows.
    require_fit(tensors, {theirs: expected[ours] for theirs, ours in names.items()}, path)
    model.to(tensors["_read_in.weight"].dtype)
    model.load_state_dict({names[name]: value for name, value in tensors.items()})
    return model


def _read(path: Path) -> dict[str, Tensor]:
    """The weights of a file, without those that nothing uses."""
    weights = _unpickled(path)
    for key in ("model_state_dict", "model"):
        if isinstance(weights, Mapping) and isinstance(weights.get(key), Mapping):
            weights = weights[key]
    named = isinstance(weights, Mapping) and all(
        isinstance(name, str) and isinstance(value, Tensor) for name, value in weights.items()
    )
    if not named:
        raise InnerloopError(
            f"{path} holds no weights: expected tensors by name, at the top or under 'model' or "
            "'model_state_dict'."
        )
    return {name: value for name, value in weights.items() if not _UNUSED.search(name)}


def _unpickled(path: Path) -> Any:
    """What a file of torch holds, if that is tensors and plain values: nothing in it is run."""
    try:
        path.open("rb").close()
    except OSError as error:
        raise InnerloopError(f"cannot read {path}: {error.strerror or error}.") from error
    try:
        with warnings.catch_warnings(action="ignore"):
            return load_plain(path)
    # What a damaged or foreign file raises is not documented: anything but an interrupt.
    except Exception as error:
        raise InnerloopError(
            f"{path} is damaged, no checkpoint of torch, or holds more than tensors, which could "
            "run code and is not read: save the state dict of the model alone."
        ) from error


def _require_source(weights: Mapping[str, Tensor], source: Source, path: Path) -> None:
    """Refuse files of the other code, and of neither."""
    written_by = next(
        (s for s, start in reversed(_BEFORE.items()) if f"{start}wpe.weight" in weights), None
    )
    if written_by is None:
        raise InnerloopError(
            f"{path} lacks the tensor {_BEFORE[source] + 'wpe.weight'!r}: it is no checkpoint of "
            f"{source}'s code."
        )
    if written_by != source:
        raise InnerloopError(f"{path} is a checkpoint of {written_by}'s code, not of {source}'s.")


def _configuration(
    weights: Mapping[str, Tensor],
    source: Source,
    path: Path,
    *,
    heads: int,
    loops: int | None,
    inject: Inject | None,
) -> TransformerConfig:
    """The model that has tensors of these shapes."""
    before = _BEFORE[source]
    layers = {
        int(match[1]) for name in weights if (match := _LAYER.match(name.removeprefix(before)))
    }
    if layers != set(range(len(layers))):
        raise InnerloopError(
            f"{path} holds the layers {sorted(layers)[:8]}, expected 0, 1, 2 and so on: take "
            "another copy of the file."
        )
    width, dims = _matrix(weights, "_read_in.weight", path)
    outputs, _ = _matrix(weights, "_read_out.weight", path)
    positions, _ = _matrix(weights, f"{before}wpe.weight", path)
    up = _matrix(weights, f"{before}h.0.mlp.c_fc.weight", path)
    shape: dict[str, Any] = {
        "layers": len(layers),
        "width": width,
        "heads": heads,
        "hidden": up[1] if source == "garg" else up[0],
        "activation": "gelu-tanh",
    }
    kind = Stack if loops is None else Loop
    if loops is not None:
        shape |= {"loops": loops, "inject": inject or "add"}
    try:
        backbone = kind(**shape)
    except ValidationError as error:
        raise ConfigurationError(explain(error, kind)) from error
    return TransformerConfig(
        dims=dims, outputs=outputs, points=(positions + 1) // 2, backbone=backbone
    )


def _matrix(weights: Mapping[str, Tensor], name: str, path: Path) -> tuple[int, int]:
    """The shape of a matrix of the file."""
    value = weights.get(name)
    if value is None:
        raise InnerloopError(f"{path} lacks the tensor {name!r}: it is no whole model.")
    if value.ndim != 2 or 0 in value.shape:
        raise InnerloopError(
            f"{name!r} in {path} has shape {tuple(value.shape)}, expected a matrix."
        )
    return value.shape[0], value.shape[1]


def _names(source: Source, model: InContextTransformer) -> dict[str, str]:
    """Every tensor of a model: their name -> ours."""
    before = _BEFORE[source]
    parts = {
        "_read_in": "embedding.inward",
        "_read_out": "readout",
        f"{before}ln_f": "backbone.loop_norm" if model.looped else "backbone.final_norm",
    }
    for i in range(model.config.backbone.layers):
        for theirs, ours in _BLOCK_PARTS.items():
            parts[f"{before}h.{i}.{theirs}"] = f"backbone.blocks.{i}.{ours}"
    names = {f"{before}wpe.weight": "backbone.positions"}
    for theirs, ours in parts.items():
        names |= {f"{theirs}.{part}": f"{ours}.{part}" for part in ("weight", "bias")}
    return names


def _as_ours(name: str, value: Tensor, source: Source, config: TransformerConfig) -> Tensor:
    """A tensor of the file, a map as outputs x inputs, positions without that of a last y."""
    if name.endswith(".wpe.weight"):
        return value[: 2 * config.points - 1]  # (T, D)
    inner = ".attn." in name or ".mlp." in name
    return value.mT if source == "garg" and inner and value.ndim == 2 else value
