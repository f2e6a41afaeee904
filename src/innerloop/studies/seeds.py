"""The seeds that studies are trained with, as text: `3` are 0, 1 and 2; `3-5` are 3, 4 and 5."""

import re

from innerloop.core.errors import ConfigurationError

Seeds = tuple[int, ...]
"""The seeds of training: all models of a study are trained once with each."""


MOST = 1000
"""Seeds of one command; every model is trained once with each."""


def read_seeds(text: str) -> Seeds:
    """The seeds that a text names: so many from 0 on, or from the first to the last."""
    ends = re.fullmatch(r"([0-9]{1,18})(?:-([0-9]{1,18}))?", text)
    first, last = (0, 0) if ends is None else (int(ends[1]), int(ends[2] or 0))
    seeds = range(first, last + 1) if "-" in text else range(first)
    if ends is None or not seeds:
        raise ConfigurationError(
            f"seeds are {text!r}, expected their number, as 3, or the first and the last, as 3-5."
        )
    if len(seeds) > MOST:
        raise ConfigurationError(
            f"seeds are {text!r}, which are {len(seeds)}: expected at most {MOST}."
        )
    return tuple(seeds)


def write_seeds(seeds: Seeds) -> str:
    """The text that names these seeds, which follow each other."""
    return str(len(seeds)) if seeds[0] == 0 else f"{seeds[0]}-{seeds[-1]}"
