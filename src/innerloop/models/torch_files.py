"""Files of `torch.save` from anywhere: nothing in them is run, and none takes more than it is.

A few kilobytes can declare terabytes: tensors whose strides are 0, archives that unpack to more.
"""

import zipfile
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

_SHARED = 4
"""How many tensors may share numbers, on average: the tied weights of a model do."""


def load_plain(path: Path, *, mapped: bool = False) -> Any:
    """What a file of torch holds, if that is tensors and plain values.

    Where it is mapped into memory, no tensor is copied there. What a damaged, foreign or hostile
    file raises is any error that torch likes, or a ValueError.
    """
    size = path.stat().st_size
    _require_unpacked(path, size)
    values = torch.load(path, map_location="cpu", weights_only=True, mmap=mapped)
    _require_dense(values, size)
    return values


def _require_unpacked(path: Path, size: int) -> None:
    """Refuse an archive that would unpack to more than it is; older files are none."""
    if not zipfile.is_zipfile(path):
        return
    with zipfile.ZipFile(path) as archive:
        parts = archive.infolist()
    packed = any(part.compress_type != zipfile.ZIP_STORED for part in parts)
    if packed or sum(part.file_size for part in parts) > size:
        raise ValueError("torch.save compresses nothing, and the parts of this are more than it")


def _require_dense(values: Any, size: int) -> None:
    """Refuse tensors that are more than the numbers in the file: views of few, sparse, or none."""
    declared, seen = 0, set[int]()
    rest: list[Any] = [values]
    while rest:  # not by recursion: values may be nested as deeply as the file likes
        value = rest.pop()
        if id(value) in seen:
            continue
        seen.add(id(value))
        if isinstance(value, dict):
            rest += [*value, *value.values()]
        elif isinstance(value, list | tuple | set):
            rest += value
        elif isinstance(value, Tensor):
            if value.layout != torch.strided or value.device.type != "cpu":
                raise ValueError(f"a tensor is {value.layout} on {value.device}")
            if value.nbytes > value.untyped_storage().nbytes():
                raise ValueError("a tensor has more numbers than the file has for it")
            declared += value.nbytes
    if declared > _SHARED * size:
        raise ValueError("its tensors have more numbers than the file")
