"""Numbers, generators and functions of the wrong kind, refused in one sentence where they enter.

`expects.py` does the same for learners, prompts and tasks.
"""

from numbers import Integral, Real
from typing import Any

import torch

from innerloop.core.errors import ConfigurationError

LARGEST = 2**63 - 1
"""What torch can count to."""


def expect_count(name: str, value: Any, *, least: int | None = 1) -> None:
    """Refuse what is not a whole number, or is below the least, if there is one."""
    if isinstance(value, bool) or not isinstance(value, Integral):
        raise ConfigurationError(f"{name} is {value!r}, expected a whole number.")
    if least is not None and value < least:
        wanted = "0 or more" if least == 0 else f"at least {least}"
        raise ConfigurationError(f"{name} is {value}, expected {wanted}.")
    if int(value) > LARGEST:
        raise ConfigurationError(f"{name} is too large, expected less than 2^63.")


def expect_number(name: str, value: Any) -> None:
    """Refuse what is not a number that can be compared."""
    if isinstance(value, bool) or not isinstance(value, Real):
        raise ConfigurationError(f"{name} is {value!r}, expected a number.")


def expect_device(value: Any) -> None:
    """Refuse a device that torch does not know, or that this machine does not have."""
    try:
        torch.empty(0, device=value)
    except (RuntimeError, AssertionError, TypeError) as error:
        known = "'cpu', or 'cuda' where there is a GPU"
        raise ConfigurationError(
            f"device is {value!r}, which torch cannot use here: give {known}."
        ) from error


def expect_generator(value: Any) -> None:
    """Refuse what is not a generator; a seed is made into one by the caller, who then owns it."""
    if isinstance(value, torch.Generator):
        return
    if isinstance(value, int):
        raise ConfigurationError(
            f"generator is the number {value}, expected a torch.Generator: give "
            f"generator=torch.Generator().manual_seed({value}); only functions with seed= take "
            "the number itself."
        )
    raise ConfigurationError(
        f"generator is a {type(value).__name__}, expected a torch.Generator: give "
        "generator=torch.Generator().manual_seed(0)."
    )


def expect_seed(value: Any) -> None:
    """Refuse a seed that torch cannot take."""
    if isinstance(value, torch.Generator):
        raise ConfigurationError(
            "seed is a generator, expected a whole number such as seed=0: the generator is made "
            "from it."
        )
    expect_count("seed", value, least=0)


def expect_function(name: str, value: Any, what: str) -> None:
    """Refuse what cannot be called; `what` says which function is wanted."""
    if isinstance(value, type) or not callable(value):
        given = repr(value) if isinstance(value, str) else f"a {type(value).__name__}"
        raise ConfigurationError(f"{name} is {given}, expected a function: {what}.")
