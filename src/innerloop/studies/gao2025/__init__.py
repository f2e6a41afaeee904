"""Gao et al. (2025): AlgoFormer: An Efficient Transformer Framework with Algorithmic Structures."""

from typing import TYPE_CHECKING

from innerloop.core.lazy import import_at_first_use

if TYPE_CHECKING:
    from innerloop.studies.gao2025.loops import fig3
    from innerloop.studies.gao2025.models import fig2a, fig2b, fig2c
    from innerloop.studies.gao2025.newton import fig5
    from innerloop.studies.gao2025.sizes import fig4
    from innerloop.studies.gao2025.text_classification import table2
    from innerloop.studies.gao2025.theorems import thm31, thm32, thm33, thm41, thm42
    from innerloop.studies.gao2025.translation import table1

__all__ = [
    "fig2a", "fig2b", "fig2c", "fig3", "fig4", "fig5", "table1", "table2", "thm31", "thm32",
    "thm33", "thm41", "thm42",
]  # fmt: skip

import_at_first_use(__name__)
