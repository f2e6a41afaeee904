"""The state of a run on disk: sealed, checked whenever it is read, with the one before beside it.

It is a file of torch.save whose comment, which zip files may have, is the seal. Nothing in it is
ever executed.
"""

import mmap
import os
import shutil
from io import BytesIO
from pathlib import Path
from typing import Any

import torch

from innerloop.core.errors import InnerloopError
from innerloop.core.files import write_atomically
from innerloop.core.seal import SEAL, DamagedError, notice_unsealed, require_intact, sealed
from innerloop.models.torch_files import load_plain

STATE = "state.pt"
PREVIOUS = "previous.pt"
"""The checkpoint before that of `state.pt`: what is left if that is damaged."""
FORMAT = 1
_NEEDED = {
    "format", "key", "step", "finished", "metrics", "error", "threads", "torch",
    "weights", "optimizers", "divergence",
}  # fmt: skip
_LIMITS = {"step": (0, 2**63), "metrics": (0, 2**63), "threads": (1, 1024)}
"""Far more threads than any machine has cores would end the process that asks for them."""


class RunError(InnerloopError):
    """A run's folder that cannot be used as it is."""


class StartOverError(RunError):
    """A run that can neither be used nor resumed: what there is of it must go."""

    def __init__(self, problem: str, folder: Path, other: str = "") -> None:
        """The sentence says the problem, and what to do: `other`, if there is another way out.

        Whoever trains by another command than `innerloop train` writes the second half anew.
        """
        self.problem, self.other = problem, other
        ways = ", ".join([*([other] if other else []), f"delete the folder {folder.name}"])
        super().__init__(f"{problem}: {ways}, or train with --fresh, to start over.")


def write_state(folder: Path, state: dict[str, Any]) -> None:
    """Put a state in the place of the last one, which becomes the previous one."""
    written = BytesIO()
    torch.save({"format": FORMAT, **state}, written)
    # A comment ends a zip file, and the two bytes before it are its length.
    written.seek(-2, os.SEEK_END)
    written.write(len(SEAL).to_bytes(2, "little") + SEAL.encode())
    content = sealed(written.getvalue())
    last = folder / STATE
    if last.is_file():
        write_atomically(folder / PREVIOUS, lambda file: _same_file(last, file))
    write_atomically(last, lambda file: file.write_bytes(content))


def read_state(folder: Path, key: str, *, mapped: bool = False) -> dict[str, Any]:
    """The state in a folder, of the run with this key; a RunError if it is damaged, or another's.

    Where it is mapped into memory, no tensor is copied there: the file itself says how far a run
    is, and needs no second one that could disagree with it.
    """
    try:
        return _read(folder / STATE, key, mapped=mapped)
    except _UnusableError as error:
        raise StartOverError(str(error), folder, other=other_way(folder, key)) from error


def other_way(folder: Path, key: str) -> str:
    """How to go on from the previous checkpoint, if there is a good one; empty if not."""
    try:
        step = _read(folder / PREVIOUS, key, mapped=True)["step"]
    except InnerloopError:
        return ""
    return f"rename {PREVIOUS} to {STATE} there to go on from step {step}"


def _is_number(value: Any, limits: tuple[int, int]) -> bool:
    return isinstance(value, int) and limits[0] <= value <= limits[1]


class _UnusableError(InnerloopError):
    """A file that is no state of the run; the message is a problem, without a remedy."""


def _read(path: Path, key: str, *, mapped: bool) -> dict[str, Any]:
    try:
        with (
            path.open("rb") as file,
            mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as content,
        ):
            checked = require_intact(content, path)
        state = load_plain(path, mapped=mapped)
    except (FileNotFoundError, PermissionError) as error:
        raise RunError(f"cannot read {path}: {error.strerror}.") from error
    except DamagedError as error:
        problem = "is damaged: its content does not match its checksum"
        raise _UnusableError(f"{path} {problem}") from error
    # What a damaged or foreign file raises is not documented: anything but an interrupt.
    except Exception as error:
        raise _UnusableError(f"{path} is damaged, or no state of a run") from error
    whole = isinstance(state, dict) and set(state) >= _NEEDED and state["format"] == FORMAT
    if not whole or not all(_is_number(state[name], limits) for name, limits in _LIMITS.items()):
        raise _UnusableError(f"{path} holds no state of a run")
    if state["key"] != key:
        raise _UnusableError(f"{path} is the state of another run, {state['key']}")
    if not checked and not mapped:  # a glance is not worth a notice
        notice_unsealed(path)
    return state


def _same_file(source: Path, target: Path) -> None:
    """Let a second name have what the first has; a copy, where the disk has no links."""
    target.unlink()
    try:
        os.link(source, target)
    except OSError:
        shutil.copyfile(source, target)
