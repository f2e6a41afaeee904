"""Checkpoints of the public code: the same predictions, and one sentence for what is none."""

import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any, Literal

import numpy as np
import pytest
import torch
from torch import Tensor

import innerloop as il
from innerloop.core.errors import InnerloopError
from innerloop.core.prompt import Prompt
from innerloop.core.tolerances import PUBLIC_CODE
from innerloop.models import InContextTransformer, Loop, Stack, TransformerConfig
from innerloop.models.imports import import_garg, import_yang
from tests.conftest import REFERENCE

Weights = dict[str, Tensor]


def prompt_of(reference: dict[str, np.ndarray]) -> Prompt:
    return Prompt.from_arrays(reference["xs"], reference["ys"], dtype=torch.float32)


@torch.no_grad()
def assert_public(model: InContextTransformer, prompt: Prompt, answers: np.ndarray) -> None:
    found = il.predict(model, prompt)[..., 0].numpy()  # (B, n)
    assert float(np.abs(answers).max()) > 0.1
    np.testing.assert_allclose(found, answers, rtol=0, atol=PUBLIC_CODE)


def test_garg_predicts_as_the_public_code(reference: dict[str, np.ndarray]) -> None:
    model = import_garg(REFERENCE / "garg_state.pt", heads=4)
    assert_public(model, prompt_of(reference), reference["garg"])
    assert model.config.points == 11


def test_yang_standard_predicts_as_the_public_code(reference: dict[str, np.ndarray]) -> None:
    model = import_yang(REFERENCE / "yang_standard_model.pt", heads=4)
    assert_public(model, prompt_of(reference), reference["yang_standard"])
    assert model.config.points == 12


@torch.no_grad()
def test_yang_looped_predicts_as_the_public_code_after_every_loop(
    reference: dict[str, np.ndarray],
) -> None:
    model = import_yang(REFERENCE / "yang_looped_state.pt", heads=4, loops=12)
    found = il.trajectory(model, prompt_of(reference)).predictions[1:, ..., 0]  # (12, B, n)
    np.testing.assert_allclose(found, reference["yang_looped"], rtol=0, atol=PUBLIC_CODE)


def test_yang_tied_predicts_as_the_public_code(reference: dict[str, np.ndarray]) -> None:
    path = REFERENCE / "yang_tied_model.pt"
    model = import_yang(path, heads=4, loops=5, inject="none")
    assert_public(model, prompt_of(reference), reference["yang_tied_5"])


def test_another_number_of_heads_is_another_model(reference: dict[str, np.ndarray]) -> None:
    """The file fits any number of heads that divides the width: what a user gives matters."""
    model = import_yang(REFERENCE / "yang_standard_model.pt", heads=2)
    with torch.no_grad():
        found = il.predict(model, prompt_of(reference))[..., 0].numpy()  # (B, n)
    assert float(np.abs(found - reference["yang_standard"]).max()) > 10 * PUBLIC_CODE


NAMES = {
    "attention_norm": "ln_1", "attention.inward": "attn.c_attn", "attention.outward": "attn.c_proj",
    "mlp_norm": "ln_2", "mlp.up": "mlp.c_fc", "mlp.down": "mlp.c_proj",
}  # fmt: skip


def exported(model: InContextTransformer, source: Literal["garg", "yang"], rows: int) -> Weights:
    """The weights of a model as the public code would have named and stored them."""
    before = "_backbone." if source == "garg" else "_backbone.transformer."
    positions = torch.full((rows, model.config.backbone.width), torch.nan)
    weights: Weights = {f"{before}wpe.weight": positions}
    for name, value in model.state_dict().items():
        first, _, rest = name.partition(".")
        if name == "backbone.positions":
            positions[: len(value)] = value
        elif first != "backbone":
            place = {"embedding": "_read_in", "readout": "_read_out"}[first]
            weights[f"{place}.{name.rsplit('.')[-1]}"] = value
        elif "norm" in rest.split(".")[0]:
            weights[f"{before}ln_f.{name.rsplit('.')[-1]}"] = value
        else:
            _, layer, part = rest.split(".", 2)
            stem, _, kind = part.rpartition(".")
            turn = source == "garg" and value.ndim == 2
            weights[f"{before}h.{layer}.{NAMES[stem]}.{kind}"] = value.T if turn else value
    return weights


def make(backbone: Stack | Loop, points: int = 6) -> InContextTransformer:
    generator = torch.Generator().manual_seed(5)
    config = TransformerConfig(dims=3, points=points, backbone=backbone)
    return InContextTransformer(config, generator=generator)


SHAPE: dict[str, Any] = {"layers": 2, "width": 8, "heads": 2, "activation": "gelu-tanh"}


@pytest.mark.parametrize("source", ["garg", "yang"])
@pytest.mark.parametrize("wrapped", [None, "model", "model_state_dict"])
@pytest.mark.parametrize("rows", [11, 12])
@torch.no_grad()
def test_weights_come_back_whatever_holds_them(
    tmp_path: Path,
    random_prompt: Callable[..., Prompt],
    source: Literal["garg", "yang"],
    wrapped: str | None,
    rows: int,
) -> None:
    model = make(Stack(**SHAPE))
    weights = exported(model, source, rows)
    # Buffers of older files, and word embeddings, which nothing uses.
    weights["_backbone.h.0.attn.masked_bias"] = torch.tensor(-1e4)
    weights["_backbone.h.0.attn.bias"] = torch.ones(1, 1, 4, 4, dtype=torch.bool)
    weights["_backbone.wte.weight"] = torch.zeros(2, 8)
    path = tmp_path / "state.pt"
    torch.save(weights if wrapped is None else {wrapped: weights, "train_step": 7}, path)
    back = (import_garg if source == "garg" else import_yang)(path, heads=2)
    prompt = random_prompt(2, 6, 3, dtype=torch.float32)
    assert back.config.points == 6
    assert torch.equal(il.predict(back, prompt), il.predict(model, prompt))


@torch.no_grad()
def test_float64_layers_in_a_loop_that_multiplies(
    tmp_path: Path, random_prompt: Callable[..., Prompt]
) -> None:
    model = make(Loop(**SHAPE, loops=3, inject="multiply")).double()
    weights = exported(model, "yang", 11)
    weights["_backbone.transformer.wpe.weight"] = weights[
        "_backbone.transformer.wpe.weight"
    ].double()
    torch.save({"model": weights}, tmp_path / "state.pt")
    back = import_yang(tmp_path / "state.pt", heads=2, loops=3, inject="multiply")
    assert back.dtype == torch.float64
    prompt = random_prompt(2, 6, 3)
    torch.testing.assert_close(
        il.predict(back, prompt), il.predict(model, prompt), rtol=0, atol=1e-6
    )


class Trap:
    """What makes a directory when it is unpickled."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self) -> tuple[Any, ...]:
        return (Path.mkdir, (self.path,))


def test_a_pickle_that_would_run_code_is_refused(tmp_path: Path) -> None:
    """Whether torch or pickle wrote it; and nothing of it has run."""
    sprung = tmp_path / "sprung"
    path = tmp_path / "state.pt"
    torch.save({"model": Trap(sprung)}, path)
    with pytest.raises(
        InnerloopError, match=r"state\.pt is damaged, .* or holds more than tensors"
    ):
        import_yang(path, heads=2)
    path.write_bytes(pickle.dumps({"model": Trap(sprung)}))
    with pytest.raises(InnerloopError, match=r"state\.pt"):
        import_garg(path, heads=2)
    assert not sprung.exists()


def without(name: str) -> Callable[[Weights], Weights]:
    return lambda weights: {key: value for key, value in weights.items() if name not in key}


def with_(name: str, value: Tensor) -> Callable[[Weights], Weights]:
    return lambda weights: weights | {name: value}


BEFORE = "_backbone.transformer."
REFUSED: dict[str, tuple[Callable[[Weights], object], str]] = {
    "no weights": (lambda weights: {"model": 3}, "holds no weights"),
    "a list": (lambda weights: [1, 2], "holds no weights"),
    "a tensor": (lambda weights: torch.zeros(3), "holds no weights"),
    "nothing": (lambda weights: {}, f"lacks the tensor '{BEFORE}wpe.weight'.*of yang's code"),
    "no read-in": (without("_read_in"), "lacks the tensor '_read_in.weight'"),
    "no layers": (without(".h."), f"lacks the tensor '{BEFORE}h.0.mlp.c_fc.weight'"),
    "a layer without its norm": (
        without("h.1.ln_2"), f"lacks the tensor '{BEFORE}h.1.ln_2.weight'",
    ),
    "a layer left out": (
        lambda weights: {key.replace("h.1.", "h.2."): value for key, value in weights.items()},
        r"holds the layers \[0, 2\]",
    ),
    "a layer far out": (
        with_(f"{BEFORE}h.200000000.ln_1.weight", torch.zeros(8)),
        r"holds the layers \[0, 1, 200000000\]",
    ),
    "a layer of a thousand digits": (
        with_(f"{BEFORE}h.{5000 * '9'}.ln_1.weight", torch.zeros(8)), "holds a tensor",
    ),
    "a bias of another size": (
        with_("_read_out.bias", torch.zeros(2)),
        r"'_read_out.bias' in .*state.pt has shape \(2,\), expected \(1,\)",
    ),
    "a read-in that is a vector": (
        with_("_read_in.weight", torch.zeros(8)), "'_read_in.weight' .* expected a matrix",
    ),
    "a tensor too many": (
        with_("_backbone.extra", torch.zeros(2)), "holds a tensor '_backbone.extra'",
    ),
    "integers": (with_("_read_out.bias", torch.zeros(1).long()), "'_read_out.bias' in .* is int64"),
}  # fmt: skip


@pytest.mark.parametrize("what", REFUSED)
def test_what_is_no_checkpoint_is_refused_in_one_sentence(tmp_path: Path, what: str) -> None:
    changed, told = REFUSED[what]
    path = tmp_path / "state.pt"
    torch.save(changed(exported(make(Stack(**SHAPE)), "yang", 11)), path)
    with pytest.raises(InnerloopError, match=told) as refused:
        import_yang(path, heads=2)
    assert "\n" not in str(refused.value)


@pytest.mark.parametrize("content", [b"", b"no checkpoint at all", b"PK\x03\x04" + 400 * b"x"])
def test_files_that_torch_cannot_read_are_refused(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "state.pt"
    path.write_bytes(content)
    with pytest.raises(InnerloopError, match=r"state\.pt is damaged, no checkpoint"):
        import_yang(path, heads=2)


@pytest.mark.parametrize("share", [0.1, 0.5, 0.9, 0.999])
def test_truncated_files_are_refused(tmp_path: Path, share: float) -> None:
    path = tmp_path / "state.pt"
    torch.save(exported(make(Stack(**SHAPE)), "yang", 11), path)
    whole = path.read_bytes()
    path.write_bytes(whole[: int(share * len(whole))])
    with pytest.raises(InnerloopError, match=r"state\.pt is damaged"):
        import_yang(path, heads=2)


def test_missing_files_and_folders_are_refused(tmp_path: Path) -> None:
    for path in (tmp_path / "nothing.pt", tmp_path):
        with pytest.raises(InnerloopError, match="cannot read"):
            import_garg(path, heads=2)


def test_wrong_words_of_the_user_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "state.pt"
    torch.save(exported(make(Stack(**SHAPE)), "yang", 11), path)
    with pytest.raises(InnerloopError, match="is a checkpoint of yang's code, not of garg's"):
        import_garg(path, heads=2)
    with pytest.raises(InnerloopError, match="3 heads do not divide the width 8"):
        import_yang(path, heads=3)
    with pytest.raises(InnerloopError, match="'heads' of Stack is 0"):
        import_yang(path, heads=0)
    with pytest.raises(InnerloopError, match="'loops' of Loop is 0"):
        import_yang(path, heads=2, loops=0)
    with pytest.raises(InnerloopError, match="without a number of loops"):
        import_yang(path, heads=2, inject="add")
    torch.save(exported(make(Stack(**SHAPE)), "garg", 11), path)
    with pytest.raises(InnerloopError, match="is a checkpoint of garg's code, not of yang's"):
        import_yang(path, heads=2)
