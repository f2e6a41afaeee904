"""Studies: every claim of the papers, with a verdict; and the circuits beside their algorithms.

The pieces of a study are exported here, for the papers' folders and for studies in other packages.
"""

from typing import TYPE_CHECKING

from innerloop.core.lazy import import_at_first_use

if TYPE_CHECKING:
    from innerloop.studies import nulls
    from innerloop.studies.claim import (
        Claim,
        Criterion,
        Judged,
        Premise,
        at_least,
        at_most,
        between,
    )
    from innerloop.studies.lab import Lab
    from innerloop.studies.runs import trained
    from innerloop.studies.study import Measures, Runs, Scale, Study, Tables, declare

__all__ = [
    "Claim",
    "Criterion",
    "Judged",
    "Lab",
    "Measures",
    "Premise",
    "Runs",
    "Scale",
    "Study",
    "Tables",
    "at_least",
    "at_most",
    "between",
    "declare",
    "nulls",
    "trained",
]

import_at_first_use(__name__)
