"""`innerloop import` as a user meets it."""

import json
from pathlib import Path

import pytest
import torch

from innerloop.models import InContextTransformer, Loop, Stack, TransformerConfig, load
from tests.cli.command import run
from tests.conftest import REFERENCE


@pytest.fixture
def checkpoint(tmp_path: Path, generator: torch.Generator) -> Path:
    """A file of Yang et al.'s code: 2 layers of width 8, for 3 dimensions, 11 positions."""
    width, before = 8, "_backbone.transformer."
    shapes: dict[str, tuple[int, ...]] = {
        "_read_in.weight": (width, 3), "_read_in.bias": (width,),
        "_read_out.weight": (1, width), "_read_out.bias": (1,),
        f"{before}wpe.weight": (11, width),
        f"{before}ln_f.weight": (width,), f"{before}ln_f.bias": (width,),
    }  # fmt: skip
    for layer in range(2):
        for part, inner, outer in (
            ("attn.c_attn", width, 3 * width), ("attn.c_proj", width, width),
            ("mlp.c_fc", width, 4 * width), ("mlp.c_proj", 4 * width, width),
        ):  # fmt: skip
            shapes[f"{before}h.{layer}.{part}.weight"] = (outer, inner)
            shapes[f"{before}h.{layer}.{part}.bias"] = (outer,)
        for norm in ("ln_1", "ln_2"):
            shapes[f"{before}h.{layer}.{norm}.weight"] = (width,)
            shapes[f"{before}h.{layer}.{norm}.bias"] = (width,)
    path = tmp_path / "state.pt"
    weights = {name: torch.randn(shape, generator=generator) for name, shape in shapes.items()}
    torch.save({"model": weights}, path)
    return path


def test_a_checkpoint_becomes_a_model(
    capsys: pytest.CaptureFixture[str], checkpoint: Path, tmp_path: Path
) -> None:
    folder = tmp_path / "model"
    code, out, _ = run(
        capsys, "import", checkpoint, "--from", "yang", "--heads", 4, "--loops", 7,
        "--inject", "multiply", "-o", folder,
    )  # fmt: skip
    assert code == 0
    model = load(folder)
    assert isinstance(model, InContextTransformer)
    expected = Loop(
        layers=2, width=8, heads=4, hidden=32, loops=7, inject="multiply", activation="gelu-tanh"
    )
    assert model.config == TransformerConfig(dims=3, points=6, backbone=expected)
    told = ("2 layers", "7 times", "4 heads", "width 8", f"{model.parameter_count:,}", "6 points")
    for part in (*told, str(folder), "innerloop evaluate"):
        assert part in out


def test_without_loops_it_is_a_stack(
    capsys: pytest.CaptureFixture[str], checkpoint: Path, tmp_path: Path
) -> None:
    words = ("import", checkpoint, "--from", "yang", "--heads", 2, "-o", tmp_path / "model")
    assert run(capsys, *words)[0] == 0
    assert isinstance(load(tmp_path / "model").config.backbone, Stack)


def test_the_public_code_s_own_file_is_read(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    path = REFERENCE / "garg_state.pt"
    code, out, _ = run(
        capsys, "import", path, "--from", "garg", "--heads", 4, "-o", tmp_path / "model"
    )
    assert code == 0
    assert "3 layers, 4 heads, width 32" in out


def test_a_model_is_written_over_by_force_alone(
    capsys: pytest.CaptureFixture[str], checkpoint: Path, tmp_path: Path
) -> None:
    folder = tmp_path / "model"
    words = ("import", checkpoint, "--from", "yang", "-o", folder, "--heads")
    assert run(capsys, *words, 2)[0] == 0
    before = {path.name: path.read_bytes() for path in folder.iterdir()}
    code, _, err = run(capsys, *words, 4)
    assert code == 2
    assert "holds a model already" in err
    assert {path.name: path.read_bytes() for path in folder.iterdir()} == before
    assert run(capsys, *words, 4, "--force")[0] == 0
    assert json.loads((folder / "config.json").read_text())["model"]["backbone"]["heads"] == 4


def test_a_training_run_is_never_written_over(
    capsys: pytest.CaptureFixture[str], checkpoint: Path, tmp_path: Path
) -> None:
    folder = tmp_path / "run"
    folder.mkdir()
    (folder / "state.pt").write_bytes(b"precious")
    code, _, err = run(
        capsys, "import", checkpoint, "--from", "yang", "--heads", 2, "-o", folder, "--force"
    )
    assert code == 2
    assert "is a training run" in err
    assert [path.name for path in folder.iterdir()] == ["state.pt"]


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["--from", "garg", "--heads", "2"], "is a checkpoint of yang's code, not of garg's"),
        (["--from", "yang", "--heads", "3"], "3 heads do not divide the width 8"),
        (["--from", "yang", "--heads", "2", "--inject", "add"], "without a number of loops"),
        (["--from", "yang", "--heads", "2", "--loops", "0"], "'loops' of Loop is 0"),
        (["--from", "yong", "--heads", "2"], "'yong'"),
        (["--from", "yang"], "--heads"),
    ],
)
def test_wrong_words_are_told_and_nothing_is_written(
    capsys: pytest.CaptureFixture[str],
    checkpoint: Path,
    tmp_path: Path,
    words: list[str],
    told: str,
) -> None:
    folder = tmp_path / "model"
    code, _, err = run(capsys, "import", checkpoint, *words, "-o", folder)
    assert code == 2
    assert told in err
    assert not folder.exists()


@pytest.mark.parametrize("content", [b"", b"no checkpoint", None])
def test_bad_files_are_told_and_nothing_is_written(
    capsys: pytest.CaptureFixture[str], checkpoint: Path, tmp_path: Path, content: bytes | None
) -> None:
    whole = checkpoint.read_bytes()
    checkpoint.write_bytes(whole[: len(whole) // 2] if content is None else content)
    folder = tmp_path / "model"
    code, _, err = run(capsys, "import", checkpoint, "--from", "yang", "--heads", 2, "-o", folder)
    assert code == 2
    assert "damaged" in err
    assert len(err.strip().splitlines()) == 1
    assert not folder.exists()
