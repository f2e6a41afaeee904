"""Chen et al. (2025): Bypassing the Exponential Dependency, linear looped transformers."""

from typing import TYPE_CHECKING

from innerloop.core.lazy import import_at_first_use

if TYPE_CHECKING:
    from innerloop.studies.chen2025.condition_numbers import fig1
    from innerloop.studies.chen2025.theorems import thm42, thm45
    from innerloop.studies.chen2025.training import train

__all__ = ["fig1", "thm42", "thm45", "train"]

import_at_first_use(__name__)
