"""Numbers that leave the range of floating point: refused, unless a measure makes sense of them."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar

import torch
from torch import Tensor

from innerloop.core.errors import RangeError

_allowed: ContextVar[bool] = ContextVar("overflow", default=False)


@contextmanager
def overflow_allowed() -> Iterator[None]:
    """Let the answers inside the `with` be infinite or NaN.

    This is for measures that say what becomes of an iteration that diverges: it is far from
    everything, its error is infinite.
    """
    token = _allowed.set(True)
    try:
        yield
    finally:
        _allowed.reset(token)


def refuse_overflow(name: str, values: Tensor, cause: Callable[[int], str]) -> Tensor:
    """Return the values (B, ..), or raise a RangeError where some are not finite.

    `cause` gives the end of the sentence, for the first prompt of the batch that is to blame.
    """
    if _allowed.get():
        return values
    # The extremes of what holds NaN are NaN: ten times quicker than looking at each value.
    if bool(torch.isfinite(torch.stack(torch.aminmax(values))).all()):
        return values
    bad = ~torch.isfinite(values).flatten(1).all(dim=1)  # (B,)
    first = int(torch.nonzero(bad)[0])
    raise RangeError(f"{name} overflows on prompt {first} of {len(values)}: {cause(first)}.")
