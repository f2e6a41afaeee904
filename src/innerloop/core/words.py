"""Numbers as people say them, and text that only says something."""

import unicodedata

_LONGEST = 1000 * 365 * 24 * 3600
"""A thousand years, in seconds."""


def duration(seconds: float) -> str:
    """`a moment`, `12 seconds`, `7 minutes`, `3 hours and 30 minutes`, `50 hours`."""
    import humanize  # here, since the command line starts without it

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


_ORDER = frozenset("\u061c\u200e\u200f\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069")
"""What turns the order of letters round."""


def printable(text: str) -> str:
    """The text without what would command a terminal, or show letters in another order.

    Line breaks and tabs stay; each other control character becomes a sign that something was there,
    as do the bytes of names of files that are no text.
    """
    if text.isprintable():
        return text
    return "".join(
        "\ufffd"
        if letter in _ORDER
        or (letter not in "\n\t" and unicodedata.category(letter) in ("Cc", "Cs"))
        else letter
        for letter in text
    )
