"""Models in folders: bit for bit there and back, and one sentence for all that does not fit."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file

from innerloop.core.errors import InnerloopError
from innerloop.core.files import read_json
from innerloop.core.seal import DamagedError, UncheckedWarning, sealed_json
from innerloop.models import (
    LinearLoopedConfig,
    Loop,
    LSTMConfig,
    Stack,
    TransformerConfig,
    build,
    load,
    save,
)
from innerloop.models.checkpoint import holds_model, weights_file
from innerloop.models.table import AnyModelConfig

STACK = Stack(layers=2, width=8, heads=2)
CONFIGS: dict[str, AnyModelConfig] = {
    "stack": TransformerConfig(dims=3, points=5, backbone=STACK),
    "loop": TransformerConfig(
        dims=3, points=5, start_token=True,
        backbone=Loop(loops=7, pre=1, post=1, width=8, heads=2, activation="gelu-tanh"),
    ),
    "lstm": LSTMConfig(dims=3, width=4, layers=2, head="binary"),
    "linear-looped": LinearLoopedConfig(dims=3, loops=4),
}  # fmt: skip


@pytest.fixture
def folder(tmp_path: Path, generator: torch.Generator) -> Path:
    """A folder with a saved model."""
    return save(build(CONFIGS["stack"], generator=generator), tmp_path / "model")


@pytest.mark.parametrize(
    "dtype", [torch.float32, torch.float64, torch.bfloat16], ids=lambda dtype: str(dtype)
)
@pytest.mark.parametrize("name", CONFIGS)
def test_a_model_comes_back_bit_for_bit(
    tmp_path: Path, generator: torch.Generator, name: str, dtype: torch.dtype
) -> None:
    model = build(CONFIGS[name], generator=generator).to(dtype)
    back = load(save(model, tmp_path / "deep" / "folder"))
    assert type(back) is type(model)
    assert back.config == model.config
    assert back.dtype == dtype
    saved, loaded = model.state_dict(), back.state_dict()
    assert list(saved) == list(loaded)
    assert all(torch.equal(saved[key], loaded[key]) for key in saved)


def test_the_files_say_what_they_are(folder: Path) -> None:
    assert sorted(path.name for path in folder.iterdir()) == ["config.json", "weights.safetensors"]
    described = json.loads((folder / "config.json").read_text())
    assert described["dtype"] == "float32"
    assert described["model"]["kind"] == "transformer"
    assert described["model"]["backbone"]["layers"] == 2
    assert holds_model(folder)
    assert not holds_model(folder.parent)


def test_a_configuration_alone_or_in_a_run_is_read(folder: Path) -> None:
    model = load(folder)
    alone = json.loads(model.config.model_dump_json())
    for text in (alone, {"model": alone, "steps": 10, "task": {"kind": "linear"}}):
        (folder / "config.json").write_text(json.dumps(text))
        assert load(folder).config == model.config


def test_saving_again_replaces_the_model(folder: Path, generator: torch.Generator) -> None:
    save(build(CONFIGS["lstm"], generator=generator), folder)
    assert load(folder).config == CONFIGS["lstm"]


def test_a_save_that_fails_leaves_the_old_model(
    folder: Path, generator: torch.Generator, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = {path.name: path.read_bytes() for path in folder.iterdir()}

    def full_disk(tensors: object, metadata: object) -> bytes:
        raise OSError("no space left")

    monkeypatch.setattr("innerloop.models.checkpoint.to_bytes", full_disk)
    with pytest.raises(InnerloopError, match=r"cannot write .*weights\.safetensors"):
        save(build(CONFIGS["lstm"], generator=generator), folder)
    assert {path.name: path.read_bytes() for path in folder.iterdir()} == before


def test_a_save_that_is_killed_halfway_leaves_no_mixture(
    folder: Path, generator: torch.Generator, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another number of heads fits the same tensors: only the description tells them apart."""
    replace = Path.replace

    def killed(self: Path, target: Path) -> Path:
        if target.name == "config.json":
            raise KeyboardInterrupt
        return replace(self, target)

    monkeypatch.setattr(Path, "replace", killed)
    other = TransformerConfig(dims=3, points=5, backbone=STACK.model_copy(update={"heads": 4}))
    with pytest.raises(KeyboardInterrupt):
        save(build(other, generator=generator), folder)
    with pytest.raises(InnerloopError, match=r"config.json is missing"):
        load(folder)


def change(
    **tensors: Callable[[torch.Tensor], torch.Tensor] | None,
) -> Callable[[Path], None]:
    """A function that changes, adds or removes tensors of a folder's weights."""

    def apply(folder: Path) -> None:
        path = folder / "weights.safetensors"
        held = {name: value.clone() for name, value in load_file(path).items()}
        for written, function in tensors.items():
            name = written.replace("__", ".")
            old = held.pop(name, torch.zeros(2))
            if function is not None:
                held[name] = function(old)
        path.write_bytes(weights_file(held))

    return apply


def write(name: str, content: bytes) -> Callable[[Path], object]:
    return lambda folder: (folder / name).write_bytes(content)


def cut(folder: Path) -> None:
    path = folder / "weights.safetensors"
    path.write_bytes(path.read_bytes()[:-100])


def edit(*keys: str, to: object) -> Callable[[Path], None]:
    """A function that changes a value of a folder's configuration."""

    def apply(folder: Path) -> None:
        path = folder / "config.json"
        described = read_json(path, missing="it is there")
        place = described
        for key in keys[:-1]:
            place = place[key]
        place[keys[-1]] = to
        path.write_bytes(sealed_json(described))

    return apply


def flip(name: str) -> Callable[[Path], None]:
    """A function that changes one bit in the middle of a file."""

    def apply(folder: Path) -> None:
        content = bytearray((folder / name).read_bytes())
        content[len(content) // 2] ^= 1
        (folder / name).write_bytes(content)

    return apply


REFUSED: dict[str, tuple[Callable[[Path], object], str]] = {
    "no configuration": (
        lambda folder: (folder / "config.json").unlink(), r"config\.json is missing",
    ),
    "no weights": (
        lambda folder: (folder / "weights.safetensors").unlink(), r"safetensors is missing",
    ),
    "truncated": (cut, r"weights\.safetensors is damaged"),
    "empty": (write("weights.safetensors", b""), r"weights\.safetensors is damaged"),
    "foreign": (write("weights.safetensors", b"PK" * 500), r"weights\.safetensors is damaged"),
    "another shape": (
        change(readout__weight=lambda old: old[:, 1:].contiguous()),
        r"'readout\.weight' in .*weights\.safetensors has shape \(1, 7\), expected \(1, 8\)",
    ),
    "a missing tensor": (
        change(readout__bias=None), r"weights\.safetensors lacks the tensor 'readout\.bias'",
    ),
    "a tensor too many": (
        change(extra=lambda old: old), r"weights\.safetensors holds a tensor 'extra'",
    ),
    "two types": (
        change(readout__bias=lambda old: old.double()), r"is float(32|64) and '.*' is float(32|64)",
    ),
    "integers": (
        change(readout__bias=lambda old: old.long()), r"'readout\.bias' in .* is int64",
    ),
    "another type than stated": (
        edit("dtype", to="float64"), r"holds float32 numbers where config\.json says float64",
    ),
    "not JSON": (write("config.json", b"{"), r"config\.json cannot be read as JSON"),
    "not text": (write("config.json", b"\xff\xfe\x00"), r"config\.json cannot be read as JSON"),
    "a list": (write("config.json", b"[1]"), r"config\.json holds no configuration"),
    "no model": (write("config.json", b'{"steps": 3}'), r"config\.json describes no model"),
    "unknown kind": (edit("model", "kind", to="lstn"), r"unknown kind of model 'lstn'.*'lstm'"),
    "misspelt key": (edit("model", "dmis", to=3), r"unknown key .*'dmis': did you mean 'dims'"),
    "heads that do not divide": (
        edit("model", "backbone", "heads", to=3), r"config\.json .*3 heads do not divide the width",
    ),
    "nested beyond all reason": (
        write("config.json", b"[" * 200_000), r"config\.json cannot be read as JSON",
    ),
    "a flipped bit of the weights": (flip("weights.safetensors"), r"safetensors is damaged"),
    "a flipped bit of the configuration": (flip("config.json"), r"config\.json is damaged"),
    "more layers than tensors": (
        edit("model", "backbone", "layers", to=10**6), r"holds 31 tensors, and the model of config",
    ),
    "more points than numbers": (
        edit("model", "points", to=10**9), r"'backbone\.positions' in .* \(1999999999, 8\)",
    ),
    "a width beyond memory": (
        edit("model", "backbone", "width", to=10**6), r"has shape .*, expected \(1000000,",
    ),
    "another size": (edit("model", "dims", to=4), r"'embedding\.inward\.weight' in .* \(8, 3\)"),
}  # fmt: skip


@pytest.mark.parametrize("what", REFUSED)
def test_what_does_not_fit_is_refused_in_one_sentence(folder: Path, what: str) -> None:
    damage, told = REFUSED[what]
    load(folder)
    damage(folder)
    with pytest.raises(InnerloopError, match=told) as refused:
        load(folder)
    assert "\n" not in str(refused.value)


def test_a_folder_that_is_not_there_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InnerloopError, match="there is no folder"):
        load(tmp_path / "nothing")


def test_files_without_checksums_are_read_with_a_notice_and_get_one(folder: Path) -> None:
    model = load(folder)
    path = folder / "weights.safetensors"
    save_file({name: value.clone() for name, value in load_file(path).items()}, path)
    with pytest.warns(UncheckedWarning, match=r"weights\.safetensors holds no checksum"):
        old = load(folder)
    assert all(torch.equal(one, other) for one, other in zip(
        old.state_dict().values(), model.state_dict().values(), strict=True
    ))  # fmt: skip
    save(old, folder)
    load(folder)


@pytest.mark.parametrize("name", ["weights.safetensors", "config.json"])
def test_no_flipped_bit_of_a_small_model_is_accepted(tmp_path: Path, name: str) -> None:
    """All 8 bits of every byte: also of the seal itself."""
    folder = save(build(CONFIGS["linear-looped"]), tmp_path)
    content = (folder / name).read_bytes()
    for place in range(len(content)):
        changed = bytearray(content)
        changed[place] ^= 1 << place % 8
        (folder / name).write_bytes(changed)
        with pytest.raises(DamagedError):
            load(folder)
