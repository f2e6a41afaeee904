"""Powers of two that extreme inputs are measured in, so that their squares stay in range.

Multiplying by a power of two is exact. A prompt whose numbers are of ordinary size has the unit 1
and is left as it is.
"""

import torch
from torch import Tensor

from innerloop.core.errors import RangeError
from innerloop.core.prompt import Prompt

ORDINARY = 2.0**128
"""Numbers up to this size, and down to its inverse, have fourth powers in the range of float64."""


def powers_of_two(sizes: Tensor) -> Tensor:
    """The largest power of two that is not above each size; 1 for ordinary sizes and for zero."""
    extreme = (sizes > ORDINARY) | ((sizes < 1 / ORDINARY) & (sizes > 0))  # (..)
    if not bool(extreme.any()):
        return torch.ones_like(sizes)
    exponents = torch.frexp(sizes).exponent - 1  # (..)
    return torch.where(extreme, torch.ldexp(torch.ones_like(sizes), exponents), 1.0)


def input_units(name: str, prompt: Prompt, *, span: float) -> Tensor:
    """The unit of each prompt's examples: (B,) in float64.

    An input that is `span` times smaller than the unit is lost to the learner of that name, though
    it may be all that the first prefixes have: such prompts are refused.
    """
    rows = _row_sizes(prompt)  # (B, n)
    largest = rows.amax(dim=1)  # (B,)
    smallest = torch.where(rows == 0, torch.inf, rows).amin(dim=1)  # (B,)
    units = powers_of_two(largest)  # (B,)
    lost = smallest / units < 1 / span  # (B,)
    if bool(lost.any()):
        b = int(torch.nonzero(lost)[0])
        raise RangeError(
            f"{name} cannot tell the inputs of prompt {b} of {prompt.batch} apart, whose sizes "
            f"reach from {float(smallest[b]):.1e} to {float(largest[b]):.1e}: scale them, or "
            "leave the smallest out."
        )
    return units


def output_units(prompt: Prompt) -> Tensor:
    """The unit of each output of each prompt's examples: (B, k) in float64."""
    sizes = prompt.ys.double().abs()  # (B, n, k)
    sizes[:, -1] = 0
    return powers_of_two(sizes.amax(dim=1))


def in_units(xs: Tensor, units: Tensor) -> Tensor:
    """Inputs (R, n, d) in units (R,): themselves where all units are 1.

    Else the last input, the question, is zero: no prefix has it, and it may not fit the unit.
    """
    if bool((units == 1).all()):
        return xs
    scaled = xs / units[:, None, None]  # (R, n, d)
    scaled[:, -1] = 0
    return scaled


def _row_sizes(prompt: Prompt) -> Tensor:
    """The largest number of each example, (B, n) in float64; zero for the question at the end."""
    sizes = prompt.xs.abs().amax(dim=2).double()  # (B, n); ten times as fast as vector_norm
    sizes[:, -1] = 0
    return sizes
