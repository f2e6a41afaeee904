"""What the folder of a fuzzed command line holds: a run, a circuit, and files in the way."""

from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory

import innerloop as il
from innerloop.circuits.table import compile
from innerloop.models import save
from tests.training.configs import tiny

RUN = f"runs/tiny-{tiny().key()}"
FOLDERS = ("run", RUN, "circuit")
"""Folders with weights: a run by two names, and a circuit."""
PLACES = (
    *FOLDERS, "empty", "runs", "out", "out/deep", "out.json", "out.zip", "file.txt", "file.txt/in",
    "-", ".",
)  # fmt: skip
"""Places that verbs may read from, or write to, or must refuse."""


@cache
def _place() -> TemporaryDirectory[str]:
    return TemporaryDirectory(prefix="innerloop-template-")  # until the process ends


@cache
def template() -> Path:
    """The folder; it is made once in a process."""
    folder = Path(_place().name)
    run = il.train(tiny(), store=folder / "runs", name="tiny")
    assert run.path == folder / RUN
    run.path.joinpath("lock").unlink(missing_ok=True)
    (folder / "run").mkdir()
    for file in run.path.iterdir():
        (folder / "run" / file.name).write_bytes(file.read_bytes())
    save(compile("newton-relu", dims=2, steps=2, points=4), folder / "circuit")
    (folder / "empty").mkdir()
    (folder / "file.txt").write_text("in the way")
    return folder
