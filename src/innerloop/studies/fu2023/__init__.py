"""Fu et al. (2023): Transformers Learn Higher-Order Optimization Methods."""

from innerloop.studies.fu2023.candidates import fig7, fig9
from innerloop.studies.fu2023.forgetting import fig5
from innerloop.studies.fu2023.ill_conditioned import fig4
from innerloop.studies.fu2023.matching import fig3, fig14
from innerloop.studies.fu2023.progression import fig1
from innerloop.studies.fu2023.span import fig16
from innerloop.studies.fu2023.theorems import b3, thm1

__all__ = ["b3", "fig1", "fig3", "fig4", "fig5", "fig7", "fig9", "fig14", "fig16", "thm1"]
