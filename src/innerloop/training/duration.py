"""How long something takes: a number of steps, or a share of all steps of a run."""

from typing import Annotated

from pydantic import AfterValidator


def _checked(value: int | float) -> int | float:
    whole = float(value).is_integer()
    if value < 0 or (value >= 1 and not whole):
        raise ValueError(
            f"{value:g} is neither a number of steps nor a share of them: give 0, 1, 2, .. steps, "
            "or a share between 0 and 1, such as 0.05"
        )
    # 200 and 200.0 are the same run.
    return int(value) if whole else value


Duration = Annotated[int | float, AfterValidator(_checked)]
"""Steps where it is whole, and where it lies between 0 and 1 a share of the run's steps."""


def in_steps(duration: int | float, steps: int) -> int:
    """The number of steps of a run of `steps`; a share is at least one step."""
    return duration if isinstance(duration, int) else max(1, round(duration * steps))
