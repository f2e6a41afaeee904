"""Akyurek et al. (2022): What Learning Algorithm Is In-Context Learning? With linear models."""

from typing import TYPE_CHECKING

from innerloop.core.lazy import import_at_first_use

if TYPE_CHECKING:
    from innerloop.studies.akyurek2022.agreement import fig1
    from innerloop.studies.akyurek2022.bayes import fig2
    from innerloop.studies.akyurek2022.lemma import lemma1
    from innerloop.studies.akyurek2022.probes import fig4
    from innerloop.studies.akyurek2022.sizes import fig3
    from innerloop.studies.akyurek2022.theorems import thm1, thm2

__all__ = ["fig1", "fig2", "fig3", "fig4", "lemma1", "thm1", "thm2"]

import_at_first_use(__name__)
