"""Yang et al. (2024): Looped Transformers are Better at Learning Learning Algorithms."""

from typing import TYPE_CHECKING

from innerloop.core.lazy import import_at_first_use

if TYPE_CHECKING:
    from innerloop.studies.yang2024.distinct_prompts import fig5
    from innerloop.studies.yang2024.families import fig10
    from innerloop.studies.yang2024.fixed_points import fig2, fig3
    from innerloop.studies.yang2024.loop_grid import fig4
    from innerloop.studies.yang2024.needed_loops import fig9
    from innerloop.studies.yang2024.probes import fig8
    from innerloop.studies.yang2024.schedules import fig17
    from innerloop.studies.yang2024.shape import fig7
    from innerloop.studies.yang2024.shifts import fig6, fig16
    from innerloop.studies.yang2024.sparsity import fig11
    from innerloop.studies.yang2024.tables import table2

__all__ = [
    "fig2", "fig3", "fig4", "fig5", "fig6", "fig7", "fig8", "fig9", "fig10", "fig11", "fig16",
    "fig17", "table2",
]  # fmt: skip

import_at_first_use(__name__)
