"""Numbers as people say them."""

import humanize

_LONGEST = 1000 * 365 * 24 * 3600
"""A thousand years, in seconds."""


def duration(seconds: float) -> str:
    """`a moment`, `12 seconds`, `7 minutes`, `3 hours and 30 minutes`, `50 hours`."""
    if not seconds < _LONGEST:
        return "more than a thousand years"
    if seconds < 1:
        return humanize.naturaldelta(seconds)
    unit = "seconds" if seconds < 60 else "minutes" if seconds < 10 * 3600 else "hours"
    longer = ("days", "months", "years")
    return humanize.precisedelta(seconds, minimum_unit=unit, suppress=longer, format="%.0f")


def count(number: int, noun: str) -> str:
    """`1 study`, `3 studies`, `51,969 parameters`."""
    plural = f"{noun[:-1]}ies" if noun.endswith("y") else f"{noun}s"
    return f"{number:,} {noun if number == 1 else plural}"
