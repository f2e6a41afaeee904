"""What files declare is refused before it is in memory: the peak of a process of its own."""

import subprocess
import sys
import zipfile
from collections.abc import Callable
from io import BytesIO
from pathlib import Path
from typing import Any

import pytest
import torch

from innerloop.core.files import read_json
from innerloop.core.seal import sealed_json
from innerloop.models import Stack, TransformerConfig, build, save
from innerloop.models.checkpoint import CONFIG
from innerloop.training.state_file import write_state

MOST = 100
"""Megabytes that may be allocated before the refusal."""
MEASURE = """
import resource, sys
from pathlib import Path
from innerloop.core.errors import InnerloopError
from innerloop.models import load
from innerloop.models.imports import import_garg
from innerloop.training.state_file import read_state
for folder in sys.argv[1:]:
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    try:
        state = (Path(folder) / "state.pt").is_file()
        read_state(Path(folder), "key") if state else load(folder)
        outcome = "accepted"
    except InnerloopError:
        outcome = "refused"
    if state:
        try:
            import_garg(Path(folder) / "state.pt", heads=1)
            outcome = "accepted"
        except InnerloopError:
            pass
    now = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    print(outcome, (now - before) // 1024)
"""


def model(folder: Path, **sizes: int) -> None:
    """A small model whose configuration declares other sizes."""
    stack = Stack(layers=2, width=8, heads=2)
    save(build(TransformerConfig(dims=3, points=5, backbone=stack)), folder)
    values = read_json(folder / CONFIG, missing="it was just written")
    for name, size in sizes.items():
        place = values["model"]["backbone"] if name in ("layers", "width") else values["model"]
        place[name] = size
    (folder / CONFIG).write_bytes(sealed_json(values))


def state(folder: Path, value: Any) -> None:
    folder.mkdir()
    write_state(folder, {"key": "key", "weights": {"w": value}})


def bomb(folder: Path) -> None:
    """A few hundred kilobytes that unpack to 200 MB."""
    folder.mkdir()
    plain = BytesIO()
    torch.save({"w": torch.zeros(50 * 2**20)}, plain)
    with (
        zipfile.ZipFile(plain) as old,
        zipfile.ZipFile(folder / "state.pt", "w", zipfile.ZIP_DEFLATED) as new,
    ):
        for name in old.namelist():
            new.writestr(name, old.read(name))


HOSTILE: dict[str, Callable[[Path], None]] = {
    "points": lambda folder: model(folder, points=10**9),
    "layers": lambda folder: model(folder, layers=10**6),
    "width": lambda folder: model(folder, width=10**6),
    "dims": lambda folder: model(folder, dims=10**9),
    "strides": lambda folder: state(folder, torch.zeros(1).expand(100_000, 128_000)),
    "sparse": lambda folder: state(folder, torch.eye(3).to_sparse()),
    "meta": lambda folder: state(folder, torch.zeros(10**10, device="meta")),
    "bomb": bomb,
}


@pytest.mark.slow
def test_no_declared_size_is_allocated(tmp_path: Path) -> None:
    pytest.importorskip("resource", reason="peaks of memory are counted as Unix does")
    for name, make in HOSTILE.items():
        make(tmp_path / name)
    folders = [str(tmp_path / name) for name in HOSTILE]
    ended = subprocess.run(
        [sys.executable, "-c", MEASURE, *folders], capture_output=True, text=True, check=True
    )
    outcomes = [line.split() for line in ended.stdout.splitlines()]
    assert [outcome for outcome, _ in outcomes] == ["refused"] * len(HOSTILE)
    peaks = dict(zip(HOSTILE, (int(peak) for _, peak in outcomes), strict=True))
    assert max(peaks.values()) < MOST, peaks
