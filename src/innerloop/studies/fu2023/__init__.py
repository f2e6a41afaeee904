"""Fu et al. (2023): Transformers Learn Higher-Order Optimization Methods."""

from typing import TYPE_CHECKING

from innerloop.core.lazy import import_at_first_use

if TYPE_CHECKING:
    from innerloop.studies.fu2023.ill_conditioned import fig4
    from innerloop.studies.fu2023.layer_errors import fig1
    from innerloop.studies.fu2023.layer_matches import fig3, fig14
    from innerloop.studies.fu2023.lstm import fig5
    from innerloop.studies.fu2023.span import fig16
    from innerloop.studies.fu2023.theorems import b3, thm1
    from innerloop.studies.fu2023.weights_and_algorithms import fig7, fig9

__all__ = ["b3", "fig1", "fig3", "fig4", "fig5", "fig7", "fig9", "fig14", "fig16", "thm1"]

import_at_first_use(__name__)
